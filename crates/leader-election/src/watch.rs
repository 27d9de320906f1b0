//! Watches one Lease, so that the elector learns of changes before its next poll. The watch never
//! ends: after a failure it begins anew, and meanwhile the elector polls.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::BodyExt;
use kube_endpoint_api_client::AnswerBody;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until, timeout};

use crate::lease::Lease;
use crate::observation::Event;
use crate::options::ElectorOptions;
use crate::requests::LeaseClient;

/// The shortest time for which the API server keeps a watch open; the longest is twice that.
/// client-go's reflector does the same.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// The longest line, in bytes. A longer one ends the watch.
const MAX_LINE: usize = 2 << 20;

/// Watches the Lease and sends its events.
///
/// A watch begins with the present state, so the caller lists nothing after a failure. If a watch
/// is silent for a lease duration, this function opens a new one: a leader renews more often, so
/// the connection may be dead. It opens at most one watch in a retry period.
pub(crate) async fn watch(
    client: LeaseClient,
    options: ElectorOptions,
    seed: u64,
    events: Sender<Event>,
) -> Infallible {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut reported = None;
    loop {
        let opened = Instant::now();
        let duration = WATCH_TIMEOUT.mul_f64(random.random_range(1.0..2.0));
        let ended = match timeout(options.lease_duration, client.watch(duration)).await {
            Err(_) => Err("no answer to a watch".to_owned()),
            Ok(Err(error)) => Err(error),
            Ok(Ok(body)) => read(body, &options, &events).await,
        };
        match ended {
            Err(error) if reported.as_ref() != Some(&error) => {
                tracing::warn!(
                    lease = options.lease(),
                    error,
                    "the lease cannot be watched, it is only polled"
                );
                reported = Some(error);
            }
            Err(_) => {}
            Ok(()) => reported = None,
        }
        let wait = options.retry_period.mul_f64(random.random_range(1.0..2.0));
        sleep_until(opened + wait).await;
    }
}

/// Reads events until the watch ends or is silent.
async fn read(mut body: AnswerBody, options: &ElectorOptions, events: &Sender<Event>) -> Result<(), String> {
    let mut text = Vec::new();
    loop {
        let Ok(frame) = timeout(options.lease_duration, body.frame()).await else { return Ok(()) };
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| error.to_string())?;
        let Ok(data) = frame.into_data() else { continue };
        text.extend_from_slice(&data);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if let Some(event) = event(&line)?.filter(|event| event.lease().name() == options.name) {
                // The receiver lives as long as this future.
                let _ = events.send(event).await;
            }
        }
        if text.len() > MAX_LINE {
            return Err(format!("an event of the watch is longer than {MAX_LINE} bytes"));
        }
    }
}

/// Decodes a line. Returns `None` for a bookmark, and for a type of event that this version does
/// not know.
fn event(line: &[u8]) -> Result<Option<Event>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut value: Value = serde_json::from_slice(line)
        .map_err(|error| format!("an event of the watch cannot be read: {error}"))?;
    let object = value.get_mut("object").map(Value::take).unwrap_or_default();
    match value["type"].as_str() {
        Some("ADDED" | "MODIFIED") => Ok(Lease::from_json(object).map(Event::Applied)),
        Some("DELETED") => Ok(Lease::from_json(object).map(Event::Deleted)),
        Some("ERROR") => {
            Err(object["message"].as_str().unwrap_or("the server ended the watch with an error").to_owned())
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_become_events() {
        let object = json!({"kind": "Lease", "metadata": {"name": "l", "resourceVersion": "5"}});
        let lease = Lease::from_json(object.clone()).unwrap();
        let check = |line: &str, want: Result<Option<Event>, &str>| {
            assert_eq!(event(line.as_bytes()), want.map_err(str::to_owned), "{line}");
        };
        let line = |kind: &str| format!("{}\n", json!({"type": kind, "object": object}));
        check(&line("ADDED"), Ok(Some(Event::Applied(lease.clone()))));
        check(&line("MODIFIED"), Ok(Some(Event::Applied(lease.clone()))));
        check(&line("DELETED"), Ok(Some(Event::Deleted(lease))));
        check(&line("BOOKMARK"), Ok(None));
        check(" \n", Ok(None));
        check(r#"{"type":"ADDED","object":null}"#, Ok(None));
        check(r#"{"type":5}"#, Ok(None));
        check("[]", Ok(None));
        check(r#"{"type":"ERROR","object":{"message":"too old"}}"#, Err("too old"));
        check(r#"{"type":"ERROR"}"#, Err("the server ended the watch with an error"));
        check(
            "{",
            Err("an event of the watch cannot be read: EOF while parsing an object at line 1 column 1"),
        );
    }
}

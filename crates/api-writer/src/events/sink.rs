//! Sends events and retries those that may have been lost.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kube_endpoint_core_model::time::rfc3339;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::mpsc;

use super::correlator::{Correlator, Delivery, Series};
use super::{EventSubject, Recorded};
use crate::clock::Clock;
use crate::error::WriteError;
use crate::writer::ApiWriter;

/// Number of attempts for an event (client-go `maxTriesPerEvent`).
const TRIES: u32 = 12;
/// Delay between attempts (client-go `defaultSleepDuration`).
const PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Sink {
    component: Arc<str>,
    writer: ApiWriter,
    clock: Clock,
    random: ChaCha8Rng,
    correlator: Correlator,
}

impl Sink {
    pub(super) fn new(component: Arc<str>, writer: ApiWriter, clock: Clock, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { component, writer, clock, random, correlator: Correlator::new() }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Recorded>) {
        while let Some(event) = queue.recv().await {
            let Some(Delivery { key, message, series }) = self.correlator.decide(&event) else { continue };
            if let Some(series) = self.deliver(&event, &message, series).await {
                self.correlator.sent(key, series);
            }
        }
    }

    async fn deliver(
        &mut self,
        event: &Recorded,
        message: &str,
        mut series: Option<Series>,
    ) -> Option<Series> {
        // One name for all attempts: if an answer was lost, the next create finds the event.
        let name = format!("{}.{:016x}", event.subject.name, self.random.next_u64());
        for attempt in 1..=TRIES {
            let outcome = match &series {
                Some(known) => self.increment_count(event, message, known).await,
                None => self.create(event, message, &name).await,
            };
            match outcome {
                Ok(series) => return Some(series),
                Err(WriteError::AlreadyExists(_)) if attempt > 1 => {
                    return Some(Series { name, first: event.at, count: 1 });
                }
                // The event has expired on the server: create a new one.
                Err(WriteError::NotFound(_)) if series.is_some() => series = None,
                // The namespace is terminating or deleted, and its events with it.
                Err(WriteError::NamespaceTerminating(_) | WriteError::NotFound(_)) => return None,
                Err(error @ (WriteError::Unknown(_) | WriteError::Busy { .. })) if attempt < TRIES => {
                    tracing::debug!(component = &*self.component, %error, "event not sent, will try again");
                    // The first delay is random, so that clients do not retry at the same time.
                    let pause = if attempt == 1 { PAUSE.mul_f64(self.random.random::<f64>()) } else { PAUSE };
                    tokio::time::sleep(pause).await;
                }
                Err(error) => {
                    tracing::warn!(
                        component = &*self.component, reason = event.reason, object = &*event.subject.name, %error,
                        "event given up"
                    );
                    return None;
                }
            }
        }
        None
    }

    async fn create(&self, event: &Recorded, message: &str, name: &str) -> Result<Series, WriteError> {
        let namespace = namespace_of(&event.subject);
        let at = in_seconds(event.at);
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": name, "namespace": namespace },
            "involvedObject": event.subject,
            "reason": event.reason,
            "message": message,
            "source": { "component": &*self.component },
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
            "type": event.event_type.as_str(),
            "reportingComponent": &*self.component,
            "reportingInstance": "",
        });
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.writer.send(Method::POST, &path, "application/json", body.to_string().into_bytes()).await?;
        Ok(Series { name: name.to_owned(), first: event.at, count: 1 })
    }

    async fn increment_count(
        &self,
        event: &Recorded,
        message: &str,
        known: &Series,
    ) -> Result<Series, WriteError> {
        let count = known.count + 1;
        let patch = serde_json::json!({
            "count": count,
            "message": message,
            "lastTimestamp": in_seconds(self.clock.now().max(event.at)),
        });
        let path = format!("/api/v1/namespaces/{}/events/{}", namespace_of(&event.subject), known.name);
        let body = patch.to_string().into_bytes();
        self.writer.send(Method::PATCH, &path, "application/merge-patch+json", body).await?;
        Ok(Series { count, ..known.clone() })
    }
}

fn namespace_of(subject: &EventSubject) -> &str {
    if subject.namespace.is_empty() { "default" } else { &subject.namespace }
}

fn in_seconds(time: kube_endpoint_core_model::Timestamp) -> String {
    let whole = kube_endpoint_core_model::Timestamp::from_second(time.as_second());
    rfc3339(whole.unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::EventRecorder;
    use crate::limiter::RequestLimiter;
    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::client::Body;
    use kube_endpoint_core_model::PlannedEvent;
    use std::sync::Mutex;

    /// Sends events to a server that answers with these codes in turn, then with 201. Returns the requests.
    async fn play(codes: &[u16], messages: &[&str]) -> Vec<String> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let codes = Arc::new(Mutex::new(codes.to_vec()));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, codes) = (Arc::clone(&log), Arc::clone(&codes));
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await.unwrap().to_bytes();
                let text = String::from_utf8(bytes.to_vec()).unwrap();
                log.lock().unwrap().push(format!("{} {} {text}", parts.method, parts.uri.path()));
                let mut codes = codes.lock().unwrap();
                let code = if codes.is_empty() { 201 } else { codes.remove(0) };
                Response::builder().status(code).body(Body::from(b"{}".to_vec()))
            }
        });
        let client = kube_endpoint_api_client::ApiClient::for_tests(service);
        let writer = ApiWriter::new(client, RequestLimiter::unlimited(), "test");
        let clock = Clock::starting_at("2024-01-01T00:00:00.7Z".parse().unwrap());
        let (recorder, task) = EventRecorder::new("endpoint-slice-controller", writer, clock, 1);
        for message in messages {
            let subject = EventSubject {
                api_version: "v1".into(),
                kind: "Service".into(),
                name: "web".into(),
                namespace: "shop".into(),
                resource_version: "5".into(),
                uid: "u".into(),
            };
            recorder.record(subject, &PlannedEvent::warning("FailedToUpdateEndpointSlices", *message));
        }
        drop(recorder);
        task.await;
        std::mem::take(&mut *seen.lock().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_created_and_then_counted_up() {
        insta::assert_snapshot!(play(&[], &["no node", "no node"]).await.join("\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn events_that_may_be_lost_are_retried_and_refused_ones_are_not() {
        let methods = |asked: Vec<String>| {
            asked.iter().map(|a| a.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(methods(play(&[500, 429], &["m"]).await), ["POST", "POST", "POST"]);
        assert_eq!(methods(play(&[422], &["m"]).await), ["POST"]);
        assert_eq!(methods(play(&[500, 409], &["m"]).await), ["POST", "POST"]);
        assert_eq!(methods(play(&[201, 404], &["m", "m"]).await), ["POST", "PATCH", "POST"]);
        assert_eq!(play(&[500; 50], &["m"]).await.len(), 12);
    }
}

//! Sends events, and sends those again that were not answered.
//!
//! Upstream: `recordToSink` and `recordEvent` of `event.go`. An answer with Retry-After is retried
//! by client-go's requests.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use kube_endpoint_api_client::ContentType;
use kube_endpoint_core_model::protobuf::EventToWrite;
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::{Admission, LogLimit, ObjectReference};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::correlator::{Correlator, Delivery, Series};
use super::{EventSubject, Recorded};
use crate::clock::Clock;
use crate::error::WriteError;
use crate::send::Formats;
use crate::writer::ApiWriter;

/// The plural resource name of events.
const EVENTS: &str = "events";
/// Number of attempts for an event (client-go `maxTriesPerEvent`).
const TRIES: u32 = 12;
/// Delay between attempts (client-go `defaultSleepDuration`).
const PAUSE: Duration = Duration::from_secs(10);
/// How often an event is delayed by responses with Retry-After (client-go `maxRetries` of a
/// request).
const MAX_BUSY: u32 = 10;
/// The longest delay before another attempt, whatever the server asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Sink {
    component: Arc<str>,
    writer: ApiWriter,
    clock: Clock,
    random: ChaCha8Rng,
    correlator: Correlator,
    lines: LogLimit,
}

impl Sink {
    pub(super) fn new(component: Arc<str>, writer: ApiWriter, clock: Clock, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { component, writer, clock, random, correlator: Correlator::new(), lines: LogLimit::default() }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Recorded>, stopped: Arc<Notify>) {
        loop {
            let event = tokio::select! {
                biased;
                () = stopped.notified() => {
                    queue.close();
                    continue;
                }
                event = queue.recv() => event,
            };
            let Some(event) = event else { return };
            let name = format!("{}.{:016x}", event.subject.name, self.random.next_u64());
            let Some(Delivery { key, message, series }) = self.correlator.decide(&event, name) else {
                continue;
            };
            if self.deliver(&event, &message, &series).await {
                self.correlator.stored(key, series);
            }
        }
    }

    /// Sends an event. Returns true if the server has stored it. Gives up an event that the server
    /// refuses, so that it does not hold up others. Sends it again if there was no answer, or if
    /// the answer says when to retry.
    async fn deliver(&mut self, event: &Recorded, message: &str, series: &Series) -> bool {
        let (mut unanswered, mut busy) = (0, 0);
        loop {
            let error = match self.send(event, message, series).await {
                Ok(()) => return true,
                Err(error) => error,
            };
            let pause = match &error {
                // The name is one of our own: the answer to an earlier attempt was lost.
                WriteError::AlreadyExists(_) if unanswered > 0 => return true,
                WriteError::Busy { retry_after: Some(pause), .. } if busy < MAX_BUSY => {
                    busy += 1;
                    (*pause).min(LONGEST_PAUSE)
                }
                WriteError::Unknown(_) if unanswered + 1 < TRIES => {
                    unanswered += 1;
                    // The first delay is random, so that clients do not retry at the same time.
                    if unanswered == 1 { PAUSE.mul_f64(self.random.random::<f64>()) } else { PAUSE }
                }
                WriteError::NamespaceTerminating(_) | WriteError::AlreadyExists(_) | WriteError::Fenced => {
                    tracing::debug!(component = &*self.component, %error, "event refused");
                    return false;
                }
                error => {
                    if let Admission::Write { left_out } = self.lines.admit(Instant::now().into_std()) {
                        tracing::warn!(
                            component = &*self.component, reason = event.reason, object = &*event.subject.name,
                            %error, left_out, "event given up"
                        );
                    }
                    return false;
                }
            };
            tracing::debug!(component = &*self.component, %error, ?pause, "event not sent, will try again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends an event once. If the event to update no longer exists, because it expired, creates it
    /// again with the count and the first time of the series.
    async fn send(&self, event: &Recorded, message: &str, series: &Series) -> Result<(), WriteError> {
        if series.count > 1 {
            match self.increment_count(event, message, series).await {
                Err(WriteError::NotFound(_)) => {}
                done => return done,
            }
        }
        self.create(event, message, series).await
    }

    async fn create(&self, event: &Recorded, message: &str, series: &Series) -> Result<(), WriteError> {
        let namespace = namespace_of(&event.subject);
        let path = format!("/api/v1/namespaces/{namespace}/events");
        loop {
            let content_type = self.writer.client.content_type_of(EVENTS);
            let body = match content_type {
                ContentType::Protobuf => self.in_protobuf(event, message, series),
                ContentType::Json => self.in_json(event, message, series),
            };
            let formats = Formats::metadata(content_type);
            let answer = self.writer.send_event(Method::POST, &path, formats, body).await;
            if !self.writer.is_refused_encoding(EVENTS, content_type, &answer) {
                return answer;
            }
        }
    }

    fn in_protobuf(&self, event: &Recorded, message: &str, series: &Series) -> Vec<u8> {
        let EventSubject { api_version, kind, name, namespace, resource_version, uid } =
            event.subject.clone();
        let involved_object = ObjectReference {
            api_version,
            kind,
            name,
            namespace,
            resource_version,
            uid,
            ..ObjectReference::default()
        };
        let event = EventToWrite {
            name: &series.name,
            namespace: namespace_of(&event.subject),
            involved_object,
            reason: event.reason,
            message,
            component: &self.component,
            first: series.first,
            last: event.at,
            count: i32::try_from(series.count).unwrap_or(i32::MAX),
            event_type: event.event_type.as_str(),
        };
        event.to_protobuf()
    }

    fn in_json(&self, event: &Recorded, message: &str, series: &Series) -> Vec<u8> {
        let namespace = namespace_of(&event.subject);
        let body = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": series.name, "namespace": namespace },
            "involvedObject": event.subject,
            "reason": event.reason,
            "message": message,
            "source": { "component": &*self.component },
            "firstTimestamp": in_seconds(series.first),
            "lastTimestamp": in_seconds(event.at),
            "count": series.count,
            "type": event.event_type.as_str(),
            "reportingComponent": &*self.component,
            "reportingInstance": "",
        });
        body.to_string().into_bytes()
    }

    async fn increment_count(
        &self,
        event: &Recorded,
        message: &str,
        series: &Series,
    ) -> Result<(), WriteError> {
        let patch = serde_json::json!({
            "count": series.count,
            "message": message,
            "lastTimestamp": in_seconds(self.clock.now().max(event.at)),
        });
        let path = format!("/api/v1/namespaces/{}/events/{}", namespace_of(&event.subject), series.name);
        let body = patch.to_string().into_bytes();
        // A patch is JSON. Only the metadata of the event is returned.
        let accept = ContentType::Json.accept_metadata();
        let formats = Formats::new("application/merge-patch+json", accept);
        self.writer.send_event(Method::PATCH, &path, formats, body).await
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

    /// Stands for a connection that breaks before the answer.
    const LOST: u16 = 0;
    /// Stands for 429 with `Retry-After: 1`.
    const BUSY: u16 = 1;

    /// Sends events to a server that answers with these codes in turn, then with 201. Returns the
    /// requests.
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
                let body = if code == 409 { r#"{"reason":"AlreadyExists"}"# } else { "{}" };
                let answer = match code {
                    LOST => return Err(std::io::Error::other("the connection broke")),
                    BUSY => Response::builder().status(429).header("Retry-After", "1"),
                    code => Response::builder().status(code),
                };
                answer.body(Body::from(body.as_bytes().to_vec())).map_err(std::io::Error::other)
            }
        });
        let client =
            kube_endpoint_api_client::ApiClient::for_tests(service).with_content_type(ContentType::Json);
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
    async fn an_event_is_given_up_when_the_server_refuses_it_and_retried_when_it_does_not_answer() {
        let methods = |asked: Vec<String>| {
            asked.iter().map(|a| a.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for refusal in [403, 422, 429, 500, 503] {
            assert_eq!(methods(play(&[refusal], &["m"]).await), ["POST"], "{refusal}");
        }
        assert_eq!(methods(play(&[LOST, LOST], &["m"]).await), ["POST", "POST", "POST"]);
        assert_eq!(methods(play(&[LOST, 409], &["m", "m"]).await), ["POST", "POST", "PATCH"]);
        assert_eq!(play(&[LOST; 50], &["m"]).await.len(), 12);
        assert_eq!(methods(play(&[BUSY, BUSY], &["m"]).await), ["POST", "POST", "POST"]);
        assert_eq!(play(&[BUSY; 50], &["m"]).await.len(), 11);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_shutdown_the_waiting_events_are_sent_and_no_later_ones() {
        let count = Arc::new(Mutex::new(0));
        let answered = Arc::clone(&count);
        let service = tower::service_fn(move |_: Request<Body>| {
            *answered.lock().unwrap() += 1;
            async { Response::builder().status(201).body(Body::from(b"{}".to_vec())) }
        });
        let client = kube_endpoint_api_client::ApiClient::for_tests(service);
        let writer = ApiWriter::new(client, RequestLimiter::unlimited(), "test");
        let clock = Clock::starting_at("2024-01-01T00:00:00Z".parse().unwrap());
        let (recorder, task) = EventRecorder::new("endpoint-slice-controller", writer, clock, 1);
        let record = |message: &str| {
            let subject = EventSubject { name: "web".into(), ..EventSubject::default() };
            recorder.record(subject, &PlannedEvent::warning("FailedToUpdateEndpointSlices", message));
        };
        record("a");
        record("b");
        recorder.shut_down();
        task.await;
        record("c");
        assert_eq!(*count.lock().unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_webhook_that_fails_on_events_does_not_hold_up_later_ones() {
        let start = tokio::time::Instant::now();
        let asked = play(&[500, 500, 500], &["a", "b", "c", "d"]).await;
        assert_eq!(asked.len(), 4);
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_expired_is_created_anew_with_the_count_and_first_time_of_its_series() {
        let asked = play(&[201, 404], &["m", "m"]).await;
        let (first, again) = (event_of(&asked[0]), event_of(&asked[2]));
        assert!(asked[1].starts_with("PATCH"), "{}", asked[1]);
        assert_eq!((&first["count"], &again["count"]), (&1.into(), &2.into()));
        assert_eq!(first["metadata"]["name"], again["metadata"]["name"]);
        assert_eq!(first["firstTimestamp"], again["firstTimestamp"]);
        // An event that was refused counts, too.
        let asked = play(&[500, 404], &["m", "m"]).await;
        assert_eq!(event_of(&asked[2])["count"], 2);
    }

    fn event_of(asked: &str) -> serde_json::Value {
        serde_json::from_str(&asked[asked.find('{').unwrap()..]).unwrap()
    }
}

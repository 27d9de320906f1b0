//! A server that answers from a script, in JSON or protobuf, and a transcript of requests and
//! handler calls.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::Endpoints;
use kube_endpoint_informer::{Change, Cluster, Handler, Kind, ReflectorOptions, run};
use kube_endpoint_testing::Log;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::list_watch::protobuf;

/// The server's answer to a request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A status code with a body and an optional `Retry-After`.
    Status(u16, Option<&'static str>, Value),
    /// A page of a list.
    Page(Value),
    /// The answer to a version check (a list with `limit=1`): the server's version. If the script
    /// has another answer in its place, the check gets a version that no test reaches.
    Version(u64),
    /// The server refuses the connection of a version check.
    UnreachableCheck,
    /// The server forbids a version check.
    ForbiddenCheck,
    Watch(Vec<WatchStep>),
    /// The server refuses the connection.
    Unreachable,
    /// The server accepts the connection, but sends no response.
    Silence,
}

/// The encoding of the answers.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Json,
    Protobuf,
    /// Each answer has another encoding than the answer before.
    Alternating,
}

/// A step of a watch. After the last one, the server closes the watch.
#[derive(Clone)]
pub(crate) enum WatchStep {
    Wait(u64),
    Line(Value),
    /// Bytes that make sense in JSON only.
    Raw(&'static [u8]),
    Interrupt,
    Silence,
}

pub(crate) fn endpoints(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string()}})
}

pub(crate) fn page(version: u64, next: &str, items: &[Value]) -> Answer {
    Answer::Page(page_text(version, next, items))
}

fn page_text(version: u64, next: &str, items: &[Value]) -> Value {
    json!({"kind": "EndpointsList", "apiVersion": "v1",
        "metadata": {"resourceVersion": version.to_string(), "continue": next}, "items": items})
}

fn next_answer(script: &mut VecDeque<Answer>, is_check: bool) -> Option<Answer> {
    let is_answer_to_check =
        |it: &Answer| matches!(it, Answer::Version(_) | Answer::UnreachableCheck | Answer::ForbiddenCheck);
    if is_check && !script.front().is_some_and(is_answer_to_check) {
        return Some(Answer::Version(1_000_000_000));
    }
    script.pop_front()
}

pub(crate) fn line(what: &str, object: Value) -> WatchStep {
    WatchStep::Line(json!({"type": what, "object": object}))
}

pub(crate) fn added(name: &str, version: u64) -> WatchStep {
    line("ADDED", endpoints(name, version))
}

pub(crate) fn bookmark(version: u64) -> WatchStep {
    line("BOOKMARK", json!({"kind": "Endpoints", "metadata": {"resourceVersion": version.to_string()}}))
}

/// Returns the bookmark that ends the initial events.
pub(crate) fn complete(version: u64) -> WatchStep {
    line(
        "BOOKMARK",
        json!({"metadata": {"resourceVersion": version.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}}}),
    )
}

pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "so it is"})
}

pub(crate) fn expired() -> Value {
    status(410, "Expired")
}

/// Returns the answer of an API server that does not support `sendInitialEvents`.
pub(crate) fn streaming_unsupported() -> Answer {
    Answer::Status(422, None, status(422, "Invalid"))
}

/// Lines that begin with the time in seconds since the start.
#[derive(Clone)]
pub(crate) struct Transcript(Arc<Mutex<String>>, Instant);

impl Transcript {
    fn say(&self, what: impl std::fmt::Display) {
        let _ = writeln!(self.0.lock(), "{:7.3} {what}", self.1.elapsed().as_secs_f64());
    }
}

impl Handler for Transcript {
    fn on_endpoints(&self, change: &Change<Endpoints>) {
        let name = &change.latest().unwrap().metadata.name;
        let version = |view: &Option<Arc<Endpoints>>| {
            view.as_ref().map_or("-".into(), |it| it.metadata.resource_version.to_string())
        };
        self.say(format_args!("        {name}: {} -> {}", version(&change.old), version(&change.new)));
    }
}

type AnyBody = UnsyncBoxBody<Bytes, io::Error>;

fn body(value: &Value, in_protobuf: bool) -> AnyBody {
    let bytes = if in_protobuf { protobuf::answer(value) } else { value.to_string().into_bytes() };
    http_body_util::Full::from(bytes).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn watch_body(steps: Vec<WatchStep>, transcript: Transcript, in_protobuf: bool) -> AnyBody {
    let stream = futures::stream::iter(steps).filter_map(move |step| {
        let transcript = transcript.clone();
        async move {
            let text = match step {
                WatchStep::Wait(seconds) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    return None;
                }
                WatchStep::Line(line) if in_protobuf => Bytes::from(protobuf::frame(&line)),
                WatchStep::Line(line) => Bytes::from(format!("{line}\n")),
                WatchStep::Raw(text) => Bytes::from_static(text),
                WatchStep::Interrupt => {
                    transcript.say("  interrupted");
                    return Some(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                WatchStep::Silence => std::future::pending().await,
            };
            Some(Ok(Frame::data(text)))
        }
    });
    StreamBody::new(stream).boxed_unsync()
}

fn client(script: Vec<Answer>, transcript: Transcript, encoding: Encoding) -> ApiClient {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let last_in_protobuf = Arc::new(AtomicBool::new(encoding == Encoding::Protobuf));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (script, transcript) = (script.clone(), transcript.clone());
        let in_protobuf = match encoding {
            Encoding::Alternating => !last_in_protobuf.fetch_not(Ordering::Relaxed),
            _ => last_in_protobuf.load(Ordering::Relaxed),
        };
        async move {
            let path = request.uri().to_string();
            let path = path.trim_start_matches("/api/v1/endpoints");
            let path = path.replace("?watch=true&allowWatchBookmarks=true&", "?watch... ");
            transcript.say(path.replace("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "all"));
            let next =
                next_answer(&mut script.lock(), path.contains("limit=1") && !path.contains("limit=1&"));
            let (status, retry_after, body) = match next {
                // After the script, every request opens a watch without events.
                None => (200, None, watch_body(vec![WatchStep::Silence], transcript, in_protobuf)),
                Some(Answer::Version(version)) => {
                    (200, None, body(&page_text(version, "", &[]), in_protobuf))
                }
                Some(Answer::ForbiddenCheck) => (403, None, body(&status(403, "Forbidden"), in_protobuf)),
                Some(Answer::Unreachable | Answer::UnreachableCheck) => {
                    return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                }
                Some(Answer::Silence) => std::future::pending().await,
                Some(Answer::Page(page)) => (200, None, body(&page, in_protobuf)),
                Some(Answer::Watch(steps)) => (200, None, watch_body(steps, transcript, in_protobuf)),
                Some(Answer::Status(code, retry_after, status)) => {
                    (code, retry_after, body(&status, in_protobuf))
                }
            };
            let mut answer = Response::new(body);
            *answer.status_mut() = status.try_into().unwrap();
            let content_type =
                if in_protobuf { "application/vnd.kubernetes.protobuf" } else { "application/json" };
            answer.headers_mut().insert("content-type", http::HeaderValue::from_static(content_type));
            if let Some(text) = retry_after {
                answer.headers_mut().insert("retry-after", http::HeaderValue::from_static(text));
            }
            Ok(answer)
        }
    });
    ApiClient::for_tests(service)
}

/// Runs a reflector against a script for some seconds. Returns the transcript and the final content
/// of the cluster, which are the same in all encodings.
pub(crate) async fn play_for(seconds: u64, options: ReflectorOptions, script: Vec<Answer>) -> String {
    let is_raw = |step: &WatchStep| matches!(step, WatchStep::Raw(_));
    let only_json = script.iter().any(|it| matches!(it, Answer::Watch(steps) if steps.iter().any(is_raw)));
    let got = play_in(Encoding::Json, seconds, options, script.clone(), async |_| {}).await;
    if !only_json {
        // Tests record metrics and logs of one encoding.
        let _metrics = metrics::set_default_local_recorder(&metrics::NoopRecorder);
        let _log = tracing::subscriber::set_default(tracing::subscriber::NoSubscriber::new());
        for encoding in [Encoding::Protobuf, Encoding::Alternating] {
            let other = play_in(encoding, seconds, options, script.clone(), async |_| {}).await;
            assert_eq!(other, got, "{encoding:?}");
        }
    }
    got
}

/// Runs a reflector against a script until there is evidence that the server's storage went back,
/// or for some seconds. Returns the evidence.
pub(crate) async fn evidence(seconds: u64, script: Vec<Answer>) -> Option<String> {
    let transcript = Transcript(Arc::default(), Instant::now());
    let cluster = Cluster::new([Kind::Endpoints]);
    let client = client(script, transcript, Encoding::Json);
    let end = tokio::time::sleep(Duration::from_secs(seconds));
    let ended = run::<Endpoints>(client, cluster, ReflectorOptions::new(0), end).await;
    ended.err().map(|went_back| went_back.to_string())
}

/// As [`play_for`], in JSON, while `meanwhile` runs.
pub(crate) async fn play_with(
    seconds: u64,
    options: ReflectorOptions,
    script: Vec<Answer>,
    meanwhile: impl AsyncFnOnce(Cluster),
) -> String {
    play_in(Encoding::Json, seconds, options, script, meanwhile).await
}

async fn play_in(
    encoding: Encoding,
    seconds: u64,
    options: ReflectorOptions,
    script: Vec<Answer>,
    meanwhile: impl AsyncFnOnce(Cluster),
) -> String {
    let transcript = Transcript(Arc::default(), Instant::now());
    let cluster = Cluster::new([Kind::Endpoints]);
    // The reflector goes on after evidence.
    cluster.defer_evidence_until(Instant::now() + Duration::from_secs(1_000_000));
    cluster.add_handler(Arc::new(transcript.clone()));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let client = client(script, transcript.clone(), encoding);
    let running = run::<Endpoints>(client, cluster.clone(), options, shutdown);
    let running = tokio::spawn(running);
    let watch = tokio::spawn({
        let (cluster, transcript) = (cluster.clone(), transcript.clone());
        async move {
            cluster.synced().await;
            transcript.say("        synced");
        }
    });
    let end = Instant::now() + Duration::from_secs(seconds);
    meanwhile(cluster.clone()).await;
    tokio::time::sleep_until(end).await;
    assert_eq!(cluster.has_synced(), watch.is_finished());
    watch.abort();
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let mut out = std::mem::take(&mut *transcript.0.lock());
    let held: Vec<_> = cluster
        .endpoints_keys()
        .iter()
        .map(|key| format!("{}@{}", key.name, cluster.endpoints(key).unwrap().metadata.resource_version))
        .collect();
    let _ = write!(out, "holds {} at {}", held.join(" "), cluster.position(Kind::Endpoints));
    out
}

/// As [`play_for`], with a list in pages of two.
pub(crate) async fn play_pages(seconds: u64, script: Vec<Answer>) -> String {
    let options = ReflectorOptions::new(0).streaming_list(false).page_size(2);
    play_for(seconds, options, script).await
}

/// As [`play_for`], with a streaming list.
pub(crate) async fn play(seconds: u64, script: Vec<Answer>) -> String {
    play_for(seconds, ReflectorOptions::new(0), script).await
}

/// Returns the log without the delays, which transcripts show.
pub(crate) fn without_delays(log: &Log) -> String {
    let line = |line: &str| line.split(" retry_in=").next().unwrap_or_default().to_owned();
    log.text().lines().map(line).collect::<Vec<_>>().join("\n")
}

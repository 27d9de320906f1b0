//! Target for answers to a list and a watch, as the informer reads them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service, protobuf};
use kube_endpoint_informer::{Cluster, Object, ReflectorOptions, run};
use tokio::time::Instant;

/// How long the server answers with the input. Afterwards it answers correctly.
const ODD: Duration = Duration::from_secs(30);
/// The time limit for a correct cache. The longest backoff of a reflector is half a minute.
const RIGHT: Duration = Duration::from_secs(600);
/// The version of the server after [`ODD`].
const VERSION: u64 = 1_000;

/// Plays a server of one kind that sends the input. Between the first line and a line `===` is the
/// body of lists, after it that of watches. The first line has the plural of the kind; with `!` in
/// front of it, the informer requests the list as the initial events of a watch. With `@` in front
/// of the plural, the bodies are protobuf.
pub fn list_and_watch(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (Some(kind), Some(bodies)) = (parts.next(), parts.next()) else { return };
    let streaming = kind.starts_with(b"!");
    let kind = kind.strip_prefix(b"!").unwrap_or(kind);
    let protobuf = kind.starts_with(b"@");
    let separator = b"\n===\n";
    let at = bodies.windows(separator.len()).position(|window| window == separator);
    let (list, watch) = match at {
        Some(at) => (&bodies[..at], &bodies[at + separator.len()..]),
        None => (bodies, &bodies[bodies.len()..]),
    };
    let answers =
        Answers { protobuf, list: Bytes::copy_from_slice(list), watch: Bytes::copy_from_slice(watch) };
    match kind.strip_prefix(b"@").unwrap_or(kind) {
        b"pods" => check::<Pod>(answers, streaming),
        b"services" => check::<Service>(answers, streaming),
        b"nodes" => check::<Node>(answers, streaming),
        b"endpoints" => check::<Endpoints>(answers, streaming),
        b"endpointslices" => check::<EndpointSlice>(answers, streaming),
        _ => {}
    }
}

#[derive(Clone)]
struct Answers {
    /// True if the bodies are protobuf.
    protobuf: bool,
    list: Bytes,
    watch: Bytes,
}

/// Checks that the cache becomes right once the answers are right, whatever the server has sent
/// before.
fn check<T: Object>(answers: Answers, streaming: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let cluster = Cluster::new([T::KIND]);
        let start = Instant::now();
        let answers = Arc::new(answers);
        let client = ApiClient::for_tests(tower::service_fn(move |request: Request<Body>| {
            let odd = start.elapsed() < ODD;
            let mut answer = Response::new(answer::<T>(&answers, &request, odd));
            if odd && answers.protobuf {
                let protobuf = HeaderValue::from_static(protobuf::CONTENT_TYPE);
                answer.headers_mut().insert(CONTENT_TYPE, protobuf);
            }
            async move { Ok::<_, Infallible>(answer) }
        }));
        let options = ReflectorOptions::new(1).streaming_list(streaming);
        cluster.defer_evidence_until(start + RIGHT + RIGHT);
        let ended = run::<T>(client, cluster.clone(), options, tokio::time::sleep(RIGHT)).await;
        assert_eq!(ended, Ok(()));
        assert!(cluster.has_synced_kinds([T::KIND]));
        assert_eq!(cluster.count(T::KIND), 0, "the server has no object");
        assert_eq!(cluster.position(T::KIND).0, VERSION);
    });
}

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

fn answer<T: Object>(answers: &Answers, request: &Request<Body>, odd: bool) -> AnyBody {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.contains("watch=true");
    if odd && is_watch {
        // The server sends chunks that divide lines.
        let chunks: Vec<Bytes> = answers.watch.chunks(1000).map(Bytes::copy_from_slice).collect();
        let frames = futures::stream::iter(chunks).map(|chunk| Ok(Frame::data(chunk)));
        return StreamBody::new(frames).boxed_unsync();
    }
    if odd {
        return Full::new(answers.list.clone()).boxed_unsync();
    }
    if !is_watch {
        let kind = T::RESOURCE.list_kind;
        let list = format!(r#"{{"kind":"{kind}","metadata":{{"resourceVersion":"{VERSION}"}},"items":[]}}"#);
        return Full::from(list).boxed_unsync();
    }
    let line = if query.contains("sendInitialEvents=true") {
        format!(
            r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{VERSION}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        )
    } else if query.split('&').any(|pair| pair == format!("resourceVersion={VERSION}")) {
        String::new()
    } else {
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#.to_owned()
    };
    let first = futures::stream::iter([Ok(Frame::data(Bytes::from(line + "\n")))]);
    StreamBody::new(first.chain(futures::stream::pending())).boxed_unsync()
}

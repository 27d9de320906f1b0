//! Tests traces as a collector receives them: OTLP over gRPC, on a socket.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]
#![expect(clippy::disallowed_methods, reason = "it talks over real sockets")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use kube::client::Body;
use kube_endpoint_controllers::{ApiClient, Manager, Settings, Traces, TracingSettings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;

/// How long a shutdown may wait for the last spans.
const LIMIT: Duration = Duration::from_secs(1);

/// A collector that keeps the requests that it receives.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TowerToHyperService::new(TraceServiceServer::new(self.clone()));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(http2.serve_connection(TokioIo::new(socket), service.clone()));
            }
        });
        address
    }

    /// Returns the name of the service, and all spans.
    fn received(&self) -> (String, Vec<Span>) {
        let requests = self.0.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        let name =
            resources.clone().find_map(|it| attribute(&it.resource.as_ref()?.attributes, "service.name"));
        let spans = resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans);
        (name.unwrap_or_default(), spans.cloned().collect())
    }
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::ArrayValue(array)) => array.values.iter().map(text).collect::<Vec<_>>().join("+"),
        other => format!("{other:?}"),
    }
}

fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref().map(text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs the controllers on a server with one Service, with traces to this address. Returns the
/// trace contexts that the server received with creates, the time that the Service waited for its
/// slice, and the time that ending the traces took.
async fn run(endpoint: SocketAddr) -> (Vec<String>, Duration, Duration) {
    let settings =
        TracingSettings { endpoint: format!("http://{endpoint}"), sampling_rate_per_million: 1_000_000 };
    let traces = Traces::start(Some(&settings)).unwrap();
    let server = EmbeddedApiServer::builder().build().unwrap();
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&contexts);
    let watched = tower::ServiceBuilder::new()
        .map_request(move |request: Request<Body>| {
            if let Some(context) = request.headers().get("traceparent")
                && request.method() == http::Method::POST
            {
                seen.lock().unwrap().push(context.to_str().unwrap().to_owned());
            }
            request
        })
        .service(server.service());
    let manager = Manager::new(ApiClient::for_tests(watched), &Settings::default(), server.now(), 1).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = serde_json::json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    server.create(service).await.unwrap();
    let created = Instant::now();
    let running = tokio::spawn(manager.run(async {
        let _ = stopped.await;
    }));
    while server.count("endpointslices") == 0 {
        assert!(created.elapsed() < Duration::from_secs(60), "no slice was written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waited = created.elapsed();
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let ending = Instant::now();
    traces.shut_down(LIMIT).await;
    let contexts = contexts.lock().unwrap().clone();
    (contexts, waited, ending.elapsed())
}

// This is one test, because the traces of a process are global.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_receives_each_sync_with_its_cause_and_requests_and_an_unreachable_one_delays_nothing() {
    // A port that refuses connections, and one that accepts them and never answers.
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for endpoint in [refusing, silent.local_addr().unwrap()] {
        let (contexts, waited, ending) = run(endpoint).await;
        assert!(!contexts.is_empty(), "requests carry the context all the same");
        assert!(waited < Duration::from_secs(30), "{waited:?}");
        assert!(ending < LIMIT + Duration::from_secs(10), "{ending:?}");
    }

    let collector = Collector::default();
    let (contexts, ..) = run(collector.listen().await).await;
    let (service, spans) = collector.received();
    assert_eq!(service, "kube-endpoint-manager");
    let sync = spans.iter().find(|span| {
        let attribute = |key| attribute(&span.attributes, key);
        span.name == "sync"
            && attribute("queue").as_deref() == Some("endpoint_slice")
            && attribute("plan.creates").as_deref() == Some("1")
    });
    let sync = sync.unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!(attribute(&sync.attributes, "cause").as_deref(), Some("start"));
    assert_eq!(attribute(&sync.attributes, "outcome").as_deref(), Some("done"));
    let requests: Vec<&Span> = spans.iter().filter(|span| span.parent_span_id == sync.span_id).collect();
    let [create] = requests.as_slice() else { panic!("{requests:#?}") };
    assert_eq!((&*create.name, &create.trace_id), ("POST", &sync.trace_id));
    assert_eq!(attribute(&create.attributes, "http.response.status_code").as_deref(), Some("201"));
    let context = format!("00-{}-{}-01", hex(&create.trace_id), hex(&create.span_id));
    assert!(contexts.contains(&context), "the server was told {contexts:?}, not {context}");
}

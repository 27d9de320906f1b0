//! Traces: with an OpenTelemetry provider and propagator installed, each sync is a span, and each write carries its
//! context.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::conformance::{Part, Parts, start_controllers};
use kube_endpoint_manager_core::ApiClient;
use opentelemetry::{Value, global};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| &attribute.value).map_or_else(String::new, Value::to_string)
}

#[tokio::test(start_paused = true)]
async fn each_write_carries_the_trace_context_of_its_sync() {
    let spans = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    global::set_tracer_provider(provider.clone());
    global::set_text_map_propagator(TraceContextPropagator::new());

    let server = EmbeddedApiServer::builder().build().unwrap();
    let service = serde_json::json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    server.create(service).await.unwrap();
    let parents = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&parents);
    let watched = tower::ServiceBuilder::new()
        .map_request(move |request: Request<Body>| {
            if request.method() == http::Method::POST {
                let parent =
                    request.headers().get("traceparent").map(|value| value.to_str().unwrap().to_owned());
                seen.lock().unwrap().push(parent);
            }
            request
        })
        .service(server.service());
    let slices = Parts::NONE.and(Part::Slices);
    let controllers = start_controllers(ApiClient::for_tests(watched), slices, server.now()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.count("endpointslices"), 1);
    drop(controllers);
    provider.force_flush().unwrap();

    let spans = spans.get_finished_spans().unwrap();
    let [sync] = spans.as_slice() else { panic!("{spans:#?}") };
    assert_eq!((&*sync.name, &*attribute(sync, "queue")), ("sync", "endpoint_slice"));
    assert!(attribute(sync, "key").contains("web"));
    let context = &sync.span_context;
    let parent = format!("00-{}-{}-01", context.trace_id(), context.span_id());
    assert_eq!(*parents.lock().unwrap(), [Some(parent)]);
}

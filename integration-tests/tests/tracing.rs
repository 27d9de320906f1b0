//! Tests traces: with an OpenTelemetry provider and propagator, each sync is a span, each of its
//! requests is a child, and each write carries the child's context.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use kube_endpoint_controllers::ApiClient;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::conformance::{Part, Parts, start_controllers};
use opentelemetry::trace::SpanId;
use opentelemetry::{Value, global};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| &attribute.value).map_or_else(String::new, Value::to_string)
}

#[tokio::test(start_paused = true)]
async fn a_sync_is_a_span_and_its_writes_are_children_that_the_server_is_told_of() {
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

    // Other tests of this process write, too. The server of this one was told of one span.
    let spans = spans.get_finished_spans().unwrap();
    let parents = parents.lock().unwrap();
    let [Some(parent)] = parents.as_slice() else { panic!("{parents:?}") };
    let by_id = |id: SpanId| spans.iter().find(|span| span.span_context.span_id() == id);
    let create = by_id(SpanId::from_hex(parent.split('-').nth(2).unwrap()).unwrap()).unwrap();
    let sync = by_id(create.parent_span_id).unwrap();
    assert_eq!((&*sync.name, &*create.name), ("sync", "POST"));
    assert!(attribute(sync, "key").contains("web"));
    let sync_attributes = [
        ("queue", "endpoint_slice"),
        ("cause", "[\"start\"]"),
        ("outcome", "done"),
        ("pods", "0"),
        ("outputs", "0"),
        ("endpoints", "0"),
        ("plan.creates", "1"),
        ("plan.updates", "0"),
        ("plan.deletes", "0"),
    ];
    for (name, value) in sync_attributes {
        assert_eq!(attribute(sync, name), value, "{name}");
    }
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    assert_eq!(
        (&*attribute(create, "url.path"), &*attribute(create, "http.response.status_code")),
        (path, "201")
    );
    let context = &create.span_context;
    assert_eq!(context.trace_id(), sync.span_context.trace_id());
    assert_eq!(*parent, format!("00-{}-{}-01", context.trace_id(), context.span_id()));
}

//! Requests to the embedded API server in process, without sockets.

use criterion::{BatchSize, Criterion, Throughput};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube_endpoint_benches::{NAMESPACE, pods_as_json, service_as_json};
use kube_endpoint_embedded_apiserver::{Body, EmbeddedApiServer};
use serde_json::json;
use tower::ServiceExt;

const PODS: usize = 1_000;
const WATCHERS: usize = 50;
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn server() -> EmbeddedApiServer {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    EmbeddedApiServer::builder()
        .load(pods_as_json("web", PODS).into_iter().chain([namespace]))
        .build()
        .expect("the objects can be loaded")
}

/// Sends a request and returns when the head of the answer has arrived.
async fn send(
    server: &EmbeddedApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: String,
) -> Response<Body> {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(body).expect("the request is well-formed");
    let answer = server.service().oneshot(request).await.expect("no fault is set");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer
}

async fn read(answer: Response<Body>) -> usize {
    answer.into_body().collect().await.expect("no fault is set").to_bytes().len()
}

fn requests(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    let server = server();
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    let mut group = criterion.benchmark_group("apiserver");

    group.bench_function("create and delete a Service", |bencher| {
        let mut service = service_as_json("web");
        service["metadata"]["uid"].take();
        let (text, path) = (service.to_string(), format!("{services}/web"));
        bencher.to_async(&runtime).iter(|| async {
            read(send(&server, Method::POST, &services, JSON, text.clone()).await).await;
            read(send(&server, Method::DELETE, &path, JSON, String::new()).await).await;
        });
    });

    let path = format!("{pods}/web-00000/status");
    let mut turn = 0;
    let mut patch = move || {
        turn += 1;
        json!({"status": {"message": turn.to_string()}}).to_string()
    };
    group.bench_function("patch a pod's status", |bencher| {
        bencher.to_async(&runtime).iter_batched(
            &mut patch,
            |patch| async { read(send(&server, Method::PATCH, &path, MERGE, patch).await).await },
            BatchSize::SmallInput,
        );
    });

    group.throughput(Throughput::Elements(WATCHERS as u64));
    group.bench_function("patch a pod's status, 50 watchers", |bencher| {
        let version = server.resource_version();
        let watch = format!("{pods}?watch=true&resourceVersion={version}");
        let mut watchers: Vec<Body> = runtime.block_on(async {
            let mut watchers = Vec::new();
            for _ in 0..WATCHERS {
                watchers.push(send(&server, Method::GET, &watch, JSON, String::new()).await.into_body());
            }
            watchers
        });
        bencher.iter(|| {
            runtime.block_on(async {
                read(send(&server, Method::PATCH, &path, MERGE, patch()).await).await;
                for watcher in &mut watchers {
                    let event = watcher.frame().await.expect("the watch goes on").expect("no fault is set");
                    assert!(event.is_data());
                }
            });
        });
    });

    group.throughput(Throughput::Elements(PODS as u64));
    group.bench_function("list 1,000 pods", |bencher| {
        bencher
            .to_async(&runtime)
            .iter(|| async { read(send(&server, Method::GET, &pods, JSON, String::new()).await).await });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    requests(&mut criterion);
    criterion.final_summary();
}

//! `--dry-run` beside controllers that write: it writes nothing, and counts each difference after
//! 30 s until it is gone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use kube_endpoint_controllers::{ApiClient, Gates, Manager, ManagerHandle, Settings, metrics_recorder};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tower::ServiceExt;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}})
}

/// Deletes `default/web`.
async fn delete(server: &EmbeddedApiServer, plural: &str) {
    let path = format!("/api/v1/namespaces/default/{plural}/web");
    let answer = server.service().oneshot(Request::delete(path).body(Body::empty()).unwrap()).await.unwrap();
    assert!(answer.status().is_success());
}

/// A running manager.
struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Running {
    fn start(manager: Manager) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            manager.run(stopped).await.unwrap();
        });
        Self { stop, ended }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap();
    }
}

/// Starts controllers that write.
fn writer(server: &EmbeddedApiServer) -> Running {
    let mut settings = Settings::default();
    settings.gates = Gates::upstream();
    Running::start(Manager::new(ApiClient::for_tests(server.service()), &settings, server.now(), 1).unwrap())
}

/// A manager with `--dry-run`.
struct Shadow {
    _running: Running,
    handle: ManagerHandle,
    metrics: PrometheusHandle,
    /// All its requests other than GET.
    writes: Arc<Mutex<Vec<String>>>,
}

impl Shadow {
    fn start(server: &EmbeddedApiServer, gates: Gates) -> Self {
        let writes = Arc::new(Mutex::new(Vec::new()));
        let (log, inner) = (Arc::clone(&writes), server.service());
        let client = tower::service_fn(move |request: Request<Body>| {
            if request.method() != Method::GET {
                log.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
            }
            inner.clone().oneshot(request)
        });
        let mut settings = Settings::default();
        settings.gates = gates;
        settings.dry_run = true;
        let recorder = metrics_recorder().unwrap();
        let metrics = recorder.handle();
        let manager = metrics::with_local_recorder(&recorder, || {
            Manager::new(ApiClient::for_tests(client), &settings, server.now(), 2).unwrap()
        });
        let handle = manager.handle();
        assert!(handle.status().dry_run);
        Self { _running: Running::start(manager), handle, metrics, writes }
    }

    /// Returns the sum of a metric over its labels.
    fn sum(&self, metric: &str) -> f64 {
        let text = self.metrics.render();
        let lines =
            text.lines().filter(|line| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{')));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }

    fn differences(&self) -> f64 {
        self.sum("dry_run_differences")
    }

    /// Returns true if the status says that nothing would change.
    fn tells_that_nothing_would_change(&self) -> bool {
        self.handle.status().to_string().contains("nothing is written, and nothing would change")
    }

    fn assert_wrote_nothing(&self) {
        assert_eq!(*self.writes.lock().unwrap(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn beside_controllers_that_write_nothing_differs() {
    for gates in [Gates::default(), Gates::upstream()] {
        let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
        let _writer = writer(&server);
        let shadow = Shadow::start(&server, gates);
        for number in 0..5 {
            server.create(service(&format!("s{number}"))).await.unwrap();
            sleep(seconds(10)).await;
        }
        sleep(seconds(120)).await;
        assert_eq!((server.count("endpointslices"), server.count("endpoints")), (5, 5));
        assert!(shadow.sum("workqueue_adds_total") >= 10.0, "the shadow looked at them");
        assert_eq!(shadow.differences(), 0.0);
        assert!(shadow.tells_that_nothing_would_change());
        shadow.assert_wrote_nothing();
    }
}

#[tokio::test(start_paused = true)]
async fn what_differs_is_counted_after_thirty_seconds_until_it_is_written() {
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    let shadow = Shadow::start(&server, Gates::default());
    sleep(seconds(60)).await;
    assert!(shadow.tells_that_nothing_would_change());
    server.create(service("web")).await.unwrap();
    sleep(seconds(29)).await;
    assert_eq!(shadow.differences(), 0.0);
    assert!(!shadow.tells_that_nothing_would_change(), "it may be a difference");
    sleep(seconds(2)).await;
    // One slice and one Endpoints object.
    assert_eq!(shadow.differences(), 2.0);
    let before = shadow.sum("workqueue_adds_total");
    sleep(seconds(600)).await;
    assert_eq!(shadow.differences(), 2.0);
    let adds = shadow.sum("workqueue_adds_total") - before;
    assert!((10.0..=30.0).contains(&adds), "{adds} syncs within ten minutes");
    assert_eq!((server.count("endpointslices"), server.count("endpoints")), (0, 0));
    shadow.assert_wrote_nothing();
    let writer = writer(&server);
    sleep(seconds(5)).await;
    assert_eq!((server.count("endpointslices"), server.count("endpoints")), (1, 1));
    assert_eq!(shadow.differences(), 0.0);
    writer.stop().await;
    shadow.assert_wrote_nothing();
}

#[tokio::test(start_paused = true)]
async fn endpoints_without_a_service_differ_until_they_are_deleted() {
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    let made_by = |name: &str, manager: &str| {
        let entry = json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:subsets": {}}});
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": "default",
            "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}, "managedFields": [entry]}})
    };
    server.load([made_by("web", "kube-controller-manager"), made_by("of-user", "kubectl-create")]).unwrap();
    let shadow = Shadow::start(&server, Gates::default());
    sleep(seconds(29)).await;
    assert_eq!(shadow.differences(), 0.0);
    // Each further sync finds the difference again.
    sleep(seconds(200)).await;
    assert_eq!((server.count("endpoints"), shadow.differences()), (2, 1.0));
    delete(&server, "endpoints").await;
    sleep(seconds(100)).await;
    assert_eq!(shadow.differences(), 0.0);
    shadow.assert_wrote_nothing();
}

#[tokio::test(start_paused = true)]
async fn many_services_that_differ_are_not_synced_in_a_loop() {
    const SERVICES: u32 = 1_000;
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    for number in 0..SERVICES {
        server.create(service(&format!("s{number}"))).await.unwrap();
    }
    let shadow = Shadow::start(&server, Gates::default());
    sleep(seconds(40)).await;
    assert_eq!(shadow.differences(), f64::from(2 * SERVICES));
    let before = shadow.sum("workqueue_adds_total");
    sleep(seconds(300)).await;
    let adds = shadow.sum("workqueue_adds_total") - before;
    assert!(adds <= f64::from(2 * SERVICES) * 6.0, "{adds}");
    shadow.assert_wrote_nothing();
}

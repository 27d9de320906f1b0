//! Health, status and configuration of a manager, over HTTPS.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kube::Config;
use kube::client::Body;
use kube_endpoint_controllers::{
    ApiClient, LeaderElectionSettings, Manager, ManagerError, PageSources, ServingSettings, Settings,
    client_from_config, metrics_recorder,
};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, PolicyRule, User};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt;

const TOKEN: &str = "token-of-the-scraper";

fn server() -> EmbeddedApiServer {
    let all = || vec!["*".to_owned()];
    let user = User { name: "prometheus".to_owned(), groups: Vec::new() };
    EmbeddedApiServer::builder()
        .token(TOKEN, user)
        .policy_rule(PolicyRule {
            subjects: all(),
            verbs: all(),
            non_resource_urls: vec!["/*".to_owned()],
            ..PolicyRule::default()
        })
        .build()
        .unwrap()
}

fn web() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
}

/// A manager that serves on a free port.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ManagerError>>,
}

async fn start(server: &EmbeddedApiServer) -> Running {
    Box::pin(start_with(server, Settings::default(), None, |_| ())).await
}

/// Starts a manager with these settings besides those of serving, with a client for the lease, and
/// with a change before it runs.
async fn start_with(
    server: &EmbeddedApiServer,
    mut settings: Settings,
    lease_client: Option<ApiClient>,
    change: impl FnOnce(&mut Manager),
) -> Running {
    let client = ApiClient::for_tests(server.service());
    let mut serving = ServingSettings::on_port(0);
    serving.bind_address = [127, 0, 0, 1].into();
    // An HTTP/2 connection without credentials ends after one request. The next one can meet its
    // GOAWAY, which hyper's client does not repeat.
    serving.http2 = false;
    settings.serving = Some(serving);
    settings.shutdown_timeout = Duration::from_secs(2);
    let recorder = metrics_recorder().unwrap();
    let sources = PageSources {
        version: "0.1.0".to_owned(),
        flags: BTreeMap::from([("secure-port".to_owned(), "0".to_owned())]),
        metrics: Some(recorder.handle()),
        slis: None,
    };
    let mut manager = {
        let _recording = metrics::set_default_local_recorder(&recorder);
        Manager::with_lease_client(client.clone(), lease_client, &settings, server.now(), 1).unwrap()
    };
    change(&mut manager);
    let now = server.now();
    let serving = manager.serve(&client, &settings, sources, move || now).await.unwrap().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(manager.run(async move {
        let _ = stopped.await;
    }));
    Running { address: serving.address.unwrap(), stop, ended }
}

/// Returns a client with this token.
async fn client(address: SocketAddr, token: Option<&str>) -> ApiClient {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    client_from_config(config).await.unwrap()
}

async fn get(client: &ApiClient, path: &str) -> (u16, String) {
    let request = Request::get(path).header("accept", "application/json, text/plain;q=0.5");
    let answer = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Waits until a page has this status.
async fn until(client: &ApiClient, path: &str, expected: u16) {
    for _ in 0..500 {
        if get(client, path).await.0 == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} did not become {expected}");
}

fn faults(server: &EmbeddedApiServer) {
    for verb in ["list", "watch"] {
        server.add_fault(FaultRule::new(Fault::NeverAnswer { applied: false }, move |request| {
            request.verb == verb
        }));
    }
}

#[tokio::test]
async fn a_manager_is_alive_before_its_first_list_and_ready_after_it() {
    let server = server();
    faults(&server);
    let running = start(&server).await;
    let anybody = client(running.address, None).await;
    assert_eq!(get(&anybody, "/livez").await, (200, "ok".to_owned()));
    assert_eq!(
        get(&anybody, "/healthz?verbose").await.1,
        "[+]ping ok\n[+]workers ok\nhealthz check passed\n"
    );
    let (status, text) = get(&anybody, "/readyz").await;
    let expected =
        "[+]ping ok\n[-]informer-sync failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!((status, &*text), (500, expected));
    server.clear_faults();
    server.close_watches();
    drop((running.stop, running.ended));

    let running = start(&server).await;
    let anybody = client(running.address, None).await;
    until(&anybody, "/readyz", 200).await;
    // An outage does not change the answers.
    faults(&server);
    server.close_watches();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((get(&anybody, "/readyz").await.0, get(&anybody, "/livez").await.0), (200, 200));
    assert!(
        server.request_log().iter().any(|entry| entry.status == 0),
        "no request was left without an answer"
    );
}

#[tokio::test]
async fn a_manager_fails_with_the_name_of_a_task_that_ends_and_its_handle_names_the_task() {
    let server = server();
    let (end, ends) = oneshot::channel::<()>();
    let mut handle = None;
    let add_task = |manager: &mut Manager| {
        manager.add_task("task that ends", async { ends.await.unwrap() });
        handle = Some(manager.handle());
    };
    let running = Box::pin(start_with(&server, Settings::default(), None, add_task)).await;
    let handle = handle.unwrap();
    assert_eq!(handle.dead_task(), None);
    end.send(()).unwrap();
    let error = running.ended.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "task that ends ended unexpectedly");
    assert_eq!(handle.dead_task().as_deref(), Some("task that ends"));
}

/// Dropping it unblocks the elector, also when the test fails. Otherwise the runtime would wait for
/// the blocked thread forever.
struct Unblock(Arc<AtomicBool>);

impl Drop for Unblock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A client of the lease that does not return blocks the elector's thread. Tokio's clock runs,
/// because the pages come through sockets.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_neither_renews_its_lease_nor_ends_is_not_alive() {
    let server = server();
    let is_blocked = Arc::new(AtomicBool::new(false));
    let (blocked, service) = (Arc::clone(&is_blocked), server.service());
    let lease_client = ApiClient::for_tests(tower::service_fn(move |request: Request<Body>| {
        let (blocked, service) = (Arc::clone(&blocked), service.clone());
        async move {
            if request.method() == "PUT" {
                tokio::task::block_in_place(|| {
                    while blocked.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                });
            }
            service.oneshot(request).await
        }
    }));
    let election = LeaderElectionSettings {
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_secs(1),
        retry_period: Duration::from_millis(200),
        ..LeaderElectionSettings::default()
    };
    let mut settings = Settings::default();
    settings.leader_election = Some(election);
    let running = Box::pin(start_with(&server, settings, Some(lease_client), |_| ())).await;
    let anybody = client(running.address, None).await;
    while server.get("leases", "kube-system", "kube-endpoint-manager").is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let alive = "[+]ping ok\n[+]workers ok\n[+]leaderElection ok\nlivez check passed\n";
    assert_eq!(get(&anybody, "/livez?verbose").await, (200, alive.to_owned()));
    is_blocked.store(true, Ordering::Release);
    let unblock = Unblock(is_blocked);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(get(&anybody, "/livez?verbose").await, (200, alive.to_owned()), "20 s are tolerated");
    until(&anybody, "/livez", 500).await;
    let dead = "[+]ping ok\n[+]workers ok\n[-]leaderElection failed: reason withheld\nlivez check failed\n";
    assert_eq!(get(&anybody, "/livez").await.1, dead);
    drop(unblock);
    let error = running.ended.await.unwrap().unwrap_err();
    assert!(matches!(error, ManagerError::LeaderElectionLost(_)), "{error}");
}

#[tokio::test]
async fn a_manager_that_shuts_down_is_unready_at_once_and_stays_alive() {
    let server = server();
    let running = start(&server).await;
    let anybody = client(running.address, None).await;
    until(&anybody, "/readyz", 200).await;
    // The write of a sync gets no answer, so the shutdown takes its whole time limit.
    server.add_fault(FaultRule::on(Fault::NeverAnswer { applied: false }, "create", "endpointslices"));
    server.create(web()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.stop.send(()).unwrap();
    until(&anybody, "/readyz", 500).await;
    assert_eq!(get(&anybody, "/livez").await.0, 200);
    running.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn metrics_status_configuration_and_flags_need_a_token() {
    let server = server();
    let running = start(&server).await;
    let anybody = client(running.address, Some("wrong")).await;
    let scraper = client(running.address, Some(TOKEN)).await;
    until(&anybody, "/readyz", 200).await;
    for path in ["/metrics", "/statusz", "/configz", "/flagz"] {
        assert_eq!(get(&anybody, path).await.0, 401, "{path}");
    }
    let (status, metrics) = get(&scraper, "/metrics").await;
    assert!(status == 200 && metrics.contains("workqueue_depth{name=\"endpoint_slice\"} 0"), "{metrics}");
    let (_, slis) = get(&scraper, "/metrics/slis").await;
    let check = "kubernetes_healthcheck{name=\"informer-sync\",type=\"readyz\"} 1";
    assert!(slis.contains(check), "{slis}");
    let (_, statusz) = get(&scraper, "/statusz").await;
    let statusz: Value = serde_json::from_str(&statusz).unwrap();
    let controllers = statusz["manager"]["controllers"].as_array().unwrap();
    let names: Vec<_> = controllers.iter().map(|controller| controller["name"].as_str().unwrap()).collect();
    let expected = ["endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"];
    assert_eq!(names, expected);
    assert_eq!((&statusz["manager"]["synced"], &statusz["manager"]["leading"]), (&json!(true), &json!(true)));
    let (_, configz) = get(&scraper, "/configz").await;
    let configz: Value = serde_json::from_str(&configz).unwrap();
    assert_eq!(configz["kube-endpoint-manager"]["kubeApiQps"], 20.0);
    let (_, flagz) = get(&scraper, "/flagz").await;
    assert_eq!(serde_json::from_str::<Value>(&flagz).unwrap()["flags"], json!({"secure-port": "0"}));
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_failing_key_is_counted_in_statusz() {
    let server = server();
    let running = start(&server).await;
    let scraper = client(running.address, Some(TOKEN)).await;
    until(&scraper, "/readyz", 200).await;
    let denied = kube_endpoint_embedded_apiserver::Status::new(400, "BadRequest", "denied by a webhook");
    server.add_fault(FaultRule::on(Fault::RefuseWith(denied), "create", "endpoints"));
    server.create(web()).await.unwrap();
    let failing = async || {
        let statusz: Value = serde_json::from_str(&get(&scraper, "/statusz").await.1).unwrap();
        statusz["manager"]["controllers"][0]["failing"].as_u64().unwrap()
    };
    for _ in 0..500 {
        if failing().await == 1 {
            let (_, metrics) = get(&scraper, "/metrics").await;
            assert!(metrics.contains("failing_keys{name=\"endpoint\"} 1\n"), "{metrics}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the failing key is not shown");
}

#[tokio::test]
async fn objects_that_another_client_writes_are_listed_in_statusz() {
    let server = server();
    let running = start(&server).await;
    let scraper = client(running.address, Some(TOKEN)).await;
    until(&scraper, "/readyz", 200).await;
    server.create(web()).await.unwrap();
    while server.count("endpoints") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let recent = async || {
        let statusz: Value = serde_json::from_str(&get(&scraper, "/statusz").await.1).unwrap();
        statusz["manager"]["controllers"][0]["recentForeignWrites"].clone()
    };
    assert_eq!(recent().await, json!([]), "its own writes are not foreign");
    let endpoints: kube::Api<k8s_openapi::api::core::v1::Endpoints> =
        kube::Api::namespaced(kube::Client::new(server.service(), "default"), "default");
    let patch = json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 1}]}]});
    endpoints.patch("web", &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    for _ in 0..500 {
        let recent = recent().await;
        if let Some(write) = recent.get(0) {
            assert_eq!((&write["kind"], &write["object"]), (&json!("Endpoints"), &json!("default/web")));
            assert_eq!((&write["count"], recent.as_array().unwrap().len()), (&json!(1), 1));
            assert!(write["at"].as_str().unwrap().parse::<kube_endpoint_core_model::Timestamp>().is_ok());
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the write is not shown");
}

/// Anybody may read `/readyz`, so it names no namespace; `/statusz` and `/metrics` need rights.
#[tokio::test]
async fn a_namespace_that_cannot_be_read_is_reported_on_each_page() {
    let server = server();
    let forbidden = Fault::Refuse { status: 403, retry_after: None };
    server.add_fault(FaultRule::new(forbidden, |request| request.namespace == "team-b"));
    let mut settings = Settings::default();
    settings.namespaces = vec!["team-a".to_owned(), "team-b".to_owned()];
    let running = Box::pin(start_with(&server, settings, None, |_| ())).await;
    let anybody = client(running.address, None).await;
    let want = "[+]ping ok\n[+]informer-sync ok: 1 of 2 namespaces cannot be read, see /statusz\n\
                [+]shutdown ok\nreadyz check passed\n";
    let reported = async {
        while get(&anybody, "/readyz?verbose").await != (200, want.to_owned()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reported).await.unwrap();
    let scraper = client(running.address, Some(TOKEN)).await;
    let (_, status) = get(&scraper, "/statusz").await;
    assert!(status.contains("team-b") && status.contains("services"), "{status}");
    let (_, metrics) = get(&scraper, "/metrics").await;
    assert!(metrics.contains("informer_unreadable_namespaces{kind=\"services\"} 1\n"), "{metrics}");
    running.stop.send(()).unwrap();
    running.ended.await.unwrap().unwrap();
}

//! The status page of a manager, over HTTPS and on loopback.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use kube::Config;
use kube::client::Body;
use kube_endpoint_controllers::{
    ApiClient, Manager, ManagerError, PageSources, ServingSettings, Settings, client_from_config,
};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, PolicyRule, User};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The token of a reader who may see everything.
const ADMINISTRATOR: &str = "token-of-the-administrator";
/// The token of a reader who may open the page, and list slices in `shop`.
const SHOPKEEPER: &str = "token-of-the-shopkeeper";
/// The token of a reader who may open the page.
const VISITOR: &str = "token-of-the-visitor";
/// The token of a reader who may do nothing.
const NOBODY: &str = "token-of-nobody";

fn service(namespace: &str, name: &str, port: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": port}]}})
}

/// Returns a Service in the form in which a server stores it, with an address.
fn stored(mut service: Value) -> Value {
    service["spec"]["clusterIP"] = "10.96.7.7".into();
    service["spec"]["ipFamilies"] = json!(["IPv4"]);
    service
}

fn pod(namespace: &str, name: &str) -> Value {
    let address = if namespace == "shop" { "10.0.0.1" } else { "10.0.0.2" };
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "web", "image": "web",
            "ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Returns a server with two namespaces. Each has a Service without problems, and one whose port no
/// pod has.
fn server() -> EmbeddedApiServer {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let user = |name: &str, groups: &[&str]| User { name: name.to_owned(), groups: list(groups) };
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}}});
    let mut objects = vec![node];
    for namespace in ["shop", "secret"] {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        objects.push(stored(service(namespace, "web", json!("http"))));
        objects.push(stored(service(namespace, "typo", json!("htpp"))));
        objects.push(pod(namespace, "web-1"));
    }
    EmbeddedApiServer::builder()
        .token(ADMINISTRATOR, user("root", &["system:masters"]))
        .token(SHOPKEEPER, user("shopkeeper", &["readers"]))
        .token(VISITOR, user("visitor", &["readers"]))
        .token(NOBODY, user("nobody", &[]))
        .policy_rule(PolicyRule {
            subjects: list(&["readers"]),
            verbs: list(&["get", "head"]),
            non_resource_urls: list(&["/ui", "/ui/*"]),
            ..PolicyRule::default()
        })
        .policy_rule(PolicyRule {
            subjects: list(&["shopkeeper"]),
            verbs: list(&["list"]),
            api_groups: list(&["discovery.k8s.io"]),
            resources: list(&["endpointslices"]),
            namespaces: list(&["shop"]),
            ..PolicyRule::default()
        })
        .load(objects)
        .build()
        .unwrap()
}

/// A manager that serves on a free port.
struct Running {
    server: EmbeddedApiServer,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), ManagerError>>,
}

async fn start() -> Running {
    let server = server();
    let client = ApiClient::for_tests(server.service());
    let mut serving = ServingSettings::on_port(0);
    serving.bind_address = [127, 0, 0, 1].into();
    // No answer expires during a test, even on a slow machine.
    (serving.authorized_cache_ttl, serving.unauthorized_cache_ttl) =
        (Duration::from_secs(600), Duration::from_secs(600));
    let mut settings = Settings::default();
    settings.serving = Some(serving);
    settings.shutdown_timeout = Duration::from_secs(2);
    let sources =
        PageSources { version: "0.1.0".to_owned(), flags: BTreeMap::new(), metrics: None, slis: None };
    let mut manager = Manager::new(client.clone(), &settings, server.now(), 1).unwrap();
    let clock = server.clone();
    let serving = manager.serve(&client, &settings, sources, move || clock.now()).await.unwrap().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(manager.run(async move {
        let _ = stopped.await;
    }));
    Running { server, address: serving.address.unwrap(), stop: Some(stop), ended }
}

impl Running {
    async fn client(&self, token: &str) -> ApiClient {
        let mut config = Config::new(format!("https://{}", self.address).parse().unwrap());
        config.accept_invalid_certs = true;
        config.auth_info.token = Some(token.to_owned().into());
        client_from_config(config).await.unwrap()
    }

    async fn get(&self, token: &str, path: &str) -> (u16, String) {
        let client = self.client(token).await;
        // `/statusz` has two forms.
        let request = Request::get(path).header("accept", "application/json, */*;q=0.5");
        let answer = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn json(&self, token: &str, path: &str) -> Value {
        let (status, body) = self.get(token, path).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Waits until the status of a reader meets a condition.
    async fn status(&self, token: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut status = Value::Null;
        for _ in 0..600 {
            status = self.json(token, "/ui/api/status").await;
            if condition(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the condition is not met: {status:#}");
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

/// Returns a condition: the status counts this many slices and has problems.
fn is_complete(slices: u64) -> impl Fn(&Value) -> bool {
    move |status| status["totals"]["slices"] == slices && !status["problems"].is_null()
}

#[tokio::test]
async fn a_reader_sees_their_namespaces_and_nothing_of_others() {
    let running = start().await;
    let all = running.status(ADMINISTRATOR, is_complete(4)).await;
    assert_eq!(all["totals"], json!({"services": 4, "slices": 4, "endpoints": 4, "readyEndpoints": 4}));
    assert_eq!(all["namespaces"], json!({"shown": 2, "hidden": 0, "notChecked": 0}));
    assert_eq!(all["controllers"].as_array().unwrap().len(), 3);
    assert_eq!((&all["leaders"], &all["synced"]), (&json!([]), &json!(true)));
    let codes = |status: &Value| -> Vec<String> {
        let items = status["problems"]["items"].as_array().unwrap();
        items.iter().map(|it| format!("{} {} {}", it["namespace"], it["name"], it["code"])).collect()
    };
    assert_eq!(codes(&all), [r#""secret" "typo" "EP012""#, r#""shop" "typo" "EP012""#]);

    let shop = running.status(SHOPKEEPER, is_complete(2)).await;
    assert_eq!(shop["totals"], json!({"services": 2, "slices": 2, "endpoints": 2, "readyEndpoints": 2}));
    assert_eq!(shop["namespaces"], json!({"shown": 1, "hidden": 1, "notChecked": 0}));
    assert_eq!(codes(&shop), [r#""shop" "typo" "EP012""#]);
    assert_eq!(shop["fill"]["classes"], json!([2, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert!(!shop.to_string().contains("secret"), "{shop:#}");

    let visitor = running.status(VISITOR, is_complete(0)).await;
    assert_eq!(visitor["namespaces"], json!({"shown": 0, "hidden": 2, "notChecked": 0}));
    assert_eq!((&visitor["problems"]["total"], &visitor["totals"]["services"]), (&json!(0), &json!(0)));

    // The page asks about two paths, about all namespaces, and about each of two namespaces,
    // however often somebody looks.
    let reviews = || {
        let log = running.server.request_log();
        log.iter().filter(|entry| entry.request.path.ends_with("subjectaccessreviews")).count()
    };
    let before = reviews();
    for _ in 0..20 {
        running.json(SHOPKEEPER, "/ui/api/status").await;
    }
    assert!(reviews() - before <= 5, "{before} {}", reviews());

    for path in
        ["/ui", "/ui/", "/ui/api/status", "/ui/api/events", "/ui/api/services", "/ui/api/services/shop/web"]
    {
        assert_eq!(running.get(NOBODY, path).await.0, 403, "{path}");
        assert_eq!(running.get("wrong", path).await.0, 401, "{path}");
    }
    running.stop().await;
}

#[tokio::test]
async fn the_page_and_statusz_count_failing_keys_alike() {
    let running = start().await;
    running.status(ADMINISTRATOR, is_complete(4)).await;
    let denied = kube_endpoint_embedded_apiserver::Status::new(400, "BadRequest", "denied by a webhook");
    running.server.add_fault(FaultRule::on(Fault::RefuseWith(denied), "create", "endpoints"));
    for name in ["one", "two", "three"] {
        running.server.create(service("shop", name, json!("http"))).await.unwrap();
    }
    let page = running.status(ADMINISTRATOR, |status| status["controllers"][0]["failing"] == 3).await;
    let statusz = running.json(ADMINISTRATOR, "/statusz").await;
    for (at, of_page) in page["controllers"].as_array().unwrap().iter().enumerate() {
        let of_statusz = &statusz["manager"]["controllers"][at];
        for count in ["name", "failing", "retriedSlowly"] {
            assert!(!of_page[count].is_null(), "{of_page:#}");
            assert_eq!(of_page[count], of_statusz[count], "{count}");
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn without_an_answer_of_the_api_server_nothing_of_a_namespace_is_shown() {
    let running = start().await;
    running.status(ADMINISTRATOR, is_complete(4)).await;
    // The server caches that this reader may open the page.
    assert_eq!(running.get(SHOPKEEPER, "/ui/").await.0, 200);
    let denied = kube_endpoint_embedded_apiserver::Status::new(403, "Forbidden", "no reviews today");
    running.server.add_fault(FaultRule::on(Fault::RefuseWith(denied), "create", "subjectaccessreviews"));
    let status = running.json(SHOPKEEPER, "/ui/api/status").await;
    for unknown in ["namespaces", "totals", "fill", "problems"] {
        assert_eq!(status[unknown], Value::Null, "{unknown}");
    }
    assert!(status["controllers"][0]["syncs"].as_u64().unwrap() > 0, "{status:#}");
    let (code, body) = running.get(SHOPKEEPER, "/ui/api/services/shop/web").await;
    assert_eq!(code, 500, "{body}");
    assert!(body.contains("cannot find out whether this is allowed"), "{body}");
    let (code, body) = running.get(SHOPKEEPER, "/ui/api/services").await;
    assert_eq!(code, 503, "{body}");
    assert!(body.contains("not known yet"), "{body}");
    running.stop().await;
}

#[tokio::test]
async fn services_are_found_and_explained_where_the_reader_may_see_them() {
    let running = start().await;
    running.status(ADMINISTRATOR, is_complete(4)).await;
    let names = async |token: &str, filter: &str| {
        let found = running.json(token, &format!("/ui/api/services?filter={filter}")).await;
        assert_eq!(found["truncated"], false);
        let services = found["services"].as_array().unwrap();
        services
            .iter()
            .map(|it| format!("{}/{}", it["namespace"].as_str().unwrap(), it["name"].as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(ADMINISTRATOR, "").await, "secret/typo secret/web shop/typo shop/web");
    assert_eq!(names(ADMINISTRATOR, "P%2FW").await, "shop/web");
    running.status(SHOPKEEPER, is_complete(2)).await;
    assert_eq!(names(SHOPKEEPER, "").await, "shop/typo shop/web");
    assert_eq!(names(SHOPKEEPER, "secret").await, "");

    let web = running.json(SHOPKEEPER, "/ui/api/services/shop/web").await;
    assert_eq!(web["explanation"]["verdict"]["code"], "EP000", "{web:#}");
    assert!(web["text"].as_str().unwrap().starts_with("OK  Service shop/web"), "{web:#}");
    let zone = json!([{"name": "a", "nodes": 1, "endpoints": 1, "ready": 1, "hintedFor": []}]);
    assert_eq!(web["zones"]["zones"], zone);
    assert_eq!(web["notes"], json!([]), "{web:#}");
    let typo = running.json(SHOPKEEPER, "/ui/api/services/shop/typo").await;
    assert_eq!(typo["explanation"]["verdict"]["code"], "EP012", "{typo:#}");

    for (token, path, want, message) in [
        (SHOPKEEPER, "/ui/api/services/secret/web", 403, "you may not list EndpointSlices"),
        (SHOPKEEPER, "/ui/api/services/secret/nothing", 403, "you may not list EndpointSlices"),
        (VISITOR, "/ui/api/services/shop/web", 403, "you may not list EndpointSlices"),
        (SHOPKEEPER, "/ui/api/services/shop/nothing", 404, "there is no Service shop/nothing"),
        (SHOPKEEPER, "/ui/api/nothing", 404, "there is no page"),
    ] {
        let (status, body) = running.get(token, path).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["code"], &body["kind"]), (want, &json!(want), &json!("Status")), "{path}");
        assert!(body["message"].as_str().unwrap().contains(message), "{body}");
    }
    running.stop().await;
}

/// A user may read the answers in a terminal. JSON's escapes replace characters that would change
/// it.
#[tokio::test]
async fn hostile_text_is_escaped_in_every_answer() {
    const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{7f}<script>";
    let running = start().await;
    let mut hostile = stored(service("shop", "hostile", json!(HOSTILE)));
    hostile["metadata"]["annotations"] =
        json!({"service.alpha.kubernetes.io/tolerate-unready-endpoints": HOSTILE.repeat(1000)});
    running.server.load([hostile]).unwrap();
    running.server.add_fault(FaultRule::on(
        Fault::RefuseWith(kube_endpoint_embedded_apiserver::Status::new(422, "Invalid", HOSTILE)),
        "create",
        "endpointslices",
    ));
    let is_listed = |status: &Value| status["problems"]["items"].to_string().contains("hostile");
    running.status(ADMINISTRATOR, is_listed).await;
    let paths =
        ["/ui/api/status", "/ui/api/services/shop/hostile", "/ui/api/services/shop/%1b%e2%80%ae", "/statusz"];
    for path in paths {
        let (_, body) = running.get(ADMINISTRATOR, path).await;
        let wrong = body.chars().find(|c| *c != '\n' && !kube_endpoint_core_model::is_harmless(*c));
        assert_eq!(wrong, None, "{path}: {body:?}");
    }
    let explained = running.json(ADMINISTRATOR, "/ui/api/services/shop/hostile").await;
    assert!(
        explained["explanation"].to_string().contains(HOSTILE.split('<').next_back().unwrap()),
        "{explained:#}"
    );
    assert!(explained["text"].as_str().unwrap().contains(r"\u{1b}[2J\u{9b}31m\u{202e}"), "{explained:#}");
    running.stop().await;
}

#[tokio::test]
async fn the_page_lets_a_browser_run_only_what_is_in_it() {
    let running = start().await;
    let client = running.client(SHOPKEEPER).await;
    let answer = client.send(Request::get("/ui/").body(Body::empty()).unwrap()).await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert_eq!(header("x-content-type-options"), "nosniff");
    let policy = header("content-security-policy");
    let has = |part: &str| assert!(policy.contains(part), "{policy}");
    has("default-src 'none'; script-src 'sha256-");
    has("connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    assert!(!policy.contains("unsafe"), "{policy}");
    let page = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(page.starts_with(b"<!doctype html>"), "{}", page.escape_ascii());
    let answer = client.send(Request::get("/ui").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()), (308, "/ui/"));
    running.stop().await;
}

/// Returns the next event of a stream.
async fn next_event(
    body: &mut (impl http_body::Body<Data = Bytes, Error: std::fmt::Debug> + Unpin),
) -> Option<Value> {
    loop {
        let frame = body.frame().await?.unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        if let Some(data) = text.strip_prefix("event: status\ndata: ") {
            return Some(serde_json::from_str(data).unwrap());
        }
    }
}

#[tokio::test]
async fn a_stream_shows_changes_and_ends_with_the_shutdown() {
    let running = start().await;
    running.status(SHOPKEEPER, is_complete(2)).await;
    let client = running.client(SHOPKEEPER).await;
    let answer = client.send(Request::get("/ui/api/events").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body();
    let first = next_event(&mut body).await.unwrap();
    assert_eq!(first["totals"]["services"], 2);
    running.server.create(service("shop", "third", json!("http"))).await.unwrap();
    running.server.create(service("secret", "third", json!("http"))).await.unwrap();
    let mut writes = 0;
    for _ in 0..20 {
        let event = next_event(&mut body).await.unwrap();
        assert!(!event.to_string().contains("secret"), "{event:#}");
        let of_slices = event["history"]["writes"]["endpointslice-controller"].as_array().unwrap();
        writes = of_slices.iter().filter_map(Value::as_u64).sum();
        if event["totals"]["services"] == 3 && writes >= 6 {
            break;
        }
    }
    assert_eq!(writes, 6);
    // This write gets no answer, so the shutdown takes its whole time limit.
    running.server.add_fault(FaultRule::on(
        Fault::NeverAnswer { applied: false },
        "create",
        "endpointslices",
    ));
    running.server.create(service("shop", "fourth", json!("http"))).await.unwrap();
    while next_event(&mut body).await.unwrap()["totals"]["services"] != 4 {}
    let stopped = tokio::spawn(running.stop());
    let mut last = None;
    while let Some(event) = next_event(&mut body).await {
        last = Some(event);
    }
    assert_eq!(last.map(|last| last["shuttingDown"].clone()), Some(json!(true)));
    assert!(!stopped.is_finished(), "the stream ended with the process");
    stopped.await.unwrap();
}

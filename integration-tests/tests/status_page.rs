//! Tests the status page of a manager process, through the kubectl plugin's `ui`, with the rights
//! of a user.
#![allow(clippy::unwrap_used)]
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, PolicyRule, User};
use kube_endpoint_integration_tests::processes::{binary, plugin};
use serde_json::{Value, json};

/// A time limit longer than any wait here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process. Dropping this kills it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program and waits for a line of its output that begins with a text. Returns the rest of
/// the line.
fn start(command: &mut Command, wanted: &str) -> (Process, String) {
    let command = command.env_remove("KUBECONFIG").env_remove("RUST_LOG").stdin(Stdio::null());
    let mut child = Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let outputs: [Box<dyn Read + Send>; 2] =
        [Box::new(child.0.stdout.take().unwrap()), Box::new(child.0.stderr.take().unwrap())];
    let (sender, lines) = channel();
    for output in outputs {
        let sender = sender.clone();
        // The thread reads to the end, so that the process never waits for a reader.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
    }
    let (deadline, mut seen) = (Instant::now() + TIMEOUT, String::new());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(line) = lines.recv_timeout(left) else { panic!("no line has {wanted:?}:\n{seen}") };
        if let Some((_, rest)) = line.split_once(wanted) {
            return (child, rest.to_owned());
        }
        seen += &format!("{line}\n");
    }
}

fn write_kubeconfig(folder: &Path, server: SocketAddr, token: &str) -> PathBuf {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{server}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": token}}],
    });
    let path = folder.join(format!("kubeconfig-{token}"));
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// A browser that has opened the printed address.
struct Browser {
    host: String,
    /// The path of the pages, without a slash at its end.
    pages: String,
    cookie: String,
}

impl Browser {
    fn open(url: &str) -> Self {
        let (host, target) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut browser = Self { host: host.to_owned(), pages: String::new(), cookie: String::new() };
        let answer = browser.get(target.strip_prefix("ui").unwrap());
        assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let pages = answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
        // The plugin names the cluster.
        let (pages, cluster) = pages.split_once("/?cluster=").unwrap();
        assert!(!cluster.is_empty());
        browser.pages = pages.to_owned();
        browser.cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
        browser
    }

    /// Requests a path below that of the pages.
    fn send(&self, below: &str, headers: &str) -> TcpStream {
        let target = format!("{}{below}", if self.pages.is_empty() { "/ui" } else { &self.pages });
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let head = format!("GET {target} HTTP/1.1\r\nHost: {}\r\n{}{headers}\r\n", self.host, self.cookie);
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    fn get(&self, below: &str) -> String {
        let mut answer = String::new();
        self.send(below, "Connection: close\r\n").read_to_string(&mut answer).unwrap();
        answer
    }

    /// Returns the status and the JSON of an answer. A body in chunks has one or more chunks here.
    fn json(&self, below: &str) -> (u16, Value) {
        let answer = self.get(below);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let (from, to) = (body.find('{').unwrap(), body.rfind('}').unwrap());
        let mut text = body[from..=to].to_owned();
        // Between chunks there is a line with the length of the next one.
        while let Some(at) = text.find("\r\n") {
            let end = text[at + 2..].find("\r\n").unwrap() + at + 4;
            text.replace_range(at..end, "");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {answer}")))
    }
}

/// Returns a Service with a pod that receives no traffic.
fn without_traffic(name: &str, spec: &Value, status: &Value) -> [Value; 2] {
    let meta = json!({"name": name, "namespace": "shop", "labels": {"app": name}});
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status});
    pod["metadata"]["name"] = format!("{name}-1").into();
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta,
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}),
        pod,
    ]
}

/// Returns Services whose pods have an init container that crashes, a readiness probe that fails,
/// and a scheduling gate, with the codes of the pods and parts of the sentences about them.
fn services_without_traffic() -> [([Value; 2], &'static str, &'static str); 3] {
    let container = |more: Value| {
        let mut container = json!({"name": "app", "image": "app"});
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        container
    };
    let status = |name: &str, state: Value, restarts: u32| {
        json!({"name": name, "image": name, "imageID": "", "ready": false, "restartCount": restarts, "state": state,
            "lastState": if restarts == 0 { json!({}) } else { json!({"terminated": {"exitCode": 3, "reason": "Error"}}) }})
    };
    let not_ready = ["Ready", "ContainersReady"].map(|kind| {
        json!({"type": kind, "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    [
        (
            without_traffic(
                "migrating",
                &json!({"nodeName": "node-1", "initContainers": [{"name": "migrate", "image": "migrate"}], "containers": [container(json!({}))]}),
                &json!({"phase": "Pending", "podIP": "10.1.9.1", "podIPs": [{"ip": "10.1.9.1"}], "conditions": not_ready,
                    "initContainerStatuses": [status("migrate", json!({"waiting": {"reason": "CrashLoopBackOff"}}), 4)],
                    "containerStatuses": [status("app", json!({"waiting": {"reason": "PodInitializing"}}), 0)]}),
            ),
            "EP020",
            "init container migrate does not run: CrashLoopBackOff (restarted 4 times; its last run ended with exit code 3, Error)",
        ),
        (
            without_traffic(
                "probing",
                &json!({"nodeName": "node-1", "containers": [container(json!({"readinessProbe": {"httpGet": {"port": 80}}}))]}),
                &json!({"phase": "Running", "podIP": "10.1.9.2", "podIPs": [{"ip": "10.1.9.2"}], "conditions": not_ready,
                    "containerStatuses": [status("app", json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), 0)]}),
            ),
            "EP019",
            "its readiness probe",
        ),
        (
            without_traffic(
                "gated",
                &json!({"schedulingGates": [{"name": "example.com/quota"}], "containers": [container(json!({}))]}),
                &json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                    "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}]}),
            ),
            "EP022",
            "example.com/quota",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_shows_the_page_of_a_manager_with_the_rights_of_its_user() {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let user = |name: &str, groups: &[&str]| User { name: name.to_owned(), groups: list(groups) };
    let shop: Value = serde_json::from_str(include_str!("../fixtures/shop-cluster.json")).unwrap();
    let server = EmbeddedApiServer::builder()
        .load([
            shop,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "secret"}}),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "secret"},
                "spec": {"ports": [{"port": 80}]}}),
        ])
        .load(services_without_traffic().into_iter().flat_map(|(objects, ..)| objects))
        .token("manager", user("manager", &["system:masters"]))
        .token("shopkeeper", user("shopkeeper", &[]))
        .policy_rule(PolicyRule {
            subjects: list(&["shopkeeper"]),
            verbs: list(&["get"]),
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
        .build()
        .unwrap();
    let listener = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (managers, shopkeepers) = (
        write_kubeconfig(folder.path(), listener.address(), "manager"),
        write_kubeconfig(folder.path(), listener.address(), "shopkeeper"),
    );
    let sibling = Path::new(env!("CARGO_BIN_EXE_apiserver-process"));
    let test = move || {
        let mut command = Command::new(binary(sibling));
        command.arg("--kubeconfig").arg(&managers).arg(format!("--secure-port={port}"));
        let (_manager, _) = start(
            command.args(["--bind-address=127.0.0.1", "--leader-elect=false"]),
            "controllers are running",
        );
        let mut command = Command::new(plugin(sibling));
        command
            .arg("ui")
            .arg(format!("--address=https://127.0.0.1:{port}"))
            .arg("--kubeconfig")
            .arg(shopkeepers);
        let (_plugin, url) = start(command.arg("--insecure-skip-tls-verify"), "Open ");

        let browser = Browser::open(&url);
        let page = browser.get("/");
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<!doctype html>"), "{page}");
        assert!(page.contains("content-security-policy: default-src 'none'; script-src 'sha256-"), "{page}");
        let redirected = browser.get("");
        let location = format!("location: {}/\r\n", browser.pages);
        assert!(redirected.starts_with("HTTP/1.1 303 ") && redirected.contains(&location), "{redirected}");

        // The test waits for two events: it would time out if the manager did not send, or the
        // proxy held them back.
        let (mut stream, mut text) = (browser.send("/api/events", ""), String::new());
        while text.matches("event: status\n").count() < 2 {
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "the stream ended: {text}");
            text += &String::from_utf8_lossy(&bytes[..read]);
        }
        assert!(text.contains("content-type: text/event-stream") && text.contains("retry: 2000"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        drop(stream);

        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            let (code, status) = browser.json("/api/status");
            assert_eq!(code, 200, "{status}");
            if status["namespaces"]["shown"] == 1 && !status["problems"].is_null() {
                break status;
            }
            assert!(Instant::now() < deadline, "{status:#}");
            std::thread::sleep(Duration::from_millis(100));
        };
        assert_eq!(status["namespaces"], json!({"shown": 1, "hidden": 1, "notChecked": 0}));
        let problems = status["problems"]["items"].as_array().unwrap();
        assert!(
            problems.iter().any(|it| it["name"] == "frontend-typo" && it["code"] == "EP012"),
            "{status:#}"
        );
        let (code, explained) = browser.json("/api/services/shop/frontend-typo");
        assert_eq!((code, &explained["explanation"]["verdict"]["code"]), (200, &json!("EP012")));
        for (objects, code, sentence) in services_without_traffic() {
            let name = objects[0]["metadata"]["name"].as_str().unwrap();
            let said = |explained: &Value| ["verdict", "pods", "toDo"].map(|part| explained[part].clone());
            // The manager may be about to write the slice of the Service.
            let explained = loop {
                let mut command = Command::new(plugin(sibling));
                command.args(["explain", name, "--namespace=shop", "--output=json", "--kubeconfig"]);
                let output = command.arg(&managers).output().unwrap();
                let of_plugin: Value = serde_json::from_slice(&output.stdout).unwrap();
                let of_page = browser.json(&format!("/api/services/shop/{name}")).1["explanation"].take();
                if said(&of_plugin) == said(&of_page) {
                    break of_page;
                }
                assert!(Instant::now() < deadline, "plugin: {of_plugin:#}\npage: {of_page:#}");
            };
            let reason = &explained["pods"][0]["reason"];
            assert_eq!(reason["code"], code, "{explained:#}");
            assert!(reason["message"].as_str().unwrap().contains(sentence), "{explained:#}");
        }
        the_plugin_serves_the_page_itself(sibling, &managers);
        let (code, refused) = browser.json("/api/services/secret/web");
        assert_eq!((code, &refused["reason"]), (403, &json!("Forbidden")));
    };
    tokio::task::spawn_blocking(test).await.unwrap();
}

/// Opens the page of a plugin that finds no manager: the overview is that of lint, and the
/// explanation that of `explain`.
fn the_plugin_serves_the_page_itself(sibling: &Path, kubeconfig: &Path) {
    let mut command = Command::new(plugin(sibling));
    let (_plugin, url) = start(command.args(["ui", "--kubeconfig"]).arg(kubeconfig), "Open ");
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    assert_eq!(path, "ui/?cluster=c");
    let browser = Browser { host: host.to_owned(), pages: String::new(), cookie: String::new() };
    assert!(browser.get("/").contains("<!doctype html>"));
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        let (code, status) = browser.json("/api/status");
        assert_eq!(code, 200, "{status}");
        if !status["problems"].is_null() {
            break status;
        }
        assert!(Instant::now() < deadline, "{status:#}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!((&status["history"], &status["controllers"]), (&Value::Null, &json!([])), "{status:#}");
    let problems = status["problems"]["items"].as_array().unwrap();
    assert!(problems.iter().any(|it| it["name"] == "frontend-typo" && it["code"] == "EP012"), "{status:#}");
    let (_, found) = browser.json("/api/services?filter=secret");
    assert_eq!(found["services"], json!([{"name": "web", "namespace": "secret"}]));
    let (code, explained) = browser.json("/api/services/shop/frontend-typo");
    assert_eq!((code, &explained["explanation"]["verdict"]["code"]), (200, &json!("EP012")));
    let (code, missing) = browser.json("/api/services/shop/frontent");
    assert_eq!(code, 404);
    assert!(missing["message"].as_str().unwrap().contains("a similar name in shop is frontend"), "{missing}");
}

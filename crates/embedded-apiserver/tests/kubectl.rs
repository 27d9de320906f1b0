//! kubectl against the server, as a newcomer uses it. Needs a kubectl: the one that `KUBECTL` names, or the one in
//! `PATH`, such as Debian's package `kubernetes-client` has it.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Listener};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

struct Kubectl {
    home: TempDir,
    server: EmbeddedApiServer,
    listener: Option<Listener>,
    runtime: tokio::runtime::Runtime,
}

impl Kubectl {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
        let listener = runtime.block_on(server.listen("127.0.0.1:0".parse().unwrap())).unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), server.kubeconfig(listener.address())).unwrap();
        Self { home, server, listener: Some(listener), runtime }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
        // A home of its own keeps kubectl's cache of discovery out of the user's and apart from other tests'.
        command
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &str, input: &str) -> (bool, String) {
        let mut child = match self.command(arguments).spawn() {
            Ok(child) => child,
            Err(error) => panic!(
                "these tests drive kubectl, which cannot be started ({error}): install Debian's kubernetes-client, \
                 or set KUBECTL to the path of one"
            ),
        };
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), text)
    }

    /// Runs a command that must succeed.
    #[track_caller]
    fn ok(&self, arguments: &str) -> String {
        let (success, text) = self.run(arguments, "");
        assert!(success, "kubectl {arguments}: {text}");
        text
    }

    /// Runs a command that must succeed on a manifest.
    #[track_caller]
    fn with(&self, arguments: &str, manifest: &Value) -> String {
        let (success, text) = self.run(arguments, &manifest.to_string());
        assert!(success, "kubectl {arguments}: {text}");
        text
    }

    /// Says of a pod that it runs, as its kubelet would: before 1.24 kubectl could not write a status.
    fn run_pod(&self, name: &str) {
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let request = http::Request::patch(format!("/api/v1/namespaces/default/pods/{name}/status"))
            .header("content-type", "application/merge-patch+json")
            .body(json!({"status": status}).to_string())
            .unwrap();
        let answer = self.runtime.block_on(self.server.service().oneshot(request)).unwrap();
        assert!(answer.status().is_success());
    }

    /// Runs a command that must fail.
    #[track_caller]
    fn fails(&self, arguments: &str) -> String {
        let (success, text) = self.run(arguments, "");
        assert!(!success, "kubectl {arguments}: {text}");
        text
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.take() {
            self.runtime.block_on(listener.shutdown());
        }
    }
}

fn service(port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": port}]},
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
    })
}

#[track_caller]
fn contains(text: &str, wanted: &[&str]) {
    for part in wanted {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn it_finds_its_way_around() {
    let kubectl = Kubectl::start();
    contains(&kubectl.ok("version -o yaml"), &["serverVersion:", "gitVersion: v1.36."]);
    let resources = kubectl.ok("api-resources");
    contains(&resources, &["endpointslices", "discovery.k8s.io/v1", "svc", "leases"]);
    contains(&kubectl.ok("api-versions"), &["coordination.k8s.io/v1", "events.k8s.io/v1"]);
    contains(&kubectl.ok("get namespaces"), &["kube-system", "Active"]);
    contains(&kubectl.ok("explain service.spec.ports"), &["targetPort", "nodePort"]);
    contains(&kubectl.ok("get --raw /readyz"), &["ok"]);
    contains(&kubectl.fails("get deployments"), &["the server doesn't have a resource type"]);
}

#[test]
fn objects_are_created_and_shown() {
    let kubectl = Kubectl::start();
    contains(&kubectl.with("create -f -", &service(80)), &["service/web created"]);
    contains(&kubectl.with("create -f -", &pod()), &["pod/web-1 created"]);
    let again = kubectl.run("create -f -", &pod().to_string()).1;
    contains(&again, &["AlreadyExists", "pods \"web-1\" already exists"]);
    contains(&kubectl.ok("get all"), &["pod/web-1", "service/web", "ClusterIP", "80/TCP"]);
    contains(&kubectl.ok("get pods -o wide"), &["NOMINATED NODE", "Pending"]);
    contains(&kubectl.ok("get pods -o yaml"), &["kind: List", "phase: Pending"]);
    assert_eq!(kubectl.ok("get pod web-1 -o jsonpath={.spec.dnsPolicy}"), "ClusterFirst");
    contains(&kubectl.ok("get pods -l app=web --field-selector status.phase=Pending -A"), &["web-1"]);
    contains(&kubectl.ok("describe service web"), &["Selector:", "app=web", "IP Families:"]);
    contains(&kubectl.ok("describe pod web-1"), &["QoS Class:", "BestEffort"]);
    contains(&kubectl.fails("get pod nope"), &["Error from server (NotFound): pods \"nope\" not found"]);
    contains(&kubectl.ok("create service nodeport api --tcp=80:8080"), &["service/api created"]);
    let api = kubectl.server.get("services", "default", "api").unwrap();
    assert_eq!(
        (api["spec"]["type"].as_str(), api["spec"]["ports"][0]["targetPort"].as_u64()),
        (Some("NodePort"), Some(8080))
    );
    contains(&kubectl.ok("expose pod web-1 --port=80 --name=exposed"), &["service/exposed exposed"]);
    contains(&kubectl.ok("run another --image=registry.k8s.io/pause"), &["pod/another created"]);
    let mut odd = service(80);
    odd["spec"]["colour"] = "red".into();
    contains(&kubectl.run("create -f -", &odd.to_string()).1, &["unknown field", "colour"]);
}

#[test]
fn objects_are_applied_and_changed() {
    let kubectl = Kubectl::start();
    contains(&kubectl.with("apply -f -", &service(80)), &["service/web created"]);
    contains(&kubectl.with("apply -f -", &service(80)), &["service/web unchanged"]);
    contains(
        &kubectl.with("apply -f - --dry-run=server", &service(81)),
        &["service/web configured (server dry run)"],
    );
    contains(&kubectl.with("apply -f -", &service(81)), &["service/web configured"]);
    assert_eq!(kubectl.ok("get service web -o jsonpath={.spec.ports[*].port}"), "81");
    contains(&kubectl.ok("label service web tier=front"), &["service/web labeled"]);
    contains(&kubectl.ok("annotate service web note=hello"), &["service/web annotated"]);
    contains(
        &kubectl.ok("patch service web -p {\"spec\":{\"ports\":[{\"port\":81,\"name\":\"main\"}]}}"),
        &["patched"],
    );
    contains(
        &kubectl
            .ok("patch service web --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/labels/tier\"}]"),
        &["patched"],
    );
    kubectl.with("create -f -", &pod());
    kubectl.run_pod("web-1");
    contains(&kubectl.ok("wait pod web-1 --for=condition=Ready --timeout=10s"), &["condition met"]);
    contains(&kubectl.with("replace -f -", &service(82)), &["service/web replaced"]);
    let service = kubectl.server.get("services", "default", "web").unwrap();
    assert_eq!(
        (service["spec"]["ports"][0]["port"].as_u64(), service["metadata"]["annotations"].as_object()),
        (Some(82), None)
    );
}

#[test]
fn objects_are_deleted() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &service(80));
    kubectl.with("create -f -", &pod());
    contains(&kubectl.ok("delete pod web-1"), &["pod \"web-1\" deleted"]);
    contains(&kubectl.ok("delete services --all"), &["service \"web\" deleted"]);
    contains(&kubectl.ok("create namespace shop"), &["namespace/shop created"]);
    kubectl.with("create -n shop -f -", &service(80));
    contains(&kubectl.ok("delete namespace shop --timeout=20s"), &["namespace \"shop\" deleted"]);
    assert_eq!(kubectl.server.count("services"), 0);
    contains(&kubectl.fails("delete pod nope"), &["NotFound"]);
}

#[test]
fn changes_are_watched() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &pod());
    let mut watch = kubectl.command("get pods -w --no-headers").spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut phase = || lines.next().unwrap().unwrap().split_whitespace().nth(2).unwrap().to_owned();
    assert_eq!(phase(), "Pending");
    // The watch begins at the version of the list, so it does not matter whether it is open yet.
    kubectl.run_pod("web-1");
    assert_eq!(phase(), "Running");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

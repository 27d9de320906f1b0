//! Helpers of the tests: a server with a kubectl for it, and manifests.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, ListenOptions, Listener, User};
use kube_endpoint_integration_tests::programs::kubectl_program;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

pub(crate) struct Kubectl {
    pub(crate) home: TempDir,
    pub(crate) server: EmbeddedApiServer,
    listener: Option<Listener>,
    runtime: tokio::runtime::Runtime,
}

impl Kubectl {
    pub(crate) fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let user = User { name: "kubernetes-admin".to_owned(), groups: Vec::new() };
        let server =
            EmbeddedApiServer::builder().seed(1).token("a-token", user).require_token().build().unwrap();
        let options = ListenOptions { tls: true, ..ListenOptions::default() };
        let listening = server.listen_with("127.0.0.1:0".parse().unwrap(), options);
        let listener = runtime.block_on(listening).unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), server.kubeconfig_of(&listener)).unwrap();
        Self { home, server, listener: Some(listener), runtime }
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(kubectl_program());
        // A separate home directory keeps kubectl's discovery cache apart from the user's and other
        // tests'.
        command
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &str, input: &str) -> (bool, String) {
        let output = output_of(self.command(arguments).spawn().unwrap(), input);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), text)
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &str) -> String {
        let (success, text) = self.run(arguments, "");
        assert!(success, "kubectl {arguments}: {text}");
        text
    }

    /// Runs a command that must succeed and returns its output without warnings.
    #[track_caller]
    pub(crate) fn prints(&self, arguments: &str) -> String {
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "kubectl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that must succeed on a manifest.
    #[track_caller]
    pub(crate) fn with(&self, arguments: &str, manifest: &Value) -> String {
        self.run_ok(arguments, &manifest.to_string())
    }

    /// Runs a command that must succeed on a text.
    #[track_caller]
    pub(crate) fn run_ok(&self, arguments: &str, input: &str) -> String {
        let (success, text) = self.run(arguments, input);
        assert!(success, "kubectl {arguments}: {text}");
        text
    }

    /// Returns the minor version of this kubectl.
    pub(crate) fn minor(&self) -> u32 {
        let version: Value = serde_json::from_str(&self.prints("version --client -o json")).unwrap();
        let minor = version["clientVersion"]["minor"].as_str().unwrap();
        minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
    }

    /// Sets a pod's phase to Running, as its kubelet does: before 1.24 kubectl could not write a
    /// status.
    pub(crate) fn run_pod(&self, name: &str) {
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
    pub(crate) fn fails(&self, arguments: &str) -> String {
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

/// Writes the input of a started program, and waits for its end.
pub(crate) fn output_of(mut child: Child, input: &str) -> Output {
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn service(port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": port}]},
    })
}

pub(crate) fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
    })
}

#[track_caller]
pub(crate) fn contains(text: &str, wanted: &[&str]) {
    for part in wanted {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

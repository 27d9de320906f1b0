//! A server, a kubeconfig for it, and the plugin as a process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, FaultRule, Listener, RequestInfo};
use kube_endpoint_explain::API_VERSION;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::json_schema::Schema;

pub(crate) fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/fixtures/shop-cluster.json")
}

/// Returns the published schema.
fn published() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explain.schema.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns the recorded namespace.
pub(crate) fn shop_objects() -> Value {
    serde_json::from_slice(&std::fs::read(fixture()).unwrap()).unwrap()
}

/// A server with objects, and a kubeconfig for it.
pub(crate) struct Shop {
    pub(crate) server: EmbeddedApiServer,
    listener: Listener,
    pub(crate) kubeconfig: NamedTempFile,
}

impl Shop {
    /// Returns a server with the recorded namespace.
    pub(crate) async fn start(faults: Vec<FaultRule>) -> Self {
        Self::with([shop_objects()], faults).await
    }

    /// Returns a server with these objects and no garbage collector.
    pub(crate) async fn with(objects: impl IntoIterator<Item = Value>, faults: Vec<FaultRule>) -> Self {
        let builder = EmbeddedApiServer::builder().without_garbage_collector().load(objects);
        let server = faults.into_iter().fold(builder, |builder, rule| builder.fault(rule)).build().unwrap();
        Self::of(server).await
    }

    pub(crate) async fn of(server: EmbeddedApiServer) -> Self {
        let listener = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let kubeconfig = NamedTempFile::new().unwrap();
        std::fs::write(kubeconfig.path(), server.kubeconfig(listener.address())).unwrap();
        Self { server, listener, kubeconfig }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Runs the plugin in the namespace `shop`, or without one for `doctor`.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        if arguments.first() == Some(&"doctor") {
            let kubeconfig = self.kubeconfig.path().to_str().unwrap();
            return self.run_exactly(&[arguments, &["--kubeconfig", kubeconfig]].concat()).await;
        }
        self.run_in("shop", arguments).await
    }

    /// Runs the plugin in a namespace.
    pub(crate) async fn run_in(&self, namespace: &str, arguments: &[&str]) -> Output {
        let kubeconfig = self.kubeconfig.path().to_str().unwrap();
        self.run_exactly(&[arguments, &["-n", namespace, "--kubeconfig", kubeconfig]].concat()).await
    }

    /// Runs the plugin with these arguments and no others. A document of the plugin's own is as the
    /// published schema says.
    pub(crate) async fn run_exactly(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
        command.args(arguments).env_remove("KUBECONFIG");
        command.stdin(Stdio::null()).env_remove("COLUMNS");
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let printed: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        if let Some(document) = printed.filter(|document| document["apiVersion"] == API_VERSION) {
            assert_eq!(Schema::closed(published()).check(&document), Ok(()), "{arguments:?}");
        }
        output
    }

    /// Returns the requests since the last call, as `VERB PATH?QUERY`.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log = self.server.request_log();
        self.server.clear_request_log();
        let line = |request: &RequestInfo| {
            let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
            format!("{} {}{query}", request.verb, request.path)
        };
        log.iter().map(|logged| line(&logged.request)).collect()
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

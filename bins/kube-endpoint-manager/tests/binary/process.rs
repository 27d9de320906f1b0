//! The binary as a process: with the embedded API server, against one in another process, and without a server.

use std::fs;

use crate::common::{Process, client, services_with_slices, wait_for_file};

/// The number of slices that the controllers create for the sample cluster.
const SAMPLE_SLICES: usize = 10;

#[tokio::test]
async fn embedded_prints_writes_and_exits_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let mut process =
        Process::start(folder.path(), &["--embedded", "--leader-elect=false", "--secure-port=0"]);
    process.wait_for_line("An API server listens on http://127.0.0.1:");
    process.wait_for_line("kubectl --kubeconfig embedded.kubeconfig");
    process.wait_for_line("EndpointSlice shop/");
    assert!(process.seen().iter().all(|line| !line.contains("INFO")), "{:#?}", process.seen());
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    let services = services_with_slices(&client, SAMPLE_SLICES).await;
    assert!(services.contains(&"frontend".to_owned()), "{services:?}");
    // The change that its output suggests.
    let patch = http::Request::patch("/api/v1/namespaces/shop/pods/db-0")
        .header("content-type", "application/merge-patch+json")
        .body(br#"{"metadata": {"labels": {"app": "nobody"}}}"#.to_vec());
    let _: serde_json::Value = client.request(patch.unwrap()).await.unwrap();
    process.wait_for_line("updated: IPv4, 1 endpoint, 1 ready");
    assert!(process.stop().success());
}

#[tokio::test]
async fn one_process_serves_and_another_runs_the_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::start(folder.path(), &["--embedded", "--controllers=-*"]);
    server.wait_for_line("Controllers: none");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    assert_eq!(services_with_slices(&client, 0).await, [""; 0]);
    let mut manager = Process::start(folder.path(), &["--kubeconfig=embedded.kubeconfig"]);
    manager.wait_for_line("controllers are running");
    services_with_slices(&client, SAMPLE_SLICES).await;
    assert!(manager.stop().success());
    assert!(server.stop().success());
}

#[tokio::test]
async fn an_unreachable_server_is_retried_and_logged() {
    let folder = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let mut manager = Process::start(folder.path(), &["--kubeconfig=kubeconfig"]);
    manager.wait_for_line(&format!("server=\"http://127.0.0.1:{port}/\""));
    for _ in 0..2 {
        let line = manager.wait_for_line("trying again");
        assert!(line.contains("cannot be reached") && line.contains("Connection refused"), "{line}");
    }
    assert!(manager.seen().iter().all(|line| !line.contains("kube_client")), "{:#?}", manager.seen());
    assert!(manager.stop().success());
}

#[test]
fn sigterm_ends_a_start_that_waits_for_a_credential_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "/bin/sh", "args": ["-c", "touch started; exec sleep 600"],
        }}}],
    });
    fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let process = Process::start(folder.path(), &["--kubeconfig=kubeconfig"]);
    wait_for_file(&folder.path().join("started"));
    // Waiting until the plugin is killed would end with an error.
    assert!(process.stop().success());
}

#[tokio::test]
async fn manifests_replace_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: own, namespace: default}\nspec:\n  selector: {app: own}\n  ports: [{port: 80}]\n";
    fs::write(folder.path().join("own.yaml"), manifest).unwrap();
    let mut process = Process::start(folder.path(), &["--embedded", "--embedded-load=own.yaml"]);
    process.wait_for_line("with 1 object loaded");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    assert_eq!(services_with_slices(&client, 1).await, ["own"]);
    assert!(process.stop().success());
}

//! The binary as a process: with an API server of its own, against one in another process, and against none.

use std::fs;

use crate::common::{Process, client, services_with_slices};

/// How many slices the controllers make of the sample cluster.
const SAMPLE_SLICES: usize = 10;

#[tokio::test]
async fn embedded_shows_what_is_written_and_ends_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let mut process =
        Process::start(folder.path(), &["--embedded", "--leader-elect=false", "--secure-port=0"]);
    process.says("An API server listens on http://127.0.0.1:");
    process.says("kubectl --kubeconfig embedded.kubeconfig");
    process.says("EndpointSlice shop/");
    assert!(process.seen().iter().all(|line| !line.contains("INFO")), "{:#?}", process.seen());
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    let services = services_with_slices(&client, SAMPLE_SLICES).await;
    assert!(services.contains(&"frontend".to_owned()), "{services:?}");
    // The change that it proposes.
    let patch = http::Request::patch("/api/v1/namespaces/shop/pods/db-0")
        .header("content-type", "application/merge-patch+json")
        .body(br#"{"metadata": {"labels": {"app": "nobody"}}}"#.to_vec());
    let _: serde_json::Value = client.request(patch.unwrap()).await.unwrap();
    process.says("updated: IPv4, 1 endpoint, 1 ready");
    assert!(process.stop().success());
}

#[tokio::test]
async fn one_process_serves_and_another_works_by_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::start(folder.path(), &["--embedded", "--controllers=-*"]);
    server.says("Controllers: none");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    assert_eq!(services_with_slices(&client, 0).await, [""; 0]);
    let mut manager = Process::start(folder.path(), &["--kubeconfig=embedded.kubeconfig"]);
    manager.says("the controllers work");
    services_with_slices(&client, SAMPLE_SLICES).await;
    assert!(manager.stop().success());
    assert!(server.stop().success());
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_tried_again_and_that_is_said() {
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
    manager.says(&format!("server=\"http://127.0.0.1:{port}/\""));
    for _ in 0..2 {
        let line = manager.says("trying again");
        assert!(line.contains("cannot be reached") && line.contains("Connection refused"), "{line}");
    }
    assert!(manager.seen().iter().all(|line| !line.contains("kube_client")), "{:#?}", manager.seen());
    assert!(manager.stop().success());
}

#[tokio::test]
async fn manifests_are_loaded_in_place_of_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: own, namespace: default}\nspec:\n  selector: {app: own}\n  ports: [{port: 80}]\n";
    fs::write(folder.path().join("own.yaml"), manifest).unwrap();
    let mut process = Process::start(folder.path(), &["--embedded", "--embedded-load=own.yaml"]);
    process.says("with 1 object loaded");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    assert_eq!(services_with_slices(&client, 1).await, ["own"]);
    assert!(process.stop().success());
}

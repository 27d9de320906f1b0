//! Tests the binary as a process: with the embedded API server, with one in another process, and
//! without a server.

use std::fs;

use crate::common::{Process, client, services_with_slices, wait_for_file};

/// The number of slices that the controllers create for the sample cluster.
pub(crate) const SAMPLE_SLICES: usize = 10;

#[tokio::test]
async fn embedded_prints_writes_and_exits_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), &["--embedded"]);
    process.wait_for_line("An API server listens on https://127.0.0.1:");
    process.wait_for_line("kubectl --kubeconfig embedded.kubeconfig");
    // Two controllers write these, in any order.
    process.wait_for_lines(["EndpointSlice shop/", "Endpoints shop/"]);
    let seen = process.seen();
    assert!(seen.iter().all(|line| !line.contains("INFO") && !line.contains("WARN")), "{seen:#?}");
    assert!(seen.iter().all(|line| !line.contains("token")), "{seen:#?}");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    let services = services_with_slices(&client, SAMPLE_SLICES).await;
    assert!(services.contains(&"frontend".to_owned()), "{services:?}");
    let kubeconfig = fs::metadata(folder.path().join("embedded.kubeconfig")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&kubeconfig) & 0o777, 0o600, "it contains a token");
    // This is the change that its output suggests.
    let patch = http::Request::patch("/api/v1/namespaces/shop/pods/db-0")
        .header("content-type", "application/merge-patch+json")
        .body(br#"{"metadata": {"labels": {"app": "nobody"}}}"#.to_vec());
    let _: serde_json::Value = client.request(patch.unwrap()).await.unwrap();
    process.wait_for_line("updated: IPv4, 1 endpoint, 1 ready");
    assert!(process.stop().success());
}

#[tokio::test]
async fn the_sample_with_selectors_shows_what_they_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Process::start(folder.path(), &["--embedded", "--embedded-sample=selectors"]);
    process.wait_for_line("endpoint-selector-controller.");
    process.wait_for_line("get epsel,services,endpointslices -A");
    process.wait_for_line("EndpointSlice shop/web-");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    // The former slice of `search` stays beside the new one, which has no endpoint. `cart` has
    // none.
    let services = services_with_slices(&client, 5).await;
    assert_eq!(services, ["catalog", "db", "search", "search", "web"]);
    // This is the change that its output suggests.
    let patch = http::Request::patch("/api/v1/namespaces/shop/pods/web-3")
        .header("content-type", "application/merge-patch+json")
        .body(br#"{"metadata": {"labels": {"track": "canary"}}}"#.to_vec());
    let _: serde_json::Value = client.request(patch.unwrap()).await.unwrap();
    process.wait_for_line("updated: IPv4, 2 endpoints, 2 ready");
    assert!(process.stop().success());
}

#[tokio::test]
async fn one_process_serves_and_another_runs_the_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::start(folder.path(), &["--embedded", "--controllers=-*"]);
    server.wait_for_line("Controllers: none");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    assert_eq!(services_with_slices(&client, 0).await, [""; 0]);
    let mut manager = Process::start(
        folder.path(),
        &["--kubeconfig=embedded.kubeconfig", "--leader-elect=false", "--secure-port=0"],
    );
    manager.wait_for_line("all caches are synced");
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
    let mut manager = Process::start(
        folder.path(),
        &["--kubeconfig=kubeconfig", "--leader-elect=false", "--secure-port=0"],
    );
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
    let process = Process::start(
        folder.path(),
        &["--kubeconfig=kubeconfig", "--leader-elect=false", "--secure-port=0"],
    );
    wait_for_file(&folder.path().join("started"));
    // Waiting until the plugin is killed would end with an error.
    assert!(process.stop().success());
}

#[test]
fn sigterm_ends_a_start_that_waits_for_the_api_server() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "--master=http://127.0.0.1:1",
        "--leader-elect=false",
        "--secure-port=0",
        "--endpoints-default=retired",
    ];
    let mut process = Process::start(folder.path(), &arguments);
    process.wait_for_line("asking again");
    // Waiting until the last attempt would end with an error.
    assert!(process.stop().success());
}

#[tokio::test]
async fn manifests_replace_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: own, namespace: default}\nspec:\n  selector: {app: own}\n  ports: [{port: 80}]\n";
    let deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: own}\n";
    fs::write(folder.path().join("own.yaml"), format!("{manifest}{deployment}")).unwrap();
    let mut process = Process::start(folder.path(), &["--embedded", "--embedded-load=own.yaml"]);
    let skipped = process.wait_for_lines(["objects were skipped", "with 1 object loaded"]);
    assert!(skipped.contains("own.yaml") && skipped.contains("Deployment of apps/v1"), "{skipped}");
    let client = client(folder.path().join("embedded.kubeconfig")).await;
    assert_eq!(services_with_slices(&client, 1).await, ["own"]);
    assert!(process.stop().success());
}

/// Returns the status code with which the server answers a GET without a token.
async fn status_without_token(folder: &std::path::Path) -> u16 {
    let mut kubeconfig = kube::config::Kubeconfig::read_from(folder.join("embedded.kubeconfig")).unwrap();
    kubeconfig.auth_infos[0].auth_info = Some(Default::default());
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let request = http::Request::get("/api/v1/pods").body(kube::client::Body::empty()).unwrap();
    client.send(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn the_embedded_server_needs_the_token_of_the_kubeconfig() {
    for (arguments, expected) in
        [(&["--embedded", "--seed=1"][..], 401), (&["--embedded", "--embedded-no-auth"], 200)]
    {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process::start(folder.path(), arguments);
        process.wait_for_line("An API server listens");
        assert_eq!(status_without_token(folder.path()).await, expected, "{arguments:?}");
        services_with_slices(&client(folder.path().join("embedded.kubeconfig")).await, SAMPLE_SLICES).await;
        assert!(process.stop().success());
    }
}

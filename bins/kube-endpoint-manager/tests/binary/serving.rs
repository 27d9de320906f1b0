//! Tests the pages that the binary serves.

use std::net::TcpListener;
use std::time::Duration;

use kube::Config;

use crate::common::Process;

/// Returns a client of the pages, and the token that it sends.
fn client_of(port: u16, token: &str) -> kube::Client {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.to_owned().into());
    kube::Client::try_from(config).unwrap()
}

async fn page(client: &kube::Client, path: &str) -> String {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap()
}

#[tokio::test]
async fn the_token_appears_in_no_log_and_on_no_page() {
    let folder = tempfile::tempdir().unwrap();
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let secure_port = format!("--secure-port={port}");
    let url = "--tracing-endpoint=http://user:password-of-the-collector@127.0.0.1:1";
    let arguments = ["--embedded", &secure_port, "--bind-address=127.0.0.1", url, "-v=10"];
    let mut process = Process::start(folder.path(), &arguments);
    // The process prints it once the port is open and the kubeconfig exists.
    process.wait_for_line("Stop it:");
    let kubeconfig = std::fs::read_to_string(folder.path().join("embedded.kubeconfig")).unwrap();
    let (_, token) = kubeconfig.split_once("token: \"").unwrap();
    let token = token.split('"').next().unwrap();
    assert!(token.len() >= 16, "{kubeconfig}");
    let client = client_of(port, token);
    let mut shown = String::new();
    for path in ["/metrics", "/configz", "/flagz", "/statusz", "/livez?verbose", "/readyz/informer-sync"] {
        shown += &page(&client, path).await;
    }
    assert!(shown.contains("workqueue_depth") && shown.contains("Caches synced: yes"), "{shown}");
    let cpu_time: Vec<&str> =
        shown.lines().filter(|it| it.starts_with("process_cpu_seconds_total ")).collect();
    assert!(cpu_time.len() == 1 && cpu_time[0].contains('.'), "{cpu_time:?}");
    assert!(
        client_of(port, "wrong-token")
            .request_text(http::Request::get("/metrics").body(Vec::new()).unwrap())
            .await
            .is_err()
    );
    // This process talks to the API server over a socket. Logs name the URL of the server.
    assert!(!kubeconfig.contains(&format!("{token}@")), "{kubeconfig}");
    let arguments = ["--kubeconfig=embedded.kubeconfig", "--secure-port=0", "--leader-elect=false", "-v=10"];
    let mut remote = Process::start(folder.path(), &arguments);
    remote.wait_for_line("controllers are running");
    shown += &remote.finish().join("\n");
    assert!(shown.contains("hyper_util::client"), "{shown}");
    // The test has then read the log lines of the pages.
    tokio::time::sleep(Duration::from_millis(200)).await;
    shown += &process.finish().join("\n");
    assert!(shown.contains("serving securely"));
    for secret in [token, "password-of-the-collector", "wrong-token"] {
        let line = shown.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
}

//! The plugin as a process, against the embedded API server with the recorded namespace of a real cluster.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, Listener};
use serde_json::Value;
use tempfile::NamedTempFile;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/fixtures/shop-cluster.json")
}

/// A server with the recorded namespace, and a kubeconfig for it.
struct Shop {
    server: EmbeddedApiServer,
    _listener: Listener,
    kubeconfig: NamedTempFile,
}

impl Shop {
    async fn start(faults: Vec<FaultRule>) -> Self {
        let list: Value = serde_json::from_slice(&std::fs::read(fixture()).unwrap()).unwrap();
        let builder = EmbeddedApiServer::builder().load([list]);
        let server = faults.into_iter().fold(builder, |builder, rule| builder.fault(rule)).build().unwrap();
        let listener = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let kubeconfig = NamedTempFile::new().unwrap();
        std::fs::write(kubeconfig.path(), server.kubeconfig(listener.address())).unwrap();
        Self { server, _listener: listener, kubeconfig }
    }

    /// Runs the plugin in the namespace `shop`.
    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-endpoints"));
        command.args(arguments).args(["-n", "shop", "--kubeconfig"]).arg(self.kubeconfig.path());
        command.stdin(Stdio::null()).env_remove("COLUMNS");
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// The requests since the last call, as `VERB PATH?QUERY`.
    fn requests(&self) -> Vec<String> {
        let log = self.server.request_log();
        self.server.clear_request_log();
        let line = |request: &kube_endpoint_embedded_apiserver::RequestInfo| {
            let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
            format!("{} {}{query}", request.verb, request.path)
        };
        log.iter().map(|logged| line(&logged.request)).collect()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The text without lines that contain ages.
fn without_ages(text: &str) -> String {
    text.lines().filter(|line| !line.contains(" ago")).map(|line| format!("{line}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_explained_with_the_requests_that_it_needs() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["explain", "frontend-typo"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(without_ages(&stdout(&output)));
    let mut requests = shop.requests();
    requests.sort();
    insta::assert_snapshot!(requests.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn near_matches_are_looked_for_if_nothing_matches() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["explain", "svc/nobody", "-o", "json"]).await;
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"]["code"], "EP030");
    let pods: Vec<String> = shop.requests().into_iter().filter(|line| line.contains("/pods?")).collect();
    insta::assert_snapshot!(pods.join("\n"), @r"
    list /api/v1/namespaces/shop/pods?&labelSelector=app%3Dnobody&limit=500
    list /api/v1/namespaces/shop/pods?&labelSelector=&limit=500
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_explained_for_each_service() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["explain", "pod/frontend-7dfbff9db-gnqg8", "-o", "yaml"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let yaml: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
    let services: Vec<&str> =
        yaml["services"].as_array().unwrap().iter().map(|says| says["service"].as_str().unwrap()).collect();
    assert_eq!(services, ["frontend", "frontend-typo"]);
    assert_eq!(yaml["services"][0]["code"], "EP019");
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_reports_by_exit_code_and_as_sarif() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["lint", "-o", "sarif"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let sarif: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), 8);
    let all = "EP012,EP019,EP021,EP030,topology-hints-withheld";
    let output = shop.run(&["lint", "-A", "--ignore", all]).await;
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(0), "0 errors, 0 warnings in 9 Services.\n".into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn diff_finds_what_persists() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run(&["diff", "--compatibility=upstream"]).await;
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "Nothing would change.\n".into()));
    // A slice that another client has emptied.
    let mut slice = shop.server.get("endpointslices", "shop", "db-bsvd2").unwrap();
    slice["endpoints"] = Value::Array(Vec::new());
    slice["kind"] = "EndpointSlice".into();
    slice["apiVersion"] = "discovery.k8s.io/v1".into();
    let mut list: Value = serde_json::from_slice(&std::fs::read(fixture()).unwrap()).unwrap();
    for item in list["items"].as_array_mut().unwrap() {
        if item["metadata"]["name"] == "db-bsvd2" {
            *item = slice.clone();
        }
    }
    let server = EmbeddedApiServer::builder().load([list]).build().unwrap();
    let listener = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    std::fs::write(shop.kubeconfig.path(), server.kubeconfig(listener.address())).unwrap();
    let output = shop.run(&["diff"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.starts_with("~ update EndpointSlice shop/db-bsvd2\n    + endpoints[10.244.0.6]: {"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_rendered_without_a_cluster() {
    let render = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_kubectl-endpoints")).arg("render").args(arguments).output().unwrap()
    };
    let file = fixture();
    let output = render(&["-o", "yaml", "-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let list: Value = serde_saphyr::from_str(&stdout(&output)).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 17);
    let output = render(&["-f", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "error: /no/such/file: No such file or directory (os error 2)\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forbidden_is_named_and_the_rest_is_shown() {
    let refuse = || Fault::Refuse { status: 403, retry_after: None };
    let shop = Shop::start(vec![
        FaultRule::on(refuse(), "list", "events"),
        FaultRule::new(refuse(), |request| request.plural() == "nodes"),
    ])
    .await;
    let output = shop.run(&["explain", "cart"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let notes = stderr(&output);
    assert!(notes.contains("You may not read nodes: "), "{notes}");
    assert!(notes.contains("You may not read events: "), "{notes}");
    assert!(stdout(&output).starts_with("DOWN  Service shop/cart  EP017 not-ready\n"), "{}", stdout(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_is_wrong() {
    let shop = Shop::start(Vec::new()).await;
    for (arguments, want) in [
        (&["explain", "none"][..], "error: there is no Service shop/none\n"),
        (&["explain", "pod/none"], "error: there is no pod shop/none\n"),
        (
            &["explain", "deployment/web"],
            "error: \"deployment\" is neither `service` nor `pod`; write NAME, service/NAME or pod/NAME\n",
        ),
        (&["diff", "-o", "sarif"], "error: only lint prints SARIF; choose table, wide, json or yaml\n"),
    ] {
        let output = shop.run(arguments).await;
        assert_eq!((output.status.code(), stderr(&output)), (Some(2), want.to_owned()));
    }
}

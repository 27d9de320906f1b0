//! Tests `retire` against recorded clusters (integration-tests/fixtures/retire/README.md), whose
//! answers a small server gives by their paths.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::large;
use crate::server::{Shop, stderr, stdout};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/fixtures/retire").join(name)
}

/// A request: its path with the query, and its headers.
type Request = (String, BTreeMap<String, String>);

/// A server that gives the answers of a recorded cluster.
struct Recorded {
    kubeconfig: NamedTempFile,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Recorded {
    /// Starts a server that refuses to list some kinds, or to answer some paths.
    async fn start(cluster: &'static str, refused: &'static [&'static str]) -> Self {
        Self::with(cluster, refused, None).await
    }

    /// Starts a server of another version.
    async fn with(
        cluster: &'static str,
        refused: &'static [&'static str],
        minor: Option<&'static str>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let log = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let mut lines = Vec::new();
                    loop {
                        let mut line = String::new();
                        if !stream.read_line(&mut line).await.is_ok_and(|length| length > 2) {
                            break;
                        }
                        lines.push(line.trim().to_owned());
                    }
                    let Some(first) = lines.first() else { return };
                    let path = first.split(' ').nth(1).unwrap().to_owned();
                    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
                    let headers =
                        headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
                    let (status, body) = answer(cluster, refused, minor, &path);
                    log.lock().unwrap().push((path, headers));
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.get_mut().write_all((head + &body).as_bytes()).await;
                });
            }
        });
        let kubeconfig = NamedTempFile::new().unwrap();
        let content = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        std::fs::write(kubeconfig.path(), content).unwrap();
        Self { kubeconfig, requests }
    }

    /// Runs `retire` with a file as standard input.
    async fn run(&self, arguments: &[&str], stdin: Option<PathBuf>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-endpoints"));
        command
            .arg("retire")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.kubeconfig.path())
            .env_remove("COLUMNS");
        command.stdin(stdin.map_or_else(Stdio::null, |file| File::open(file).unwrap().into()));
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    /// Runs `retire` with the recorded audit log, and returns its report.
    async fn report(&self, cluster: &str, arguments: &[&str]) -> (Value, Option<i32>) {
        let log = fixture(&format!("{cluster}/audit.log"));
        let all = [&["--audit-log", log.to_str().unwrap(), "-o", "json"], arguments].concat();
        let output = self.run(&all, None).await;
        let report = serde_json::from_slice(&output.stdout);
        (report.unwrap_or_else(|error| panic!("{error}: {}", stderr(&output))), output.status.code())
    }
}

/// Returns the answer to a request for a path.
fn answer(cluster: &str, refused: &[&str], minor: Option<&str>, path: &str) -> (u16, String) {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let status = |code: u16, reason: &str| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": reason});
        (code, status.to_string())
    };
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    // The parts behind the namespace, if the path has one.
    let (namespace, rest) = match parts.iter().position(|part| *part == "namespaces") {
        Some(at) if parts.len() > at + 2 => (parts.get(at + 1).copied(), &parts[at + 2..]),
        _ => (None, &parts[parts.len() - 1..]),
    };
    let (plural, name) = (rest[0], rest.get(1).copied());
    if refused.contains(&plural) {
        return status(403, "Forbidden");
    }
    let read = |file: &str| std::fs::read_to_string(fixture(&format!("{cluster}/{file}")));
    match path {
        "/metrics" => return (200, read("metrics.txt").unwrap()),
        "/version" => {
            let mut version: Value = serde_json::from_str(&read("version.json").unwrap()).unwrap();
            if let Some(minor) = minor {
                version["minor"] = minor.into();
            }
            return (200, version.to_string());
        }
        _ => {}
    }
    let Ok(text) = read(&format!("{plural}.json")) else { return status(404, "NotFound") };
    let mut list: Value = serde_json::from_str(&text).unwrap();
    let items = list["items"].as_array_mut().unwrap();
    items.retain(|item| namespace.is_none_or(|namespace| item["metadata"]["namespace"] == namespace));
    match name {
        Some(name) => match items.iter().find(|item| item["metadata"]["name"] == name) {
            Some(item) => (200, item.to_string()),
            None => status(404, "NotFound"),
        },
        None => (200, list.to_string()),
    }
}

fn verdicts(report: &Value) -> BTreeMap<&str, &str> {
    let namespaces = report["namespaces"].as_array().unwrap().iter();
    namespaces.map(|of| (of["namespace"].as_str().unwrap(), of["verdict"].as_str().unwrap())).collect()
}

fn hides(report: &Value) -> Vec<String> {
    let all = report["notSeen"].as_array().unwrap().iter().filter(|unseen| unseen["decides"] == true);
    all.map(|unseen| unseen["what"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_readers_is_refused_and_only_read() {
    let server = Recorded::start("busy", &[]).await;
    let (report, code) = server.report("busy", &["-A"]).await;
    assert_eq!((&report["kind"], code), (&json!("RetireReport"), Some(1)));
    assert_eq!(verdicts(&report), BTreeMap::from([("shop", "refuse")]));
    let whats = report["evidence"].as_array().unwrap().iter().map(|piece| piece["what"].as_str().unwrap());
    // It was read from the ConfigMap.
    assert!(
        whats
            .into_iter()
            .any(|what| what.starts_with("Prometheus monitoring/prometheus-0 has role endpoints"))
    );
    let mut requests = server.requests.lock().unwrap().clone();
    requests.sort();
    let lines: Vec<String> = requests
        .iter()
        .map(|(path, headers)| {
            let metadata = if headers.get("accept").is_some_and(|it| it.contains("PartialObjectMetadata")) {
                "metadata of "
            } else {
                ""
            };
            format!("{metadata}{path}")
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    metadata of /api/v1/endpoints?&limit=500
    /api/v1/namespaces/monitoring/configmaps/prometheus
    /api/v1/pods?&limit=500
    metadata of /api/v1/services?&limit=500
    /apis/coordination.k8s.io/v1/namespaces/kube-system/leases?&labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver&limit=500
    /apis/monitoring.coreos.com/v1/prometheuses?&limit=500
    /apis/monitoring.coreos.com/v1/servicemonitors?&limit=500
    /apis/monitoring.coreos.com/v1alpha1/prometheusagents?&limit=500
    /apis/rbac.authorization.k8s.io/v1/clusterrolebindings?&limit=500
    /apis/rbac.authorization.k8s.io/v1/clusterroles?&limit=500
    /apis/rbac.authorization.k8s.io/v1/rolebindings?&limit=500
    /apis/rbac.authorization.k8s.io/v1/roles?&limit=500
    /metrics
    /version
    ");
    // Otherwise the next report would take the plugin for a reader.
    let agent = format!("kubectl-endpoints/{}", env!("CARGO_PKG_VERSION"));
    assert!(requests.iter().all(|(_, headers)| headers["user-agent"] == agent));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_may_be_standard_input_and_metrics_may_be_files() {
    let server = Recorded::start("quiet", &["metrics"]).await;
    let (log, metrics) = (fixture("quiet/audit.log"), fixture("quiet/metrics.txt"));
    let metrics = ["--metrics", metrics.to_str().unwrap()];
    let output =
        server.run(&[&["-n", "shop", "--audit-log", "-"], &metrics[..]].concat(), Some(log.clone())).await;
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).starts_with("NO READER SEEN  1 namespace: "), "{}", stdout(&output));
    let requests = server.requests.lock().unwrap().clone();
    assert!(requests.iter().all(|(path, _)| path != "/metrics"));
    // Of Endpoints, Services and bindings only those of the namespace matter.
    let of = |plural: &str| {
        requests.iter().find(|(path, _)| path.contains(&format!("/{plural}?"))).unwrap().0.clone()
    };
    for plural in ["endpoints", "services", "roles", "rolebindings"] {
        assert!(of(plural).contains("/namespaces/shop/"), "{}", of(plural));
    }
    // Without them the server's own are missing.
    let output = server.run(&["-n", "shop", "--audit-log", "-", "-o", "json"], Some(log)).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((verdicts(&report)["shop"], output.status.code()), ("unknown", Some(2)));
    assert!(
        hides(&report)[0].contains("get /metrics") || hides(&report)[1].contains("get /metrics"),
        "{report:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn several_logs_and_metrics_are_added_up() {
    let server = Recorded::start("quiet", &[]).await;
    let (metrics, busy) = (fixture("quiet/metrics.txt"), fixture("busy/audit.log"));
    let (metrics, busy) = (metrics.to_str().unwrap(), busy.to_str().unwrap());
    let (report, _) =
        server.report("quiet", &["--metrics", metrics, "--metrics", metrics, "-n", "shop"]).await;
    assert!(
        hides(&report)[0].starts_with("4 watches of Endpoints are open, of which 2 may be known"),
        "{report:#}"
    );
    let (report, code) = server.report("quiet", &["--audit-log", busy, "-n", "shop"]).await;
    let events = |cluster: &str| {
        let log = std::fs::read_to_string(fixture(&format!("{cluster}/audit.log"))).unwrap();
        log.lines().count() as u64
    };
    assert_eq!(
        (report["auditLog"]["events"].as_u64(), code),
        (Some(events("quiet") + events("busy")), Some(1))
    );
}

/// A missing permission costs one line, and the rest is shown.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_read_is_told() {
    for (refused, want) in [
        (&["metrics"][..], "you lack the permission to get /metrics"),
        (&["version"], "you lack the permission to get /version"),
        (&["endpoints"], "you lack the permission to list endpoints"),
        (&["services"], "you lack the permission to list services"),
        (&["pods"], "you lack the permission to list pods"),
        (&["clusterroles"], "you lack the permission to list clusterroles.rbac.authorization.k8s.io"),
        (&["rolebindings"], "you lack the permission to list rolebindings.rbac.authorization.k8s.io"),
        (&["leases", "endpointslices"], "The number of API servers is not known"),
    ] {
        let server = Recorded::start("quiet", refused).await;
        let (report, code) = server.report("quiet", &["-A"]).await;
        let hidden = hides(&report);
        assert!(
            hidden.iter().any(|what| what.ends_with(want) || what.starts_with(want)),
            "{refused:?}: {hidden:?}"
        );
        // Without pods nobody knows which user is kube-endpoint-manager.
        assert_eq!(code, Some(if refused == ["pods"] { 1 } else { 2 }), "{refused:?}");
    }
    let server = Recorded::start("busy", &["configmaps"]).await;
    let (report, _) = server.report("busy", &["-A"]).await;
    let hidden = hides(&report).join("\n");
    assert!(hidden.contains("you lack the permission to get configmaps in monitoring"), "{hidden}");
    let server = Recorded::with("busy", &["apiservices"], Some("33")).await;
    let (report, _) = server.report("busy", &["-A"]).await;
    let hidden = hides(&report).join("\n");
    assert!(hidden.contains("list apiservices.apiregistration.k8s.io"), "{hidden}");
}

/// An old API server needs Endpoints to reach what it calls.
#[tokio::test(flavor = "multi_thread")]
async fn services_that_an_old_server_calls_stay() {
    let server = Recorded::with("busy", &[], Some("33+")).await;
    let (report, _) = server.report("busy", &["-n", "shop"]).await;
    let own = report["namespaces"][0]["evidence"].as_array().unwrap().iter();
    let stay: Vec<&str> = own
        .filter(|piece| piece["kind"] == "refused" && piece["source"] == "server")
        .map(|piece| piece["what"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!(stay.join("\n"), @r"
    API servers of version 1.33 reach ValidatingWebhookConfiguration quotas through the Endpoints of Service db
    API servers of version 1.33 reach APIService v1beta1.metrics.example.com, CustomResourceDefinition widgets.example.com through the Endpoints of Service web
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_is_an_error_before_the_cluster_is_asked() {
    let server = Recorded::start("quiet", &[]).await;
    let folder = TempDir::new().unwrap();
    let file = |name: &str, content: &[u8]| {
        std::fs::write(folder.path().join(name), content).unwrap();
    };
    file("empty", b"");
    file("blank", b"\n \n\n");
    file("text", b"2026-01-01 AUDIT: id=\"x\"\nmore\n");
    file("binary", &[0, 159, 146, 150, 0, 255].repeat(1000));
    file("packed.gz", &[0x1f, 0x8b, 8, 0]);
    file("objects.json", b"{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[]}\n");
    file("other.txt", b"go_goroutines 5\n");
    let mut text = String::new();
    for (flag, name) in [
        ("--audit-log", "none"),
        ("--audit-log", "."),
        ("--audit-log", "empty"),
        ("--audit-log", "blank"),
        ("--audit-log", "text"),
        ("--audit-log", "binary"),
        ("--audit-log", "packed.gz"),
        ("--audit-log", "objects.json"),
        ("--metrics", "none"),
        ("--metrics", "."),
        ("--metrics", "empty"),
        ("--metrics", "other.txt"),
        ("--metrics", "binary"),
        ("--metrics", "packed.gz"),
    ] {
        let path = folder.path().join(name);
        let output = server.run(&["-A", flag, path.to_str().unwrap()], None).await;
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()), "{name}");
        let folder = format!("{}/", folder.path().display());
        text += &format!("{flag} {name}\n  {}", stderr(&output).replace(&folder, ""));
    }
    for arguments in [&["-A", "--audit-log", "-"][..], &["-A", "--audit-log", "-", "--audit-log", "-"]] {
        let output = server.run(arguments, None).await;
        assert_eq!(output.status.code(), Some(2));
        text += &format!("{}\n  {}", arguments.join(" "), stderr(&output));
    }
    insta::assert_snapshot!(text);
    assert!(server.requests.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_does_not_exist_is_an_error() {
    let shop = Shop::start(Vec::new()).await;
    let output = shop.run_in("nope", &["retire"]).await;
    let said = (output.status.code(), stderr(&output));
    assert_eq!(said, (Some(2), "error: there is no namespace nope\n".to_owned()));
    let output = shop.run_in("shop", &["retire", "-o", "sarif"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error: only lint prints SARIF"), "{}", stderr(&output));
}

/// A server that has neither metrics nor RBAC, as the embedded one.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_cluster_is_read_in_pages_and_of_outputs_only_metadata() {
    let shop = Shop::of(large::server(1200, 1)).await;
    let kubeconfig = shop.kubeconfig.path().to_str().unwrap();
    let output = shop.run_exactly(&["retire", "-A", "-o", "json", "--kubeconfig", kubeconfig]).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(verdicts(&report).len(), 12, "{report:#}");
    assert_eq!(report["namespaces"][0]["endpoints"], 100);
    let requests = shop.requests();
    let pages = |plural: &str| {
        requests.iter().filter(|it| it.starts_with(&format!("list /api/v1/{plural}?"))).count()
    };
    assert_eq!(["endpoints", "services", "pods"].map(pages), [3, 3, 3], "{requests:#?}");
    assert!(requests.iter().all(|it| !it.contains("/endpointslices") || it.contains("/namespaces/default/")));
    // A list that cannot be continued begins anew, and counts each object once.
    shop.server.add_fault(
        FaultRule::new(Fault::Refuse { status: 410, retry_after: None }, |request| {
            request.plural() == "endpoints" && request.query.contains("continue=")
        })
        .times(1),
    );
    let output = shop.run_exactly(&["retire", "-A", "-o", "json", "--kubeconfig", kubeconfig]).await;
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again["namespaces"], report["namespaces"]);
}

/// Whoever sends requests writes into the audit log.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_log_that_is_hostile_to_a_terminal_is_escaped() {
    let server = Recorded::start("quiet", &[]).await;
    let event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "list\u{1b}[2J",
        "user": {"username": "jane\u{202e}"}, "userAgent": "\u{1b}]0;taken\u{7}\r\n", "objectRef": {"resource": "endpoints", "namespace": "shop"},
    });
    let log = NamedTempFile::new().unwrap();
    std::fs::write(log.path(), event.to_string()).unwrap();
    for format in ["table", "wide", "json", "yaml"] {
        let output =
            server.run(&["-A", "-o", format, "--audit-log", log.path().to_str().unwrap()], None).await;
        let text = stdout(&output);
        assert!(text.contains("jane"), "{text}");
        let is_harmless = |c: char| c == '\n' || kube_endpoint_core_model::is_harmless(c);
        assert!(text.chars().all(is_harmless), "{format}: {text:?}");
    }
}

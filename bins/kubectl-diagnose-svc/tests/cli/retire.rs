//! Tests `retire` against recorded clusters (integration-tests/fixtures/retire/README.md), whose
//! answers a small server gives by their paths.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use crate::recorder::Recorder;
use crate::server::{Shop, stderr, stdout};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/fixtures/retire").join(name)
}

/// A server that gives the answers of a recorded cluster.
struct Recorded {
    kubeconfig: NamedTempFile,
    server: Recorder,
}

impl Recorded {
    /// Starts a server that refuses to list some kinds, or to answer some paths.
    async fn start(cluster: &'static str, refused: &'static [&'static str]) -> Self {
        let server = Recorder::start(move |path| answer(cluster, refused, path)).await;
        let kubeconfig = NamedTempFile::new().unwrap();
        let content = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://{}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n",
            server.address
        );
        std::fs::write(kubeconfig.path(), content).unwrap();
        Self { kubeconfig, server }
    }

    /// Runs `retire` with a file as standard input.
    async fn run(&self, arguments: &[&str], stdin: Option<PathBuf>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
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

/// Returns the answer to a request for a path: a recorded list, which is empty if there is no file.
fn answer(cluster: &str, refused: &[&str], path: &str) -> (u16, String) {
    let path = path.split('?').next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    if refused.contains(&last) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403});
        return (403, status.to_string());
    }
    let file = if last == "metrics" { "metrics.txt".to_owned() } else { format!("{last}.json") };
    let text = std::fs::read_to_string(fixture(&format!("{cluster}/{file}")));
    (200, text.unwrap_or_else(|_| json!({"kind": "PodList", "apiVersion": "v1", "items": []}).to_string()))
}

fn verdicts(report: &Value) -> BTreeMap<&str, &str> {
    let namespaces = report["namespaces"].as_array().unwrap().iter();
    namespaces.map(|of| (of["namespace"].as_str().unwrap(), of["verdict"].as_str().unwrap())).collect()
}

fn hides(report: &Value) -> Vec<String> {
    let all = report["notSeen"].as_array().unwrap().iter();
    all.map(|unseen| unseen["what"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_readers_is_refused_and_only_read() {
    let server = Recorded::start("busy", &[]).await;
    let (report, code) = server.report("busy", &["-A"]).await;
    assert_eq!((&report["kind"], code), (&json!("RetireReport"), Some(1)));
    assert_eq!(verdicts(&report), BTreeMap::from([("shop", "refuse")]));
    let mut requests = server.server.requests();
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
    /api/v1/pods?&labelSelector=app.kubernetes.io%2Fname%3Dkube-endpoint-manager&limit=500
    metadata of /api/v1/services?&limit=500
    /apis/coordination.k8s.io/v1/namespaces/kube-system/leases?&labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver&limit=500
    /metrics
    /version
    ");
    // Otherwise the next report would take the plugin for a reader.
    let agent = format!("kubectl-diagnose-svc/{}", env!("CARGO_PKG_VERSION"));
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
    let requests = server.server.requests();
    assert!(requests.iter().all(|(path, _)| path != "/metrics"));
    // Of Services only those of the namespace matter.
    assert!(requests.iter().any(|(path, _)| path.contains("/namespaces/shop/services?")), "{requests:?}");
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
        (&["services"], "you lack the permission to list services"),
        (&["pods"], "you lack the permission to list pods in kube-system"),
        (&["leases"], "The number of API servers is not known"),
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
    assert!(server.server.requests().is_empty());
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

//! Tests the program that plays the recordings on a cluster, against the API server in a process of
//! its own. The manager stands in for kube-controller-manager.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_endpoint_integration_tests::conformance::on_cluster::LABEL;
use kube_endpoint_integration_tests::conformance::{Api, Kind};
use kube_endpoint_integration_tests::processes::{ServerConfig, ServerProcess, binary, objects};
use serde_json::json;
use tempfile::TempDir;

use crate::common::APISERVER;

/// A server without Services.
struct Cluster {
    server: ServerProcess,
    folder: TempDir,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("requests.jsonl");
        let config = ServerConfig { objects: objects(0, 0), users: 2, log };
        let server = ServerProcess::start(APISERVER.as_ref(), folder.path(), config);
        Self { server, folder }
    }

    /// Returns the command that runs the loops.
    fn loops(&self) -> String {
        let (binary, kubeconfig) = (binary(APISERVER.as_ref()), self.server.kubeconfig(1));
        let flags = "--compatibility=upstream --leader-elect=false --secure-port=0";
        format!("exec {} --kubeconfig={} {flags}", binary.display(), kubeconfig.display())
    }

    /// Plays, and returns the exit code, standard output and standard error.
    fn play(&self, arguments: &[&str]) -> (i32, String, String) {
        play(self.folder.path(), &self.server.kubeconfig(0), arguments)
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    async fn api(&self) -> Api {
        let kubeconfig = Kubeconfig::read_from(self.server.kubeconfig(0)).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Api::new(kube::Client::try_from(config.unwrap()).unwrap(), "default")
    }

    /// Returns the names of the namespaces and nodes of runs that are left after a minute. The
    /// server deletes a namespace some time after the request.
    async fn left(&self) -> Vec<String> {
        let api = self.api().await;
        let mut left = Vec::new();
        for _ in 0..60 {
            left.clear();
            for kind in [Kind::Namespace, Kind::Node] {
                let objects = api.list(kind).await.unwrap();
                let of_runs = objects.iter().filter(|it| !it["metadata"]["labels"][LABEL].is_null());
                left.extend(of_runs.map(|it| it["metadata"]["name"].to_string()));
            }
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        left
    }
}

fn play(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.current_dir(folder).arg("--kubeconfig").arg(kubeconfig).args(arguments);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controllers_play_and_take_over_where_nothing_else_writes() {
    let cluster = Cluster::start();
    let upstream = cluster.loops();
    let only = ["--only", "hostname-subdomain,mirror-needs-service", "--upstream", &upstream];
    let files = ["--report", "report.md"];
    let (code, _, progress) = cluster.play(&[only.as_slice(), &files].concat());
    let report = cluster.file("report.md");
    assert_eq!(code, 0, "{progress}\n{report}");
    for row in [
        "- result: 2 recordings, 2 passed, 0 failed, 0 skipped",
        "- hand-over: passed",
        "| this program takes over | 0 writes by this program | passed |",
        "| kube-controller-manager's loops come back | 0 writes by kube-controller-manager's loops | passed |",
    ] {
        assert!(report.contains(row), "{row}\n{report}");
    }
    assert!(progress.contains("passed   hostname-subdomain"), "{progress}");
    assert_eq!(cluster.left().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_the_clusters_own_controllers_the_plan_has_to_agree() {
    let cluster = Cluster::start();
    let _loops = Killed(Command::new("sh").args(["-c", &cluster.loops()]).spawn().unwrap());
    let (code, report, progress) = cluster.play(&["--only", "mirror-needs-service"]);
    assert_eq!(code, 0, "{progress}\n{report}");
    assert!(report.contains("| mirror-needs-service | passed | yes |"), "{report}");
    assert!(report.contains("controllers write endpoints (`kube-endpoint-manager`)"), "{report}");
    assert_eq!(cluster.left().await, [""; 0]);
    let (code, _, error) = cluster.play(&["--only", "mirror-needs-service", "--upstream", "sleep 600"]);
    assert!(code == 2 && error.contains("--upstream would start them a second time"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_does_not_fit_is_refused_with_what_to_do() {
    let cluster = Cluster::start();
    let refused = |(code, report, error): (i32, String, String), why: &str| {
        assert!(code == 2 && report.is_empty() && error.contains(why), "{error}");
    };
    let folder = cluster.folder.path();
    let nowhere = PathBuf::from("/nowhere/kubeconfig");
    std::fs::write(folder.join("report.md"), "of the last run").unwrap();
    let files = ["--report", "report.md"];
    refused(play(folder, &nowhere, &files), "does not exist; name another");
    assert_eq!(cluster.file("report.md"), "of the last run");
    refused(
        cluster.play(&["--only", "headles"]),
        "no recording is called \"headles\": choose from dual-stack,",
    );
    refused(cluster.play(&["--report", "/nowhere/report.md"]), "writing /nowhere/report.md");
    let left = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "endpoint-conformance-x", "labels": {LABEL: ""}}});
    cluster.api().await.create(left).await.unwrap();
    refused(
        cluster.play(&[]),
        "an earlier run has left Namespace endpoint-conformance-x, or another run goes on",
    );
    // The run that was refused has deleted nothing.
    assert_eq!(cluster.left().await, ["\"endpoint-conformance-x\""]);
    let Cluster { mut server, folder } = cluster;
    server.stop_listening();
    refused(play(folder.path(), &server.kubeconfig(0), &[]), "does not answer");
}

//! The cluster: its objects, the controller managers on it, and its audit log.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::Method;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_endpoint_integration_tests::processes::{
    LEASE, Line, NAMESPACE, Outputs, Process, Size, binary, objects, read_audit_log,
};
use kube_endpoint_integration_tests::programs::Missing;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

/// The tests of this program take turns on the cluster.
static TURN: Mutex<()> = Mutex::const_new(());

/// The time limit for the work of a controller manager, including waits for leases.
const PATIENCE: Duration = Duration::from_secs(90);

/// The Lease of everything else in kube-controller-manager.
const MAIN_LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// The Lease of the loops.
const LOOPS_LEASE: &str = "kube-endpoint-manager";

/// The controller that has to run before kube-controller-manager campaigns for the Lease of a
/// leader migration.
const TOKENS: &str = "serviceaccount-token-controller";

/// The Lease under which kube-controller-manager runs the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Under {
    /// With processes for the loops alone, and `--leader-elect-resource-name`.
    NameOfLease,
    /// With `--enable-leader-migration`, in the processes of all loops.
    LeaderMigration,
    /// Not under a Lease of their own, but under that of all loops.
    MainLease,
}

/// The loops, by their names in kube-controller-manager.
const LOOPS: [&str; 3] =
    ["endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"];

/// The variables that name the cluster and its files.
const VARIABLES: [&str; 4] = [
    "KEM_HANDOVER_KUBECONFIG",
    "KEM_HANDOVER_CONTROLLER_MANAGER",
    "KEM_HANDOVER_SERVICE_ACCOUNT_KEY",
    "KEM_HANDOVER_AUDIT_LOG",
];

/// Checks that the environment names a cluster.
pub(crate) fn a_cluster() -> Result<(), Missing> {
    if VARIABLES.iter().all(|name| std::env::var_os(name).is_some()) {
        return Ok(());
    }
    let needed = format!("no cluster and no kube-controller-manager: set {}", VARIABLES.join(", "));
    Err(Missing::Optional(needed))
}

/// The load, and client-go's default times of leases.
pub(crate) const SIZE: Size = Size { services: 50, pods_per_service: 3, ..Size::FULL };

pub(crate) struct Cluster {
    pub(crate) client: Client,
    kubeconfig: Kubeconfig,
    controller_manager: PathBuf,
    service_account_key: PathBuf,
    audit_log: PathBuf,
    started: Duration,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Returns the time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

impl Cluster {
    /// Returns the cluster that the environment names, with the objects of the load and without
    /// those of an earlier test.
    pub(crate) async fn from_environment() -> Self {
        let [kubeconfig, controller_manager, service_account_key, audit_log] =
            VARIABLES.map(|name| PathBuf::from(std::env::var_os(name).unwrap()));
        let turn = TURN.lock().await;
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self {
            client,
            kubeconfig,
            controller_manager,
            service_account_key,
            audit_log,
            started: now(),
            folder,
            _turn: turn,
        };
        cluster.reset().await;
        // The requests of the reset do not count.
        cluster.started = now();
        cluster
    }

    async fn request(&self, method: Method, uri: &str, body: Option<&Value>) -> kube::Result<Value> {
        let content_type = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(uri).header("content-type", content_type);
        self.client.request(request.body(body).unwrap()).await
    }

    /// Deletes the objects of an earlier test, then creates the new ones.
    async fn reset(&self) {
        let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
        for lease in [LEASE, MAIN_LEASE] {
            let _ = self.request(Method::DELETE, lease, None).await;
        }
        let _ = self.request(Method::DELETE, &namespace, None).await;
        // Pods on a node wait for its kubelet, which does not exist.
        let _ = self.request(Method::DELETE, &format!("{namespace}/pods?gracePeriodSeconds=0"), None).await;
        let deadline = Instant::now() + PATIENCE;
        while self.request(Method::GET, &namespace, None).await.is_ok() {
            assert!(Instant::now() < deadline, "the namespace {NAMESPACE} does not end");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let object = json!({"metadata": {"name": NAMESPACE}});
        self.request(Method::POST, "/api/v1/namespaces", Some(&object)).await.unwrap();
        for object in objects(SIZE.services, SIZE.pods_per_service) {
            self.create(&object).await;
        }
    }

    async fn create(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let collection = match object["kind"].as_str().unwrap() {
            "Node" => "/api/v1/nodes".to_owned(),
            "Pod" => format!("/api/v1/namespaces/{NAMESPACE}/pods"),
            _ => format!("/api/v1/namespaces/{NAMESPACE}/services"),
        };
        match self.request(Method::POST, &collection, Some(object)).await {
            Ok(_) => {}
            // An earlier test has left nodes.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{collection}/{name}: {error}"),
        }
        if object["status"].is_object() {
            let status = json!({"status": object["status"]});
            self.request(Method::PATCH, &format!("{collection}/{name}/status"), Some(&status)).await.unwrap();
        }
    }

    /// Returns a kubeconfig for a process that appears as `user` in the audit log.
    fn kubeconfig(&self, user: &str) -> PathBuf {
        let mut kubeconfig = self.kubeconfig.clone();
        for named in &mut kubeconfig.auth_infos {
            if let Some(auth_info) = &mut named.auth_info {
                auth_info.impersonate = Some(user.to_owned());
                auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
            }
        }
        let path = self.folder.path().join(format!("{user}.kubeconfig"));
        std::fs::write(&path, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
        path
    }

    fn start(&self, user: &str, command: Command) -> Process {
        Process::start(user, command, &self.folder.path().join(format!("{user}.log")), None).unwrap()
    }

    fn controller_manager(&self, user: &str, controllers: &[&str]) -> Command {
        let mut command = Command::new(&self.controller_manager);
        command
            .stdin(Stdio::null())
            .arg(format!("--kubeconfig={}", self.kubeconfig(user).display()))
            .arg(format!("--controllers={}", controllers.join(",")))
            .arg(format!("--service-account-private-key-file={}", self.service_account_key.display()))
            .arg(format!("--cert-dir={}", self.folder.path().join(user).display()))
            .args(["--leader-elect=true", "--bind-address=127.0.0.1", "--secure-port=0"]);
        command
    }

    /// Returns a kube-controller-manager that runs the loops.
    pub(crate) fn start_upstream(&self, user: &str, under: Under) -> Process {
        let command = match under {
            Under::MainLease => self.controller_manager(user, &[&[TOKENS][..], &LOOPS].concat()),
            Under::NameOfLease => {
                let mut command = self.controller_manager(user, &LOOPS);
                command.arg(format!("--leader-elect-resource-name={LOOPS_LEASE}"));
                command
            }
            Under::LeaderMigration => {
                let file = self.leader_migration();
                let mut command = self.controller_manager(user, &[&[TOKENS][..], &LOOPS].concat());
                command
                    .arg("--enable-leader-migration")
                    .arg(format!("--leader-migration-config={}", file.display()));
                command
            }
        };
        self.start(user, command)
    }

    /// Returns the file that assigns the loops to kube-controller-manager, under a Lease of their
    /// own.
    fn leader_migration(&self) -> PathBuf {
        let leaders = LOOPS.map(|name| json!({"name": name, "component": "kube-controller-manager"}));
        let migration = json!({
            "apiVersion": "controllermanager.config.k8s.io/v1", "kind": "LeaderMigrationConfiguration",
            "leaderName": LOOPS_LEASE, "controllerLeaders": leaders,
        });
        let path = self.folder.path().join("leader-migration.json");
        std::fs::write(&path, migration.to_string()).unwrap();
        path
    }

    /// Starts a kube-controller-manager without the loops, under its main Lease.
    pub(crate) fn start_upstream_without_loops(&self, user: &str) -> Process {
        self.start(user, self.controller_manager(user, &[TOKENS]))
    }

    /// Gives the Lease of the loops to a holder that never renews it, for an hour.
    pub(crate) async fn reserve_lease(&self) {
        // A MicroTime has six digits after the point.
        let now = format!("{:.6}", jiff::Timestamp::now());
        let collection = LEASE.rsplit_once('/').unwrap().0;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LOOPS_LEASE},
            "spec": {
                "holderIdentity": "kube-controller-manager", "leaseDurationSeconds": 3600,
                "acquireTime": now, "renewTime": now,
            },
        });
        self.request(Method::POST, collection, Some(&lease)).await.unwrap();
    }

    /// Takes the Lease of the loops from its holder. As in a release by client-go, the duration is
    /// a second: with a longer one, replicas assume that somebody removed the holder by hand, and
    /// wait until the Lease expires.
    pub(crate) async fn release_lease(&self) {
        let patch = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
        self.request(Method::PATCH, LEASE, Some(&patch)).await.unwrap();
    }

    /// Starts this project's binary.
    pub(crate) fn start_ours(&self, user: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new(binary(env!("CARGO_BIN_EXE_apiserver-process").as_ref()));
        command
            .current_dir(self.folder.path())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .arg("--kubeconfig")
            .arg(self.kubeconfig(user))
            .args(["--leader-elect=true", "--secure-port=0"])
            .args(arguments);
        self.start(user, command)
    }

    /// Returns the requests since this test began.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = std::fs::read(&self.audit_log).unwrap();
        let lines = read_audit_log(&String::from_utf8_lossy(&text));
        lines.into_iter().filter(|line| line.time() >= self.started).collect()
    }

    /// Returns the number of requests so far.
    pub(crate) fn mark(&self) -> usize {
        self.lines().len()
    }

    pub(crate) async fn wait_until(&self, what: &str, condition: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition().await {
            assert!(Instant::now() < deadline, "waited too long: {what}");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// Waits until the outputs agree with the pods.
    pub(crate) async fn settled(&self) {
        let complete = async || Outputs::read(&self.client).await.is_ok_and(|it| it.differences().is_empty());
        self.wait_until("the outputs are complete", complete).await;
    }

    /// Waits until the last to write the Lease of the loops is `user`.
    pub(crate) async fn wait_for_holder(&self, user: &str) {
        self.wait_for_writer_of(LOOPS_LEASE, user).await;
    }

    /// Waits until the last to write the Lease of everything else is `user`.
    pub(crate) async fn wait_for_main_holder(&self, user: &str) {
        self.wait_for_writer_of("kube-controller-manager", user).await;
    }

    async fn wait_for_writer_of(&self, lease: &str, user: &str) {
        self.wait_until(&format!("{user} holds {lease}"), async || {
            let lines = self.lines();
            let writes = |line: &&Line| {
                line.resource == "leases" && line.name == lease && line.is_write() && line.succeeded()
            };
            lines.iter().rev().find(writes).is_some_and(|line| line.user == user)
        })
        .await;
    }

    /// Waits until `user` watches pods.
    pub(crate) async fn wait_for_watch(&self, user: &str) {
        self.wait_until(&format!("{user} watches pods"), async || {
            let watches = |line: &Line| line.user == user && line.resource == "pods" && line.verb == "watch";
            self.lines().iter().any(watches)
        })
        .await;
        // The watch may begin with all objects.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

//! Runs the real binary with its embedded API server, and a browser on its status page.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use kube_endpoint_integration_tests::processes::{Process, binary};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::page::browser::Browser;

/// How long the process may take to print the address of the page.
const PATIENCE: Duration = Duration::from_secs(60);

/// A manager, its page in a browser, and a client of its API server.
pub(crate) struct Scene {
    pub(crate) page: Browser,
    manager: Process,
    client: Client,
    address: String,
    /// This is the last field, because it must be dropped last.
    _folder: TempDir,
}

impl Scene {
    /// Starts the sample cluster. The page is open and shows the first data.
    pub(crate) async fn sample() -> Self {
        Self::with(&[]).await
    }

    /// Starts the sample cluster with more objects.
    pub(crate) async fn with(objects: &[Value]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let more = folder.path().join("more.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&more, list.to_string()).unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = Command::new(binary(Path::new(env!("CARGO_BIN_EXE_apiserver-process"))));
        command
            .args(["--embedded", "--leader-elect-identity=manager-0"])
            .arg(flag("--embedded-kubeconfig", &kubeconfig))
            .arg(flag("--embedded-load", &sample()));
        if !objects.is_empty() {
            command.arg(flag("--embedded-load", &more));
        }
        let mut manager =
            Process::start("manager", command, &folder.path().join("manager.log"), None).unwrap();
        let address = address(&mut manager).await;
        let page = Browser::start(folder.path()).await;
        page.open(&address).await;
        let scene = Self { page, manager, client: client(&kubeconfig).await, address, _folder: folder };
        scene
            .page
            .wait_until("the page is live", "document.getElementById('state').textContent === 'Live'")
            .await;
        scene.page.wait_until("problems are shown", "!!document.querySelector('#problems table')").await;
        scene
    }

    /// Returns the address that the manager printed.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Changes a Service with a merge patch.
    pub(crate) async fn patch_service(&self, name: &str, patch: Value) {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "shop");
        services.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Sets the condition Ready of a pod. Its time is that of the change, from which latency is
    /// measured.
    #[expect(clippy::disallowed_methods, reason = "the manager has the system's time, too")]
    pub(crate) async fn set_ready(&self, pod: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let conditions = json!([{"type": "Ready", "status": status, "lastTransitionTime": now}]);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "shop");
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        pods.patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Kills the manager.
    pub(crate) async fn kill_manager(&mut self) {
        self.manager.signal(Signal::KILL);
        self.manager.wait(PATIENCE).await;
    }

    /// Ends the browser, as a user does, and the manager.
    pub(crate) async fn end(self) {
        self.page.quit().await;
    }
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/manager/sample/shop.json")
}

fn flag(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// Returns the address of the page, from the first lines that the manager prints.
#[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
async fn address(manager: &mut Process) -> String {
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let log = manager.log();
        let address =
            log.split_whitespace().find(|word| word.starts_with("http://") && word.ends_with("/ui/"));
        if let Some(address) = address {
            return address.to_owned();
        }
        assert!(
            std::time::Instant::now() < deadline && manager.exit_status().is_none(),
            "the manager prints no address of its page:\n{log}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

//! Runs the commands of docs/start.md as a user does: the manager with its embedded API server, and
//! kubectl and curl in another terminal.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kube_endpoint_integration_tests::processes::{Process, binary, plugin};
use kube_endpoint_integration_tests::programs::{Missing, curl, kubectl, kubectl_program};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::kubectl::common::contains;

/// How long the process may take to do something on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const START: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/start.md");

pub(crate) fn needs() -> Result<(), Missing> {
    kubectl()?;
    curl()
}

/// A running manager, in a folder of its own.
struct Manager {
    process: Process,
    /// This is the last field, because it must be dropped last.
    folder: TempDir,
}

impl Manager {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(binary(Path::new(env!("CARGO_BIN_EXE_apiserver-process"))));
        command.arg("--embedded").args(arguments).current_dir(folder.path()).env_remove("RUST_LOG");
        let process = Process::start("manager", command, &folder.path().join("manager.log"), None).unwrap();
        let manager = Self { process, folder };
        manager.wait_for("Stop it:");
        manager
    }

    /// Waits until the manager has printed a text.
    #[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
    fn wait_for(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = self.process.log();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < deadline, "{text:?} is not printed:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs commands of a shell. Returns what they print, or `None` if one of them fails.
    fn shell(&self, commands: &str) -> Option<String> {
        let script = format!("kubectl() {{ command \"$KUBECTL_PROGRAM\" \"$@\"; }}\n{commands}\n");
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        if commands.contains("kubectl diagnose-svc") {
            // kubectl looks for plugins in PATH.
            let plugin = plugin(Path::new(env!("CARGO_BIN_EXE_apiserver-process")));
            path = [plugin.parent().unwrap().as_os_str(), &path].join(OsStr::new(":"));
        }
        let output = Command::new("sh")
            .args(["-e", "-c", &script])
            .current_dir(self.folder.path())
            .env("KUBECTL_PROGRAM", kubectl_program())
            .env("PATH", path)
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", "embedded.kubeconfig")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        output.status.success().then_some(text)
    }

    fn read(&self, arguments: &str) -> Value {
        let text = self.shell(&format!("kubectl {arguments} -o json 2>/dev/null")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Waits until an answer to kubectl fulfils a condition.
    #[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
    fn wait_until(&self, arguments: &str, condition: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.read(arguments);
            if condition(&found) {
                return;
            }
            assert!(Instant::now() < deadline, "{arguments}: {found:#}\n{}", self.process.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the commands of the first code block after a heading of docs/start.md.
fn commands(heading: &str) -> String {
    let text = std::fs::read_to_string(START).unwrap();
    let block = text.split_once(heading).unwrap().1.split("```").nth(1).unwrap();
    let commands: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert!(commands.len() > 3, "{block}");
    commands.join("\n")
}

pub(crate) fn the_commands_of_the_documentation_work_as_written() {
    let manager = Manager::start(&[]);
    let first_screen = manager.wait_for("Endpoints shop/");
    assert!(!first_screen.contains("WARN") && !first_screen.contains("token"), "{first_screen}");
    let of_pods = commands("\n## Pods of your own\n");
    let (create, delete) = of_pods.split_at(of_pods.find("kubectl delete").unwrap());
    let printed = manager.shell(create).unwrap();
    contains(&printed, &["pod/web created", "service/web created"]);
    manager.wait_until("get pod web", |pod| {
        let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
        pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready))
    });
    let pod = manager.read("get pod web");
    assert_eq!((&pod["spec"]["nodeName"], &pod["status"]["phase"]), (&"node-0".into(), &"Running".into()));
    manager.wait_until("get endpointslices -l kubernetes.io/service-name=web", |slices| {
        let endpoint = &slices["items"][0]["endpoints"][0];
        endpoint["addresses"][0] == pod["status"]["podIP"] && endpoint["conditions"]["ready"] == true
    });
    let deleted = manager.shell(delete).unwrap();
    assert!(deleted.starts_with("pod \"web\" deleted"), "{deleted}");
    manager.wait_until("get endpointslices -l kubernetes.io/service-name=web", |slices| {
        slices["items"][0]["endpoints"].as_array().is_none_or(Vec::is_empty)
    });
    let answer = manager.shell(&commands("\n## Who may use it\n")).unwrap();
    contains(&answer, &["\"kind\":\"ServiceList\"", "\"name\":\"frontend\""]);
    // Without the CA, curl refuses the certificate.
    assert!(
        manager
            .shell("curl -sS $(kubectl config view -o jsonpath='{.clusters[0].cluster.server}')/version")
            .is_none()
    );
    manager.process.signal(Signal::TERM);
}

pub(crate) fn a_range_of_the_user_is_that_of_services() {
    let manager = Manager::start(&["--embedded-empty", "--embedded-service-cidr=fd00:1::/112"]);
    manager.shell("kubectl create service clusterip six --tcp=80").unwrap();
    assert_eq!(manager.read("get service six")["spec"]["clusterIPs"][0], "fd00:1::101");
    let refused =
        manager.shell("! kubectl create service clusterip four --tcp=80 --clusterip=10.96.0.1 2>&1").unwrap();
    contains(&refused, &["IPv4 is not configured on this cluster"]);
    let refused =
        manager.shell("! kubectl create service clusterip out --tcp=80 --clusterip=fd00:2::1 2>&1").unwrap();
    contains(
        &refused,
        &["the provided IP (fd00:2::1) is not in the valid range. The range of valid IPs is fd00:1::/112"],
    );
    // The first pod makes a node.
    manager.shell("kubectl run web --image=nginx --labels=app=six").unwrap();
    manager.wait_until("get endpointslices -l kubernetes.io/service-name=six", |slices| {
        slices["items"][0]["endpoints"][0]["addresses"][0] == "fd00:10:244::1"
    });
    assert_eq!(manager.read("get pod web")["spec"]["nodeName"], "embedded");
    manager.process.signal(Signal::TERM);
}

/// The kubeconfig names the page, also after kubectl has written it anew.
#[expect(clippy::disallowed_methods, reason = "it waits for a real process")]
pub(crate) fn the_plugin_finds_the_page() {
    let manager = Manager::start(&[]);
    let log = manager.process.log();
    let url = log.lines().find_map(|line| line.strip_prefix("Watch it:")).unwrap().trim().to_owned();
    let printed = manager.shell("kubectl diagnose-svc ui").unwrap();
    let second = "It is the page of kube-endpoint-manager --embedded, and ends with it.";
    assert_eq!(printed, format!("Open {url}\n{second}\n"));
    let page = manager.shell("curl -sS $(kubectl diagnose-svc ui | sed -n 's/^Open //p')").unwrap();
    contains(&page, &["<title>"]);
    let edited = "kubectl config set-context --current --namespace=shop >/dev/null
        kubectl config view --flatten > flat
        KUBECONFIG=flat kubectl diagnose-svc ui";
    assert_eq!(manager.shell(edited).unwrap(), printed);
    manager.process.signal(Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        if let Some(error) = manager.shell("! kubectl diagnose-svc ui 2>&1") {
            break error;
        }
        assert!(Instant::now() < deadline, "the process has not ended");
        std::thread::sleep(Duration::from_millis(100));
    };
    contains(&error, &[&format!("was at {url}, where nothing answers: start that program again")]);
    let manager = Manager::start(&["--embedded-ui-address=none"]);
    let error = manager.shell("! kubectl diagnose-svc ui 2>&1").unwrap();
    contains(&error, &["--embedded without a page: start it without --embedded-ui-address=none"]);
    manager.process.signal(Signal::TERM);
}

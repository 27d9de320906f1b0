//! Runs the program with the real controllers as processes, on embedded API servers.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use kube_endpoint_integration_tests::processes::binary;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A few Services, and short pauses.
const TINY: [&str; 7] =
    ["--services=4", "--pods=12", "--big=6", "--nodes=2", "--flips=10", "--rate=20", "--settle=0.3"];

fn scale() -> Command {
    Command::new(env!("CARGO_BIN_EXE_scale"))
}

/// Returns the controllers of this project.
fn manager() -> String {
    let program = binary(Path::new(env!("CARGO_BIN_EXE_scale")));
    format!("'{}' --kubeconfig={{kubeconfig}} --leader-elect=false --secure-port=0", program.display())
}

fn output_of(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn stdout_of(command: &mut Command) -> String {
    let output = output_of(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "no progress without a terminal: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn error_of(command: &mut Command) -> String {
    let output = output_of(command);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// An embedded API server that outlives runs of the program.
struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = scale();
        command.arg("serve").arg(folder.path().join("kubeconfig")).args(flags);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { process, folder }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Returns a run on this server.
    fn run(&self, flags: &[&str]) -> Command {
        let mut command = scale();
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--command")
            .arg(manager())
            .args(TINY)
            .args(flags);
        command
    }

    fn clean(&self) -> String {
        stdout_of(scale().arg("clean").arg("--kubeconfig").arg(self.kubeconfig()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_embedded_server_has_a_certificate_if_tls_is_wanted() {
    let kubeconfig = |flags: &[&str]| {
        let server = Server::start_with(flags);
        std::fs::read_to_string(server.kubeconfig()).unwrap()
    };
    let with_tls = kubeconfig(&["--tls"]);
    assert!(with_tls.contains("https://127.0.0.1:"), "{with_tls}");
    assert!(with_tls.contains("certificate-authority-data: LS0t"), "{with_tls}");
    assert!(kubeconfig(&[]).contains("http://127.0.0.1:"));
}

#[test]
fn a_controller_is_measured_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let mut command = scale();
    command.args(TINY).arg("--tls").arg("--json").arg(&json).arg("--command").arg(manager());
    let table = stdout_of(&mut command);
    assert!(table.contains("embedded API server with TLS"), "{table}");
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let figures = &report["subjects"][0]["rounds"][0];
    assert_eq!((&figures["slices"], &figures["unanswered"]), (&5.0.into(), &0.0.into()), "{figures:#}");
}

#[test]
fn two_controllers_are_measured_on_the_same_work() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("figures.json");
    let mut command = scale();
    command.args(TINY).arg("--rounds=2").arg("--json").arg(&json);
    let table = stdout_of(command.arg("--command").arg(manager()).arg("--against").arg(manager()));
    for text in
        ["4 Services, 12 pods, 2 nodes", "cold start: CPU of the API server", "medians of 2 rounds", "ratio"]
    {
        assert!(table.contains(text), "{text} is missing in\n{table}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["ratios"]["cold_slice_writes"], 1.0, "{report:#}");
    let rounds: Vec<&Value> = (0..2)
        .flat_map(|subject| (0..2).map(move |round| (subject, round)))
        .map(|(subject, round)| &report["subjects"][subject]["rounds"][round])
        .collect();
    for figures in &rounds {
        let is = |key: &str, want: f64| assert_eq!(figures[key], want, "{key} in {figures:#}");
        is("slices", 5.0);
        is("cold_slice_writes", 5.0);
        is("cold_endpoints_writes", 5.0);
        is("flips", 10.0);
        is("unanswered", 0.0);
        let of = |key: &str| figures[key].as_f64().unwrap();
        assert!(of("cold_peak_mb") > 1.0 && of("peak_mb") >= of("cold_peak_mb"), "{figures:#}");
        assert!(of("slice_writes") >= 5.0 && of("watch_bytes") > 500.0 * of("watch_events"), "{figures:#}");
        assert!(of("lat_p50_ms") > 0.0 && of("lat_p50_ms") <= of("lat_p99_ms"), "{figures:#}");
        is("watch_events", of("slice_writes"));
    }
    // The system counts hundredths of a second; a single cold start may take less.
    let server_cpu = |figures: &&Value| {
        ["cold_server_cpu_s", "churn_server_cpu_s"]
            .map(|key| figures[key].as_f64().unwrap())
            .iter()
            .sum::<f64>()
    };
    assert!(rounds.iter().map(server_cpu).sum::<f64>() > 0.0, "{report:#}");
    let changes_seen = rounds[0]["lat_n"].as_f64().unwrap();
    assert!(changes_seen >= 9.0, "{changes_seen}");
}

#[test]
fn objects_are_used_again_and_removed_by_clean_only() {
    let server = Server::start();
    let cold_start = ["--flips=0"];
    stdout_of(&mut server.run(&cold_start));
    stdout_of(&mut server.run(&cold_start));
    let another = error_of(&mut server.run(&["--flips=0", "--pods=11"]));
    assert!(
        another.contains("the namespace scale holds another workload (1 namespace, 4 Services"),
        "{another}"
    );
    let foreign = error_of(&mut server.run(&["--flips=0", "--prefix=default"]));
    assert!(
        foreign.contains("the namespace default is there already, and this program did not make it"),
        "{foreign}"
    );

    assert_eq!(server.clean(), "removed 1 namespace and 2 nodes of the prefix scale\n");
    assert_eq!(server.clean(), "removed 0 namespaces and 0 nodes of the prefix scale\n");
    stdout_of(&mut server.run(&cold_start));
}

#[test]
fn another_controller_on_the_same_server_is_noticed() {
    let server = Server::start();
    let mut other = Command::new(binary(Path::new(env!("CARGO_BIN_EXE_scale"))));
    other.arg("--kubeconfig").arg(server.kubeconfig()).args(["--leader-elect=false", "--secure-port=0"]);
    let mut other = other.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The run may be faster than the start of the other controller.
    let error = (0..50).find_map(|_| {
        let output = output_of(&mut server.run(&["--flips=0"]));
        (!output.status.success()).then_some(output.stderr)
    });
    other.kill().unwrap();
    other.wait().unwrap();
    let error = String::from_utf8(error.unwrap()).unwrap();
    assert!(
        error.contains("somebody makes these objects anew; stop the controllers of the cluster"),
        "{error}"
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let check = |command: &mut Command, want: &[&str]| {
        let error = error_of(command);
        want.iter().for_each(|want| assert!(error.contains(want), "{want} is missing in\n{error}"));
    };
    let exits = "sh -c 'echo reading {kubeconfig}; echo no such flag >&2; exit 3'";
    check(
        scale().args(TINY).arg("--command").arg(exits),
        &["sh: cold start: sh ended by itself (exit status: 3)", "no such flag", "/kubeconfig"],
    );
    check(
        scale().args(TINY).args(["--command", "/no/such/program"]),
        &["cannot start /no/such/program: No such file"],
    );
    check(scale().args(["--pods=0"]), &["--pods", "must be at least 1"]);
    check(
        scale().args(["--command=x", "--kubeconfig=/no/such/file"]),
        &["kubeconfig /no/such/file does not exist"],
    );
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start();
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let start = text.find("http://127.0.0.1:").unwrap();
    let end = start + text[start..].find('"').unwrap();
    let elsewhere = format!("{}http://127.0.0.1:{port}{}", &text[..start], &text[end..]);
    std::fs::write(server.kubeconfig(), elsewhere).unwrap();
    check(
        &mut server.run(&[]),
        &["the API server http://127.0.0.1:", "does not answer", "onnection refused"],
    );
}

#[test]
fn ctrl_c_stops_the_controller_and_leaves_the_objects() {
    let server = Server::start();
    let mut command = server.run(&["--flips=100000", "--rate=1"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
    let started = |run: &Child| {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", run.id())).unwrap();
        let children = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("children")));
        children
            .filter_map(Result::ok)
            .find_map(|children| Some(children.split_whitespace().next()?.to_owned()))
    };
    let controller = loop {
        assert!(run.try_wait().unwrap().is_none(), "it ended");
        match started(&run) {
            Some(controller) => break controller,
            None => pause(),
        }
    };
    assert!(Path::new(&format!("/proc/{controller}")).exists());
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "error: interrupted\n");
    assert!(!Path::new(&format!("/proc/{controller}")).exists(), "the controller runs on");
    assert_eq!(server.clean(), "removed 1 namespace and 2 nodes of the prefix scale\n");
}

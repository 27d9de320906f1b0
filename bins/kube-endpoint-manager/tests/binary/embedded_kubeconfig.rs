//! Tests that `--embedded` replaces the kubeconfig of a process that has ended, and no other file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::{Process, client, command, services_with_slices};
use crate::process::SAMPLE_SLICES;

/// Starts `--embedded`, which fails. Returns its error.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = command(folder).arg("--embedded").args(arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    assert!(output.stdout.is_empty());
    error
}

#[tokio::test]
async fn the_file_of_a_running_process_is_kept_and_that_of_one_that_has_ended_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("embedded.kubeconfig");
    let mut first = Process::start(folder.path(), &["--embedded"]);
    let line = first.wait_for_line("An API server listens on ");
    let address =
        line.split_whitespace().find_map(|word| word.strip_prefix("https://")).unwrap().trim_end_matches(',');
    first.wait_for_line("Stop it:");
    let of_first = fs::read_to_string(&path).unwrap();
    assert!(of_first.contains(address), "{of_first}");
    let error = refused(folder.path(), &[]);
    let want = format!(
        "error: embedded.kubeconfig is the kubeconfig of a running --embedded, whose API server listens on https://{address}/; \
         choose another place with --embedded-kubeconfig, or stop that process\n"
    );
    assert_eq!(error, want);
    // Another path is fine, and does not disturb the first process.
    let mut other = Process::start(folder.path(), &["--embedded", "--embedded-kubeconfig=other.kubeconfig"]);
    other.wait_for_line("kubectl --kubeconfig other.kubeconfig");
    assert_eq!(fs::read_to_string(&path).unwrap(), of_first);
    services_with_slices(&client(path.clone()).await, SAMPLE_SLICES).await;
    assert!(other.stop().success());
    // A killed process removes nothing.
    first.finish();
    let mut next = Process::start(folder.path(), &["--embedded"]);
    next.wait_for_line("Stop it:");
    assert_ne!(fs::read_to_string(&path).unwrap(), of_first);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    services_with_slices(&client(path).await, SAMPLE_SLICES).await;
    assert!(next.stop().success());
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["embedded.kubeconfig", "other.kubeconfig"]);
}

/// A fixed port is the same after a restart.
#[test]
fn a_restart_with_the_same_address_replaces_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("--embedded-address=127.0.0.1:{port}");
    for _ in 0..2 {
        let mut process = Process::start(folder.path(), &["--embedded", &address]);
        process.wait_for_line("Stop it:");
        assert!(process.stop().success());
    }
}

#[test]
fn of_two_that_start_at_the_same_time_one_runs() {
    let folder = tempfile::tempdir().unwrap();
    // The file is as the process before left it.
    let mut before = Process::start(folder.path(), &["--embedded"]);
    before.wait_for_line("Stop it:");
    before.finish();
    let mut two = [0, 1].map(|_| Process::start(folder.path(), &["--embedded"]));
    let lines = two
        .each_mut()
        .map(|process| process.wait_for_any_line(&["Stop it:", "the kubeconfig of a running --embedded"]));
    let refused = lines.iter().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(refused, 1, "{lines:#?}");
}

#[test]
fn a_kubeconfig_of_somebody_else_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let own = "apiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster: {server: \"https://192.0.2.1:6443\"}\n";
    fs::write(&path, own).unwrap();
    std::os::unix::fs::symlink("config", folder.path().join("link")).unwrap();
    for name in ["config", "link"] {
        let error = refused(folder.path(), &[&format!("--embedded-kubeconfig={name}")]);
        let want = format!(
            "error: {name} exists and is a kubeconfig that --embedded did not write, so it is not replaced; choose another \
             place with --embedded-kubeconfig, or remove the file\n"
        );
        assert_eq!(error, want);
        assert_eq!(fs::read_to_string(&path).unwrap(), own);
    }
}

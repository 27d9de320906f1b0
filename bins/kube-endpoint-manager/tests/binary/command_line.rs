//! Tests the output and the exit code of the binary: version, completions, warnings about flags
//! that change nothing.

use std::fs;
use std::process::Output;

use crate::common::command;

fn output(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    command(folder.path()).args(arguments).output().unwrap()
}

#[test]
fn the_version_names_the_commit() {
    let printed = String::from_utf8(output(&["--version"]).stdout).unwrap();
    let rest =
        printed.strip_prefix(concat!("kube-endpoint-manager ", env!("CARGO_PKG_VERSION"), " (commit "));
    let commit = rest.and_then(|rest| rest.strip_suffix(")\n")).unwrap_or_else(|| panic!("{printed}"));
    let is_hash = commit.len() >= 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_hash || commit == "unknown", "{commit}");
}

#[test]
fn completions_know_the_flags_but_not_those_that_change_nothing() {
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&["completion", shell]);
        assert!(script.status.success() && script.stderr.is_empty(), "{shell}");
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(script.contains("leader-elect-lease-duration"), "{shell}");
        assert!(!script.contains("cluster-cidr"), "{shell}");
    }
}

#[test]
fn help_is_printed_and_succeeds() {
    for arguments in [&["--help"][..], &["-h"], &["completion", "--help"]] {
        let help = output(arguments);
        assert!(help.status.success() && help.stderr.is_empty() && !help.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn each_flag_that_changes_nothing_is_warned_about_once() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        ["--cluster-cidr=10.0.0.0/8", "--profiling", "--profiling=false", "--kubeconfig=no-such-file"];
    let output = command(folder.path()).args(arguments).env("KEM_NO_SUCH_FLAG", "1").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let log = String::from_utf8(output.stderr).unwrap();
    let warnings: Vec<&str> =
        log.lines().filter_map(|line| line.split_once("WARN")).map(|(_, text)| text).collect();
    assert_eq!(warnings.len(), 3, "{log}");
    assert!(
        warnings[0].contains("--cluster-cidr of kube-controller-manager is ignored: it is a flag of another"),
        "{log}"
    );
    assert!(warnings[1].contains("--profiling"), "{log}");
    assert!(warnings[2].contains("KEM_NO_SUCH_FLAG"), "{log}");
}

#[test]
fn the_log_is_json_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("config.yaml"),
        "apiVersion: kube-endpoint-manager.config/v1alpha1\nkind: KubeEndpointManagerConfiguration\nloggingFormat: json\n",
    )
    .unwrap();
    let arguments = ["--config=config.yaml", "--profiling", "--kubeconfig=no-such-file"];
    let output = command(folder.path()).args(arguments).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    let line: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(line["level"], "WARN");
    assert!(
        line["message"].as_str().unwrap().starts_with("--profiling of kube-controller-manager"),
        "{line}"
    );
}

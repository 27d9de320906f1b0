//! Tests a standard output that is full, or whose reader has gone.

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};

use crate::server::{fixture, stderr};

/// Runs the plugin with standard output in a pipe whose reader has gone.
fn unread(arguments: &[&str]) -> Output {
    let (_, writer) = std::io::pipe().unwrap();
    run(arguments, writer.into())
}

/// Runs the plugin with standard output on a full disk.
fn on_full_disk(arguments: &[&str]) -> Output {
    run(arguments, OpenOptions::new().write(true).open("/dev/full").unwrap().into())
}

fn run(arguments: &[&str], stdout: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-diagnose_svc"));
    command.args(arguments).env_remove("KUBECONFIG").stdin(Stdio::null()).stdout(stdout).output().unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn what_cannot_be_printed_is_an_error_and_a_reader_that_has_gone_is_none() {
    let file = fixture();
    for arguments in [
        &["--help"][..],
        &["explain", "--help"],
        &["--version"],
        &["completion", "bash"],
        &["completion", "kubectl"],
        &["__complete", "explain", "-o", ""],
        &["render", "-f", file.to_str().unwrap()],
        &["render", "-o", "yaml", "-f", file.to_str().unwrap()],
    ] {
        let output = on_full_disk(arguments);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        let last = errors.lines().last().unwrap();
        assert_eq!(last, "error: cannot write to standard output: No space left on device (os error 28)");
        let output = unread(arguments);
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        assert!(!errors.contains("error"), "{arguments:?}: {errors}");
    }
}

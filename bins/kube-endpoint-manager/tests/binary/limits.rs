//! Tests a process with too few open files, closed or full outputs, no home, no folder and no
//! certificates.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{Process, client, command, services_with_slices};
use crate::process::SAMPLE_SLICES;
use crate::unread_output::connected;

/// Returns a command that a shell starts after `setting`, such as `ulimit -n 20`. `setting` may end
/// in redirections.
fn after(folder: &Path, setting: &str, redirections: &str, arguments: &[&str]) -> Command {
    let program = command(folder);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{setting}; exec \"$0\" \"$@\" {redirections}"));
    shell.arg(program.get_program()).args(arguments).current_dir(folder);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

#[test]
fn a_limit_of_open_files_that_is_too_low_is_named_on_one_line_and_starts_nothing() {
    for limit in [8, 20, 79] {
        let folder = tempfile::tempdir().unwrap();
        let output =
            after(folder.path(), &format!("ulimit -n {limit}"), "", &["--embedded"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{limit}");
        let error = String::from_utf8(output.stderr).unwrap();
        let line = format!(
            "error: the limit of open files is {limit}, and the process needs 80; raise it with `ulimit -n`, or LimitNOFILE in the unit of systemd\n"
        );
        assert_eq!(error, line);
        assert!(output.stdout.is_empty() && !folder.path().join("embedded.kubeconfig").exists());
    }
}

/// Returns the soft and the hard limit of a process for open files.
fn open_files(process: u32) -> [String; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    [words.next().unwrap(), words.next().unwrap()]
}

#[tokio::test]
async fn eighty_open_files_are_enough_and_a_lower_soft_limit_is_raised() {
    for (setting, want) in [("ulimit -n 80", "80"), ("ulimit -Sn 20; ulimit -Hn 512", "512")] {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process::spawn(&mut after(folder.path(), setting, "", &["--embedded"]));
        process.wait_for_line("EndpointSlice shop/");
        assert_eq!(open_files(process.id()), [want, want], "{setting}");
        let client = client(folder.path().join("embedded.kubeconfig")).await;
        services_with_slices(&client, SAMPLE_SLICES).await;
        assert!(process.stop().success());
    }
}

/// Returns a pipe whose reader has gone.
fn broken_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[tokio::test]
async fn outputs_that_are_closed_or_full_end_nothing() {
    for redirections in ["2>&-", ">&-", "<&- >&- 2>&-", ">/dev/full 2>&1", ""] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = after(folder.path(), ":", redirections, &["--embedded", "-v=6"]);
        if redirections.is_empty() {
            command.stdout(broken_pipe()).stderr(broken_pipe());
        } else {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let process = Process::of(command.stdin(Stdio::null()).spawn().unwrap());
        services_with_slices(&connected(folder.path()).await, SAMPLE_SLICES).await;
        let status = process.stop();
        assert!(status.success(), "{redirections:?}: {status}");
    }
}

#[test]
fn a_text_that_cannot_be_printed_is_an_error_and_a_reader_that_has_gone_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], stdout: Stdio| -> Output {
        command(folder.path()).args(arguments).stdout(stdout).output().unwrap()
    };
    for arguments in [&["--help"][..], &["--version"], &["completion", "bash"]] {
        let refused = run(arguments, full().into());
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let why = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(
            why, "error: cannot write to standard output: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
        let unread = run(arguments, broken_pipe());
        assert!(unread.status.success() && unread.stderr.is_empty(), "{arguments:?}: {}", unread.status);
    }
}

#[tokio::test]
async fn neither_a_home_nor_a_folder_is_needed() {
    let (folder, gone) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let kubeconfig = folder.path().join("kubeconfig");
    let arguments = ["--embedded", &*format!("--embedded-kubeconfig={}", kubeconfig.display())];
    let mut command = after(gone.path(), "rmdir \"$PWD\"", "<&-", &arguments);
    let mut process = Process::spawn(command.env_remove("HOME"));
    process.wait_for_line("EndpointSlice shop/");
    assert!(!gone.path().exists());
    services_with_slices(&client(kubeconfig).await, SAMPLE_SLICES).await;
    assert!(process.stop().success());
}

#[tokio::test]
async fn a_server_without_tls_needs_no_certificates_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::start(folder.path(), &["--embedded", "--controllers=-*"]);
    server.wait_for_line("Controllers: none");
    let mut manager = command(folder.path());
    manager.args(["--kubeconfig=embedded.kubeconfig", "--leader-elect=false", "--secure-port=0"]);
    manager.env("SSL_CERT_FILE", "/no/such/file").env("SSL_CERT_DIR", "/no/such/folder");
    let mut manager = Process::spawn(&mut manager);
    manager.wait_for_line("all caches are synced");
    assert!(manager.stop().success());
    assert!(server.stop().success());
}

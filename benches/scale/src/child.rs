//! A program that runs beside this one, with its output in a file. Dropping it stops the program.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use kube_endpoint_processes::{POLL, Process};
use rustix::process::Signal;
use tempfile::{NamedTempFile, TempPath};

/// How long a program has to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How many lines of the output an error shows if a program ends by itself.
const LAST_LINES: usize = 12;

/// A running program.
pub(crate) struct Child {
    pub(crate) process: Process,
    _output: TempPath,
}

/// Returns the words of a command, with the path of the kubeconfig in them.
pub(crate) fn words(command: &str, kubeconfig: &Path) -> anyhow::Result<Vec<String>> {
    let words = shlex::split(command)
        .with_context(|| format!("the command `{command}` has a quotation mark without its counterpart"))?;
    if words.is_empty() {
        bail!(
            "the command is empty; write the program and its flags, with {{kubeconfig}} for the path of the kubeconfig"
        );
    }
    let path =
        kubeconfig.to_str().with_context(|| format!("the path {} is not UTF-8", kubeconfig.display()))?;
    Ok(words.iter().map(|word| word.replace("{kubeconfig}", path)).collect())
}

/// Returns the name of the program of a command, for people.
pub(crate) fn program_name(command: &str) -> String {
    let words = shlex::split(command).unwrap_or_default();
    let program = words.iter().find(|word| *word != "env" && !word.contains('='));
    let name = program.and_then(|word| Path::new(word).file_name()).and_then(|name| name.to_str());
    name.unwrap_or(command).to_owned()
}

impl Child {
    /// Starts a program. Its process group is its own, so that Ctrl-C on the terminal reaches only
    /// this program, which stops it.
    pub(crate) fn start(words: &[String]) -> anyhow::Result<Self> {
        let [program, arguments @ ..] = words else { bail!("there is no program to start") };
        let output = NamedTempFile::new().context("cannot make a file for the output of the program")?;
        let output = output.into_temp_path();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).process_group(0);
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        Ok(Self { process: Process::start(&name, command, &output, None)?, _output: output })
    }

    /// Fails if the program has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.process.exit_status() else { return Ok(()) };
        let (name, lines) = (self.process.name(), self.process.last_lines(LAST_LINES));
        bail!("{name} ended by itself ({status})\n{lines}")
    }

    /// Asks the program to end and waits for it.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.check()?;
        self.process.signal(Signal::TERM);
        if self.process.ended_within(STOP_TIMEOUT).await.is_none() {
            let (name, seconds) = (self.process.name(), STOP_TIMEOUT.as_secs());
            bail!("{name} did not end within {seconds} s after SIGTERM and was killed");
        }
        Ok(())
    }
}

impl Drop for Child {
    /// Lets the program end in order, for two seconds; dropping the process then kills it.
    fn drop(&mut self) {
        if self.process.exit_status().is_some() {
            return;
        }
        self.process.signal(Signal::TERM);
        for _ in 0..100 {
            if self.process.exit_status().is_some() {
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Child::start(&["sh".into(), "-c".into(), script.into()]).unwrap()
    }

    async fn end(child: &mut Child) -> String {
        loop {
            match child.check() {
                Ok(()) => tokio::time::sleep(POLL).await,
                Err(error) => return error.to_string(),
            }
        }
    }

    #[test]
    fn commands_are_split_as_a_shell_does() {
        let check = |command: &str, want: Result<&[&str], &str>| {
            let got = words(command, Path::new("/tmp/my config")).map_err(|error| error.to_string());
            let want = want.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
            assert_eq!(got, want.map_err(str::to_owned), "{command}");
        };
        check("a --kubeconfig={kubeconfig} 'b c'", Ok(&["a", "--kubeconfig=/tmp/my config", "b c"]));
        check("a 'b", Err("the command `a 'b` has a quotation mark without its counterpart"));
        check(
            " ",
            Err(
                "the command is empty; write the program and its flags, with {kubeconfig} for the path of the kubeconfig",
            ),
        );
    }

    #[test]
    fn a_command_is_named_by_its_program() {
        let check = |command: &str, want: &str| assert_eq!(program_name(command), want);
        check("/a/kube-controller-manager --kubeconfig={kubeconfig}", "kube-controller-manager");
        check("env GOGC=50 ./manager --a=b", "manager");
        check("", "");
    }

    #[tokio::test]
    async fn a_program_that_ends_by_itself_is_an_error_with_its_last_output() {
        let mut child = shell("echo starting; echo 'error: no such flag' >&2; exit 3");
        insta::assert_snapshot!(end(&mut child).await);
        let missing = Child::start(&["/no/such/program".into()]).err().unwrap();
        assert_eq!(
            format!("{missing:#}"),
            "cannot start /no/such/program: No such file or directory (os error 2)"
        );
    }

    #[tokio::test]
    async fn a_program_is_stopped_also_when_it_is_dropped() {
        let mut child = shell("exec sleep 600");
        child.check().unwrap();
        child.stop().await.unwrap();
        let child = shell("exec sleep 600");
        let folder = format!("/proc/{}", child.process.id());
        assert!(Path::new(&folder).exists());
        drop(child);
        assert!(!Path::new(&folder).exists());
    }
}

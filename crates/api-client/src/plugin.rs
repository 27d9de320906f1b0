//! Credential plugins: commands that `users[].user.exec` in a kubeconfig names
//! (client.authentication.k8s.io).

use std::fmt;
use std::io::IsTerminal;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use kube_endpoint_core_model::causes;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout, timeout_at};

use crate::timeouts::Timeouts;

/// The most bytes that a plugin may print. An ExecCredential has some kilobytes; the client kills a
/// plugin that prints without end, before it fills the memory.
const MAX_OUTPUT: usize = 1024 * 1024;

/// The reason why a credential plugin gave no credential. `command` is the plugin's command without
/// its arguments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The kubeconfig has an `exec` section without a command.
    #[error("the kubeconfig names no command for its credential plugin; set users[].user.exec.command")]
    NoCommand,
    /// The command cannot be started.
    #[error(
        "the credential plugin {command} cannot be started: {why}; install it, or correct users[].user.exec.command in \
         the kubeconfig{hint}"
    )]
    Start {
        command: String,
        /// The error of the operating system.
        why: std::io::Error,
        /// The kubeconfig's `installHint`, or nothing.
        hint: String,
    },
    /// The plugin insists on a terminal, and there is none.
    #[error(
        "the credential plugin {command} needs a terminal (interactiveMode: Always), which standard input is not; use a \
         credential that needs no person"
    )]
    Terminal { command: String },
    /// The plugin reported a failure.
    #[error("the credential plugin {command} failed with {status}{output}; run it by hand to see why")]
    Failed {
        command: String,
        status: ExitStatus,
        /// The last line of its standard error, or nothing.
        output: String,
    },
    /// The plugin did not end in time, and the client killed it.
    #[error(
        "the credential plugin {command} did not end within {} s and was killed; run it by hand to see what it waits for",
        limit.as_secs_f64()
    )]
    TimedOut { command: String, limit: Duration },
    /// The plugin exited with 0, but did not print a credential.
    #[error(
        "the credential plugin {command} printed no usable ExecCredential: {why}; run it by hand to see its output"
    )]
    Answer {
        command: String,
        /// The error in its output.
        why: String,
    },
}

/// The credential of a plugin: a token, a client certificate with its key, or both.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PluginCredential {
    pub(crate) token: Option<String>,
    /// Certificate chain and private key, PEM.
    pub(crate) identity: Option<(String, String)>,
    pub(crate) validity: Option<Validity>,
}

/// The time in which a credential is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// When the client should ask for a new one: a minute before the end, or a tenth of the
    /// lifetime if that is less.
    pub(crate) renew: Instant,
    pub(crate) end: Instant,
}

impl fmt::Debug for PluginCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginCredential").field("validity", &self.validity).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    api_version: Option<String>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    #[serde(default)]
    token: String,
    #[serde(default)]
    client_certificate_data: String,
    #[serde(default)]
    client_key_data: String,
}

/// Runs the plugin once. It is a process of its own, so no thread of the runtime waits for it.
/// Kills it when it takes too long or when the caller drops the future.
pub(crate) async fn run(exec: &ExecConfig, limits: &Timeouts) -> Result<PluginCredential, PluginError> {
    let name = exec.command.clone().ok_or(PluginError::NoCommand)?;
    let terminal = std::io::stdin().is_terminal();
    let interactive = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !terminal => {
            return Err(PluginError::Terminal { command: name });
        }
        Some(ExecInteractiveMode::Always | ExecInteractiveMode::IfAvailable) | None => terminal,
    };
    let child = start(exec, &name, interactive).map_err(|why| {
        let hint = exec.install_hint.as_deref().unwrap_or_default();
        let hint = hint.split_whitespace().collect::<Vec<_>>().join(" ");
        let hint = if hint.is_empty() { hint } else { format!(" ({hint})") };
        PluginError::Start { command: name.clone(), why, hint }
    })?;
    let limit = if interactive { limits.interactive_plugin } else { limits.plugin };
    let output = limited(&name, limit, limits, output(child)).await?;
    let output = output.map_err(|why| PluginError::Answer { command: name.clone(), why: why.to_string() })?;
    if !output.status.success() {
        let (status, output) = (output.status, last_line(&output));
        return Err(PluginError::Failed { command: name, status, output });
    }
    // No other place in the libraries reads the wall clock.
    #[expect(
        clippy::disallowed_methods,
        reason = "a plugin gives the end of its credential as a point in time"
    )]
    let now = Timestamp::now();
    credential(&output.stdout, exec, now)
        .map_err(|why| PluginError::Answer { command: name.clone(), why })
        .inspect(|credential| {
            if credential.validity.is_some_and(|validity| validity.end <= Instant::now()) {
                tracing::warn!(
                    command = name,
                    "the credential plugin gave a credential that has expired; check this machine's clock and the \
                     plugin's cache"
                );
            }
        })
}

/// Waits for the end of `command` for at most `limit`, and logs a warning in between.
pub(crate) async fn limited<T>(
    command: &str,
    limit: Duration,
    limits: &Timeouts,
    ended: impl Future<Output = T>,
) -> Result<T, PluginError> {
    let deadline = Instant::now() + limit;
    let mut ended = std::pin::pin!(ended);
    if let Ok(output) = timeout(limits.plugin_warning.min(limit), &mut ended).await {
        return Ok(output);
    }
    tracing::warn!(
        command,
        ?limit,
        "waiting for the credential plugin; requests that need a new credential wait until it ends"
    );
    timeout_at(deadline, &mut ended)
        .await
        .map_err(|_| PluginError::TimedOut { command: command.to_owned(), limit })
}

fn start(exec: &ExecConfig, name: &str, interactive: bool) -> std::io::Result<Child> {
    let is_missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let start = |name: &str| command(exec, name, interactive).spawn();
    // Windows finds a program without its ending, and leaves scripts to shells. kubectl finds both.
    let endings: &[&str] = if cfg!(windows) { &[".bat", ".cmd"] } else { &[] };
    let scripts = endings.iter().map(|ending| format!("{name}{ending}"));
    // For a path, Windows starts the shell before it looks for the script.
    let is_name = Path::new(name).components().count() == 1;
    scripts.filter(|script| is_name || Path::new(script).exists()).fold(start(name), |started, script| {
        match started {
            Err(error) if is_missing(&error) => start(&script),
            started => started,
        }
    })
}

fn command(exec: &ExecConfig, name: &str, interactive: bool) -> Command {
    let mut command = Command::new(name);
    command.args(exec.args.iter().flatten()).kill_on_drop(true).stdout(Stdio::piped());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    if interactive {
        command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
    } else {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
    }
    let mut spec = serde_json::json!({ "interactive": interactive });
    if let Some(cluster) = exec.cluster.as_ref().filter(|_| exec.provide_cluster_info) {
        spec["cluster"] = serde_json::json!(cluster);
    }
    let info = serde_json::json!({ "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec })
        .to_string();
    command.env("KUBERNETES_EXEC_INFO", info);
    for variable in exec.drop_env.iter().flatten() {
        command.env_remove(variable);
    }
    command
}

/// Waits for a plugin and reads its output. Kills the plugin if it prints more than [`MAX_OUTPUT`]
/// on one of its streams.
async fn output(mut child: Child) -> std::io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, status) =
        tokio::try_join!(read(stdout, "output"), read(stderr, "error output"), child.wait())?;
    Ok(Output { status, stdout, stderr })
}

async fn read(stream: Option<impl AsyncRead + Unpin>, what: &str) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(stream) = stream {
        stream.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut text).await?;
    }
    if text.len() > MAX_OUTPUT {
        return Err(std::io::Error::other(format!("its {what} is longer than {MAX_OUTPUT} bytes")));
    }
    Ok(text)
}

/// Decodes the output of a plugin. Plugins print JSON. client-go also reads YAML, and JSON is YAML.
fn credential(stdout: &[u8], exec: &ExecConfig, now: Timestamp) -> Result<PluginCredential, String> {
    let answer: ExecCredential = serde_saphyr::from_slice(stdout).map_err(|error| {
        let why = causes(&error);
        why.split_once(" --> ").map_or(&*why, |(why, _)| why).to_owned()
    })?;
    if let (Some(asked), Some(answered)) = (&exec.api_version, &answer.api_version)
        && asked != answered
    {
        return Err(format!("its apiVersion is {answered}, and the kubeconfig asks for {asked}"));
    }
    let status = answer.status.ok_or("it has no status")?;
    let present = |text: String| (!text.is_empty()).then_some(text);
    let token = present(status.token);
    if token.as_ref().is_some_and(|token| HeaderValue::from_str(token).is_err()) {
        return Err("its token has characters that no token has".to_owned());
    }
    let identity = match (present(status.client_certificate_data), present(status.client_key_data)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("it has only one of clientCertificateData and clientKeyData".to_owned()),
    };
    if token.is_none() && identity.is_none() {
        return Err("its status has neither a token nor a certificate".to_owned());
    }
    let validity = status.expiration_timestamp.and_then(|end| {
        let lifetime = Duration::try_from(end.duration_since(now)).unwrap_or_default();
        let margin = (lifetime / 10).min(Duration::from_secs(60));
        // An end that the clock cannot represent counts as no end.
        let end = Instant::now().checked_add(lifetime)?;
        Some(Validity { renew: end - margin, end })
    });
    Ok(PluginCredential { token, identity, validity })
}

fn last_line(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let line = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().take(300).collect();
    if line.is_empty() { line } else { format!(": {line}") }
}

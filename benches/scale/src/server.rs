//! The API server: one of a kubeconfig, or the embedded one in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, ListenOptions};
use kube_endpoint_processes::{Process, cpu_time};

use crate::api::Api;

/// The line that the embedded server prints once it listens and has written its kubeconfig.
const READY: &str = "ready";

/// The running program, even if somebody has built another one in its place meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The transport of the embedded server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Without TLS.
    Plain,
    /// TLS, with HTTP/2 or HTTP/1 as the client chooses.
    Tls,
}

impl Transport {
    /// Returns the transport that the flag `--tls` chooses.
    pub(crate) fn with_tls(tls: bool) -> Self {
        if tls { Self::Tls } else { Self::Plain }
    }
}

/// An API server.
pub(crate) struct Server {
    pub(crate) api: Api,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) description: String,
    pid: Option<u32>,
    _embedded: Option<Embedded>,
}

impl Server {
    /// Connects to the server of a kubeconfig.
    pub(crate) async fn of_kubeconfig(path: &Path, pid: Option<u32>) -> anyhow::Result<Self> {
        let kubeconfig =
            std::path::absolute(path).with_context(|| format!("invalid path {}", path.display()))?;
        let api = Api::new(&kubeconfig).await?;
        let version = api.version().await?;
        if let Some(pid) = pid {
            cpu_time(pid).context("--server-pid")?;
        }
        let description = format!("kube-apiserver {version}");
        Ok(Self { api, kubeconfig, description, pid, _embedded: None })
    }

    /// Starts the embedded server. Dropping this ends it.
    pub(crate) async fn embedded(transport: Transport) -> anyhow::Result<Self> {
        let embedded = Embedded::start(transport)?;
        let kubeconfig = embedded.kubeconfig();
        let api = Api::new(&kubeconfig).await?;
        api.version().await?;
        let pid = Some(embedded.process.id());
        let description = match transport {
            Transport::Plain => "embedded API server",
            Transport::Tls => "embedded API server with TLS",
        }
        .to_owned();
        Ok(Self { api, kubeconfig, description, pid, _embedded: Some(embedded) })
    }

    /// Returns its CPU seconds so far, or `None` if its process is not known.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<Option<f64>> {
        let time = self.pid.map(cpu_time).transpose().context("the process of the API server")?;
        Ok(time.map(|time| time.as_secs_f64()))
    }
}

/// The process of the embedded server: this program with another command.
struct Embedded {
    process: Process,
    folder: tempfile::TempDir,
}

impl Embedded {
    fn start(transport: Transport) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the kubeconfig")?;
        let mut command = Command::new(THIS_PROGRAM);
        command
            .arg("serve")
            .arg(folder.path().join("kubeconfig"))
            .args((transport == Transport::Tls).then_some("--tls"));
        command.stdin(Stdio::piped()).process_group(0);
        let log = folder.path().join("log");
        let mut process = Process::start("the embedded API server", command, &log, Some(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(output) = process.child().stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.trim() != READY {
            bail!("the embedded API server did not start: {}", process.log().trim());
        }
        Ok(Self { process, folder })
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// Runs the embedded server until standard input closes, which also happens if somebody kills the
/// program that started it.
pub(crate) async fn serve(kubeconfig: &Path, transport: Transport) -> anyhow::Result<()> {
    let server =
        EmbeddedApiServer::builder().start_time(crate::clock::now()).request_log_bytes(1 << 20).build()?;
    let options = ListenOptions { tls: transport == Transport::Tls, ..ListenOptions::default() };
    let listener = server.listen_with(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options).await?;
    std::fs::write(kubeconfig, server.kubeconfig_of(&listener))
        .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
    crate::print(READY)?;
    let (closed, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let end = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = closed.send(end);
    });
    wait.await??;
    drop(listener);
    Ok(())
}

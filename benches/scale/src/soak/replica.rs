//! A replica of the controller: a process behind a proxy, which starts anew when it ends.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use kube_endpoint_api_client::read_kubeconfig;
use rustix::process::Signal;
use tokio::time::Instant;

use super::proxy::Proxy;
use super::record::{Exit, Line, Process, Recorder, milli};
use crate::child::{Child, words};
use crate::run::write;

/// The time until a replica that ended starts anew, as a kubelet waits.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a replica has to end after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Replica {
    number: usize,
    words: Vec<String>,
    log: File,
    pub(crate) proxy: Proxy,
    child: Option<Child>,
    started: Instant,
    /// The time since which it has had to end.
    signalled: Option<Instant>,
    start_at: Instant,
}

impl Replica {
    /// Makes the proxy and its kubeconfig, and starts the process.
    pub(crate) async fn start(
        number: usize,
        command: &str,
        kubeconfig: &Path,
        folder: &Path,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let (server, proxied) = through_proxy(kubeconfig)?;
        let proxy = Proxy::start(server).await?;
        let file: PathBuf = folder.join(format!("kubeconfig-{number}"));
        write(&file, &proxied(&proxy.address().to_string())?)?;
        let log = File::options().append(true).create(true).open(log);
        let log = log.with_context(|| format!("cannot write the log of replica {number}"))?;
        let now = Instant::now();
        let words = words(command, &file)?;
        let child = Some(Child::start(&words)?);
        Ok(Self { number, words, log, proxy, child, started: now, signalled: None, start_at: now })
    }

    /// Sends a signal, after which the process has to end.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if let Some(child) = &self.child {
            child.signal(signal);
            self.signalled.get_or_insert_with(Instant::now);
        }
    }

    /// Notes the end of the process, and starts it anew.
    pub(crate) fn tend(&mut self, recorder: &Recorder) -> anyhow::Result<()> {
        let Some(child) = &mut self.child else {
            if Instant::now() >= self.start_at {
                self.child = Some(Child::start(&self.words)?);
                self.started = Instant::now();
            }
            return Ok(());
        };
        let Err(end) = child.check() else {
            if self.signalled.is_some_and(|since| since.elapsed() > STOP_TIMEOUT) {
                child.signal(Signal::KILL);
            }
            return Ok(());
        };
        self.log.write_all(&child.output())?;
        let (by_itself, how) = match self.signalled.take() {
            None => (true, end.to_string()),
            Some(since) if since.elapsed() > STOP_TIMEOUT => {
                (true, format!("it did not end within {} s after SIGTERM", STOP_TIMEOUT.as_secs()))
            }
            Some(_) => (false, String::new()),
        };
        recorder.write(&Line::Exit(Exit { at: recorder.now(), replica: self.number, by_itself, how }))?;
        self.child = None;
        self.start_at = Instant::now() + PAUSE;
        Ok(())
    }

    /// Returns the figures of the process, if it runs.
    pub(crate) fn process(&self) -> Option<Process> {
        let child = self.child.as_ref()?;
        // It may have ended just now.
        Some(Process {
            replica: self.number,
            pid: child.id(),
            age: milli(self.started.elapsed().as_secs_f64()),
            rss_mb: milli(child.memory().ok()?.resident),
            descriptors: child.descriptors().ok()?,
            threads: child.threads().ok()?,
            cpu_s: child.cpu_seconds().ok()?,
        })
    }

    /// Stops the process for good.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let Some(child) = self.child.take() else { return Ok(()) };
        let log = child.stop_with_output().await?;
        Ok(self.log.write_all(&log)?)
    }
}

/// Returns `HOST:PORT` of the server of a kubeconfig, and a function that makes this kubeconfig
/// with another one.
fn through_proxy(path: &Path) -> anyhow::Result<(String, impl Fn(&str) -> anyhow::Result<String>)> {
    let mut kubeconfig =
        read_kubeconfig(Some(path)).with_context(|| format!("kubeconfig {}", path.display()))?;
    let context = kubeconfig.current_context.clone().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|it| it.name == context);
    let cluster = context.and_then(|it| it.context.as_ref()).map(|it| it.cluster.clone());
    let at = kubeconfig.clusters.iter().position(|it| Some(&it.name) == cluster.as_ref());
    let unknown = || format!("{} has no server in its current context", path.display());
    let at = at.with_context(unknown)?;
    let found = kubeconfig.clusters[at].cluster.as_mut().with_context(unknown)?;
    let uri: http::Uri = found.server.as_deref().with_context(unknown)?.parse().with_context(unknown)?;
    let host = uri.host().with_context(unknown)?.to_owned();
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let rest = uri.path().trim_end_matches('/').to_owned();
    if is_tls {
        // The certificate is that of the server, not of the proxy.
        found.tls_server_name.get_or_insert_with(|| host.trim_matches(['[', ']']).to_owned());
    }
    let scheme = if is_tls { "https" } else { "http" };
    let proxied = move |address: &str| {
        let mut kubeconfig = kubeconfig.clone();
        if let Some(cluster) = kubeconfig.clusters[at].cluster.as_mut() {
            cluster.server = Some(format!("{scheme}://{address}{rest}"));
        }
        // JSON is YAML.
        Ok(serde_json::to_string(&kubeconfig)?)
    };
    Ok((format!("{host}:{port}"), proxied))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_leads_to_the_proxy_and_keeps_the_name_of_the_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        let check = |cluster: &str, server: &str, want: &str| {
            std::fs::write(&file, format!("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
                users: [{{name: u, user: {{token: secret}}}}]\nclusters: [{{name: other}}, {{name: k, cluster: {cluster}}}]\n")).unwrap();
            let (found, proxied) = through_proxy(&file).unwrap();
            assert_eq!(found, server);
            let text = proxied("127.0.0.1:7").unwrap();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["clusters"][1]["cluster"].to_string(), want);
            assert_eq!(value["users"][0]["user"]["token"], "secret");
        };
        check(
            "{server: 'https://api.example:6443/k/'}",
            "api.example:6443",
            r#"{"server":"https://127.0.0.1:7/k","tls-server-name":"api.example"}"#,
        );
        check("{server: 'http://[::1]:80'}", "[::1]:80", r#"{"server":"http://127.0.0.1:7"}"#);
        check(
            "{server: 'https://10.0.0.1', tls-server-name: kubernetes}",
            "10.0.0.1:443",
            r#"{"server":"https://127.0.0.1:7","tls-server-name":"kubernetes"}"#,
        );
        std::fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();
        let error = through_proxy(&file).err().unwrap().to_string();
        assert!(error.ends_with("has no server in its current context"), "{error}");
    }
}

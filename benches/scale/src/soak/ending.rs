//! Waits until all changes are published, and counts the writes of controllers that find everything
//! published.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, sleep};

use super::churn::Churn;
use super::published::Watching;
use super::{POLL, SoakOptions};
use crate::child::{Child, words};
use crate::progress::Progress;
use crate::server::Server;

/// How long the controllers may take to publish everything after the last change.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until slices show all changes and nobody writes any more.
pub(crate) async fn quiet(watching: &Watching, settle: f64) -> anyhow::Result<()> {
    let (start, settle) = (Instant::now(), Duration::from_secs_f64(settle));
    loop {
        let is_quiet = watching.seen(|seen| {
            let since = seen.last_event.max(start);
            seen.waiting.is_empty() && seen.slice_writes > 0 && since.elapsed() >= settle
        });
        if is_quiet {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            let waiting = watching.seen(|seen| seen.waiting.keys().take(5).cloned().collect::<Vec<_>>());
            bail!(
                "it is not quiet {} s after the last change; pods that no slice shows as they are: {}",
                PATIENCE.as_secs(),
                if waiting.is_empty() { "none".to_owned() } else { waiting.join(", ") }
            );
        }
        sleep(POLL).await;
    }
}

/// Counts the writes of a controller that finds everything published.
pub(crate) struct Check<'a> {
    pub(crate) options: &'a SoakOptions,
    pub(crate) server: &'a Server,
    pub(crate) watching: &'a Watching,
    pub(crate) churn: &'a Churn,
}

impl Check<'_> {
    /// Runs a command alone for the time of --check, and then until it publishes a change of a pod,
    /// which shows that it works. Returns the number of its writes, without those for the Services
    /// of that pod: it may begin to work only when the time is over.
    pub(crate) async fn writes_of(&self, command: &str, what: &str) -> anyhow::Result<usize> {
        let _progress = Progress::waiting(format!("checking {what}"));
        let mut child = Child::start(&words(command, &self.server.kubeconfig)?)?;
        let before = self.watching.seen(|seen| {
            seen.uncounted.clear();
            seen.writes()
        });
        let end = Instant::now() + Duration::from_secs_f64(self.options.check);
        while Instant::now() < end {
            child.check()?;
            sleep(POLL).await;
        }
        self.churn.flip_one().await?;
        let start = Instant::now();
        while self.watching.seen(|seen| !seen.waiting.is_empty()) {
            child.check()?;
            if start.elapsed() > PATIENCE {
                bail!("{what} does not publish a change of a pod");
            }
            sleep(POLL).await;
        }
        // The Endpoints and other Services follow the slice.
        sleep(Duration::from_secs_f64(self.options.settle)).await;
        let written = self.watching.seen(|seen| seen.writes()) - before;
        child.stop().await.context(what.to_owned())?;
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    use clap::{Args, FromArgMatches};
    use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
    use serde_json::{Value, json};

    use super::*;
    use crate::fill::fill;
    use crate::workload::Names;

    async fn write_slice(server: &Server, service: &str, endpoints: Value) {
        let labels = json!({"kubernetes.io/service-name": service});
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"generateName": "slice-", "labels": labels}, "endpoints": endpoints,
        });
        let path = "/apis/discovery.k8s.io/v1/namespaces/soak/endpointslices";
        server.api.create(path, &slice).await.unwrap();
    }

    /// Writes for two Services, as a process does that begins to work when a pod changes. The
    /// second one is that of the pod.
    async fn begin_late(server: &Server, watching: &Watching) {
        let pod = loop {
            let pod = watching.seen(|seen| seen.waiting.keys().next().cloned());
            match pod {
                Some(pod) => break pod,
                None => sleep(Duration::from_millis(10)).await,
            }
        };
        let endpoints = json!([{
            "addresses": ["192.0.2.1"], "conditions": {"ready": false},
            "targetRef": {"kind": "Pod", "name": pod},
        }]);
        write_slice(server, "soak-s1", json!([])).await;
        write_slice(server, "soak-s0", endpoints).await;
    }

    #[tokio::test]
    async fn writes_of_a_process_that_begins_to_work_after_the_time_of_the_check_count() {
        let command = SoakOptions::augment_args(clap::Command::new("soak"));
        let words = "soak --check=0.1 --settle=0.1 --services=2 --pods=2 --nodes=1 --namespaces=1 -o .";
        let matches = command.try_get_matches_from(words.split(' ')).unwrap();
        let options = SoakOptions::from_arg_matches(&matches).unwrap();
        let embedded = EmbeddedApiServer::builder().build().unwrap();
        let listener = embedded.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(kubeconfig.path(), embedded.kubeconfig_of(&listener)).unwrap();
        let server = Server::of_kubeconfig(kubeconfig.path(), None).await.unwrap();
        let (workload, names) = (options.workload().unwrap(), Names { prefix: "soak".into() });
        fill(&server.api, &workload, &names).await.unwrap();
        let watching = Arc::new(Watching::start(&server.api, "soak").await.unwrap());
        while watching.seen(|seen| seen.slice_writes == 0) {
            write_slice(&server, "soak-s1", json!([])).await;
            sleep(POLL).await;
        }
        quiet(&watching, options.settle).await.unwrap();
        let churn = Churn::new(server.api.clone(), workload, names, watching.clone());
        let check = Check { options: &options, server: &server, watching: &watching, churn: &churn };
        let (written, ()) =
            tokio::join!(check.writes_of("sleep 60", "the command"), begin_late(&server, &watching));
        assert_eq!(written.unwrap(), 1, "the write for the Service of the pod does not count");
    }
}

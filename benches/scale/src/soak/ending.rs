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
    /// Runs a command alone for the time of --check. A change at the end shows that it works.
    pub(crate) async fn writes_of(&self, command: &str, what: &str) -> anyhow::Result<usize> {
        let _progress = Progress::waiting(format!("checking {what}"));
        let mut child = Child::start(&words(command, &self.server.kubeconfig)?)?;
        let writes = || self.watching.seen(|seen| seen.slice_writes + seen.endpoints_writes);
        let before = writes();
        let end = Instant::now() + Duration::from_secs_f64(self.options.check);
        while Instant::now() < end {
            child.check()?;
            sleep(POLL).await;
        }
        let written = writes() - before;
        self.churn.flip_one().await?;
        let start = Instant::now();
        while self.watching.seen(|seen| !seen.waiting.is_empty()) {
            child.check()?;
            if start.elapsed() > PATIENCE {
                bail!("{what} does not publish a change of a pod");
            }
            sleep(POLL).await;
        }
        // The Endpoints follow the slice.
        sleep(Duration::from_secs_f64(self.options.settle)).await;
        child.stop().await.context(what.to_owned())?;
        Ok(written)
    }
}

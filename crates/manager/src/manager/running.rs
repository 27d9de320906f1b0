//! Runs the tasks of a manager, starts them again after a restore, and shuts them down.

use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use kube_endpoint_api_writer::dry_run::REPORT_AFTER;
use kube_endpoint_api_writer::{EventRecorder, WriteFence};
use kube_endpoint_informer::{Cluster, Kinds, StorageWentBack};
use kube_endpoint_watch_channel as watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::build::{Blueprint, Parts};
use super::election::{Election, Happening};
use super::informers::Informers;
use super::take_over::TakeOver;
use super::tasks::NamedTasks;
use super::{CycleBreaker, Manager, ManagerError, ManagerHandle};

/// The shortest time between two starts because the server's storage went back. At its end the
/// manager starts again if it has seen new evidence. Otherwise it lists all kinds once more, in
/// case several API servers have disagreed until now.
const START_PERIOD: Duration = Duration::from_secs(600);

/// The time limit for the answers to writes that were sent before a shutdown or a new start.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The tasks of a manager. Dropping it aborts them.
pub(super) struct Running {
    handle: ManagerHandle,
    blueprint: Blueprint,
    fence: WriteFence,
    recorders: Vec<EventRecorder>,
    election: Option<Election>,
    informers: NamedTasks,
    stop_informers: watch::Sender<()>,
    workers: NamedTasks,
    event_tasks: NamedTasks,
    other_tasks: NamedTasks,
    /// The time at which the manager lists all kinds once more.
    listed_again_at: Option<Instant>,
    /// Dropped last, when no task uses the handlers.
    _cycle: CycleBreaker,
}

impl Running {
    /// Starts the informers, and without leader election also the controllers.
    pub(super) fn start(manager: Manager) -> Self {
        let Manager { mut blueprint, parts, handle, cycle, .. } = manager;
        let Parts { cluster, fence, controllers, event_tasks, recorders } = parts;
        let (take_over, informers, stop_informers) = start_informers(&mut blueprint, cluster, handle.clone());
        let report = handle.clone();
        let election = manager.election.map(|candidate| {
            let report = move |lower| report.lease_went_back(lower);
            Election::start(candidate, fence.clone(), take_over, report)
        });
        let mut workers = NamedTasks::default();
        if election.is_none() {
            controllers.start(&mut workers);
            handle.set_leading(true);
        }
        let mut other_tasks = NamedTasks::default();
        for (name, task) in manager.other_tasks {
            other_tasks.spawn(name, task);
        }
        if blueprint.settings.dry_run {
            other_tasks.spawn("summary of the dry run", tell_if_nothing_would_change(handle.clone()));
        }
        Self {
            handle,
            blueprint,
            fence,
            recorders,
            election,
            informers,
            stop_informers,
            workers,
            event_tasks,
            other_tasks,
            listed_again_at: None,
            _cycle: cycle,
        }
    }

    /// Starts everything again from nothing, except for the elector and the tasks that serve pages.
    async fn start_again(&mut self, why: &StorageWentBack) -> Result<(), ManagerError> {
        tracing::warn!(%why, "the controllers start again: all caches are dropped and filled anew");
        let drained = stop_writing(&self.fence).await;
        self.informers.abort().await;
        self.event_tasks.abort().await;
        let before = self.handle.cluster();
        // Otherwise the old stores and controllers would keep each other in memory.
        before.remove_handlers();
        self.workers.abort().await;
        let parts = self.blueprint.build()?;
        drop(before);
        let again_at = Instant::now() + START_PERIOD;
        if !drained {
            // The new ledgers learn of the abandoned writes: a later write may not be the last.
            for kind in self.blueprint.outputs() {
                parts.cluster.ledger(kind).writes_abandoned(Instant::now().into_std());
            }
        }
        parts.cluster.reset_gauges();
        parts.cluster.defer_evidence_until(again_at);
        self.listed_again_at = Some(again_at);
        let Parts { cluster, fence, controllers, event_tasks, recorders } = parts;
        self.handle.replace(cluster.clone(), controllers.clone());
        (self.fence, self.event_tasks, self.recorders) = (fence, event_tasks, recorders);
        let (take_over, informers, stop_informers) =
            start_informers(&mut self.blueprint, cluster, self.handle.clone());
        (self.informers, self.stop_informers) = (informers, stop_informers);
        let leads = match &mut self.election {
            Some(election) => election.start_again(self.fence.clone(), take_over),
            None => true,
        };
        if leads {
            tracing::info!("the controllers begin when their caches are filled");
            controllers.start(&mut self.workers);
        }
        Ok(())
    }

    /// Runs until `shutdown` completes, then shuts down.
    pub(super) async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let mut shutdown = pin!(shutdown);
        let mut announced = false;
        loop {
            let (cluster, listed_again_at) = (self.handle.cluster(), self.listed_again_at);
            let election = async {
                match &mut self.election {
                    Some(election) => election.next().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = self.workers.next_ended() => return Err(ended.unexpected()),
                Some(ended) = self.informers.next_ended() => return Err(ended.unexpected()),
                Some(ended) = self.event_tasks.next_ended() => return Err(ended.unexpected()),
                Some(ended) = self.other_tasks.next_ended() => return Err(ended.unexpected()),
                happening = election => match happening {
                    Ok(Happening::Standby { leader }) => self.handle.set_leader(leader),
                    Err(error) => {
                        // The fence is closed. The process still sends the event that it has
                        // stopped leading.
                        if let Some(mut election) = self.election.take() {
                            election.send_last_events().await;
                        }
                        return Err(error);
                    }
                    Ok(Happening::Contested) => self.handle.set_leading(false),
                    Ok(Happening::TookOver) => {
                        // The workers already run if the lease was contested.
                        if self.workers.is_empty() {
                            self.handle.controllers().start(&mut self.workers);
                        }
                        self.handle.set_leading(true);
                    }
                },
                why = cluster.storage_went_back() => {
                    self.start_again(&why).await?;
                    announced = false;
                }
                () = sleep_until(listed_again_at.unwrap_or_else(Instant::now)), if listed_again_at.is_some() => {
                    self.listed_again_at = None;
                    cluster.list_again();
                }
                () = cluster.synced(), if !announced => {
                    let what = if self.election.is_some() { "" } else { ", controllers are running" };
                    tracing::info!("all caches are synced{what}");
                    announced = true;
                }
            }
        }
        tracing::info!("shutting down");
        self.handle.set_shutting_down();
        match self.election.take() {
            Some(election) => {
                self.leave_to_successor(election).await;
                Ok(())
            }
            None => self.finish().await,
        }
    }

    /// Waits for the writes that were sent, then releases the lease.
    async fn leave_to_successor(&mut self, election: Election) {
        stop_writing(&self.fence).await;
        self.handle.set_leading(false);
        self.workers.abort().await;
        self.event_tasks.abort().await;
        election.release().await;
    }

    /// Syncs the queued keys and sends the queued events, within the time limit: an unreachable API
    /// server must not delay the end for longer.
    async fn finish(&mut self) -> Result<(), ManagerError> {
        self.handle.controllers().shut_down();
        self.stop_informers.send_replace(());
        let all = async {
            self.informers.all_ended().await?;
            self.workers.all_ended().await?;
            // The workers have ended, so nobody records events any more.
            for recorder in &self.recorders {
                recorder.shut_down();
            }
            self.event_tasks.all_ended().await
        };
        let Ok(ended) = timeout(self.blueprint.settings.shutdown_timeout, all).await else {
            let unfinished = [&self.workers, &self.event_tasks].into_iter().flat_map(NamedTasks::names);
            let unfinished: Vec<&str> = unfinished.collect();
            tracing::warn!(
                unfinished = unfinished.join(", "),
                "shutdown timed out after {:?}; outstanding work was abandoned",
                self.blueprint.settings.shutdown_timeout
            );
            return Ok(());
        };
        ended
    }
}

/// Logs once that a dry run plans no write. Differences have lines of their own.
async fn tell_if_nothing_would_change(handle: ManagerHandle) {
    while !handle.status().plans_nothing() {
        sleep(REPORT_AFTER).await;
    }
    let services = handle.cluster().services().len();
    tracing::info!(services, "dry run: nothing would change");
    pending::<()>().await;
}

/// Starts the informers that fill the stores. Also returns the inputs of a take-over.
fn start_informers(
    blueprint: &mut Blueprint,
    cluster: Cluster,
    handle: ManagerHandle,
) -> (TakeOver, NamedTasks, watch::Sender<()>) {
    let listed = watch::Sender::new(Kinds::default());
    let take_over = TakeOver {
        client: blueprint.client.clone(),
        cluster: cluster.clone(),
        outputs: blueprint.outputs(),
        inputs: blueprint.inputs(),
        listed: listed.subscribe(),
    };
    let informers = Informers {
        client: blueprint.client.clone(),
        cluster,
        kinds: blueprint.kinds,
        dry_run: blueprint.settings.dry_run,
        controllers: blueprint.names(),
        options: blueprint.reflectors(),
        seeds: &mut blueprint.seeds,
        handle,
        listed,
    };
    let (tasks, stop) = informers.start();
    (take_over, tasks, stop)
}

/// Closes the fence, and waits for the answers to the writes that were sent, for a second at most.
/// Returns true if all have come.
async fn stop_writing(fence: &WriteFence) -> bool {
    fence.close();
    let drained = timeout(WRITE_TIMEOUT, fence.drained()).await.is_ok();
    if !drained {
        tracing::warn!("writes had no answer within {WRITE_TIMEOUT:?}; they are abandoned");
    }
    drained
}

#[cfg(test)]
mod tests {
    use kube_endpoint_api_client::ApiClient;
    use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
    use kube_endpoint_testing::Log;
    use serde_json::json;
    use tracing::Level;

    use super::*;
    use crate::settings::Settings;

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_says_once_that_nothing_would_change() {
        let logged = async |server: &EmbeddedApiServer| {
            let settings = Settings { dry_run: true, ..Settings::default() };
            let client = ApiClient::for_tests(server.service());
            let manager = Manager::new(client, &settings, server.now(), 1).unwrap();
            let log = Log::capture(Level::INFO);
            manager.run(sleep(Duration::from_secs(200))).await.unwrap();
            log.text().matches("dry run: nothing would change").count()
        };
        let server = EmbeddedApiServer::builder().build().unwrap();
        assert_eq!(logged(&server).await, 1);
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        server.create(service).await.unwrap();
        assert_eq!(logged(&server).await, 0, "it would make a slice");
    }
}

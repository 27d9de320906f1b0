//! A manager that runs: its tasks, what ends it, and the shutdown.

use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use kube_endpoint_api_writer::{EventRecorder, WriteFence};
use kube_endpoint_informer::{Cluster, Kind, Kinds, StorageWentBack};
use kube_endpoint_watch_channel as watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::build::{Blueprint, Parts, Start};
use super::election::{Election, Happening};
use super::informers::Informers;
use super::take_over::TakeOver;
use super::tasks::NamedTasks;
use super::{Manager, ManagerError, ManagerHandle};

/// A manager starts again once in this time at most because the server's storage went back. If
/// there is evidence again meanwhile, it starts again at the end of this time; otherwise all kinds
/// are listed once more then, in case API servers that disagreed have only now agreed.
const START_PERIOD: Duration = Duration::from_secs(600);

/// How long a write that was sent before a shutdown or a new start may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The tasks of a manager. They are aborted when it is dropped.
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
    /// When all kinds are listed once more.
    listed_again_at: Option<Instant>,
}

impl Running {
    /// Starts the informers, and the controllers if no leader is elected.
    pub(super) fn start(manager: Manager) -> Self {
        let Manager { mut blueprint, parts, handle, .. } = manager;
        let Parts { cluster, fence, controllers, event_tasks, recorders } = parts;
        let (take_over, informers, stop_informers) = start_informers(&mut blueprint, cluster);
        let report = handle.clone();
        let election = manager.election.map(|candidate| {
            let report = move |evidence, read| report.report_storage_went_back(evidence, read);
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
        }
    }

    /// Starts everything again from nothing but the elector and what serves pages.
    async fn start_again(&mut self, why: &StorageWentBack) -> Result<(), ManagerError> {
        tracing::warn!(%why, "the controllers start again: all caches are dropped and filled anew");
        stop_writing(&self.fence).await;
        self.informers.abort().await;
        self.event_tasks.abort().await;
        let before = self.handle.cluster();
        // The cluster holds the controllers as handlers, and those hold the cluster.
        before.remove_handlers();
        // A standby looks for leftovers when it takes over, as does a process whose controllers
        // have not begun.
        let have_begun = !self.workers.is_empty() && before.has_synced_kinds([Kind::Services]);
        self.workers.abort().await;
        let start = if have_begun { Start::Again { services: before.services() } } else { Start::Process };
        let parts = self.blueprint.build(start)?;
        drop(before);
        let again_at = Instant::now() + START_PERIOD;
        parts.cluster.reset_gauges();
        parts.cluster.defer_evidence_until(again_at);
        self.listed_again_at = Some(again_at);
        let Parts { cluster, fence, controllers, event_tasks, recorders } = parts;
        self.handle.replace(cluster.clone(), controllers.clone());
        (self.fence, self.event_tasks, self.recorders) = (fence, event_tasks, recorders);
        let (take_over, informers, stop_informers) = start_informers(&mut self.blueprint, cluster);
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
                        // The fence is closed. Only the event that tells of it is still sent.
                        if let Some(mut election) = self.election.take() {
                            election.send_last_events().await;
                        }
                        return Err(error);
                    }
                    Ok(Happening::Contested) => self.handle.set_leading(false),
                    Ok(Happening::TookOver) => {
                        // They run already if the lease was contested.
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

    /// Lets the writes that were sent end, then releases the lease.
    async fn leave_to_successor(&mut self, election: Election) {
        stop_writing(&self.fence).await;
        self.handle.set_leading(false);
        self.workers.abort().await;
        self.event_tasks.abort().await;
        election.release().await;
    }

    /// Syncs the keys that are queued and sends the events that are recorded, within the time
    /// limit: an unreachable API server takes no last writes.
    async fn finish(&mut self) -> Result<(), ManagerError> {
        self.handle.controllers().shut_down();
        self.stop_informers.send_replace(());
        let all = async {
            self.informers.all_ended().await?;
            self.workers.all_ended().await?;
            // No worker records any more events.
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

/// Starts the informers that fill the stores. Returns also what a take-over needs of them.
fn start_informers(blueprint: &mut Blueprint, cluster: Cluster) -> (TakeOver, NamedTasks, watch::Sender<()>) {
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
        listed,
    };
    let (tasks, stop) = informers.start();
    (take_over, tasks, stop)
}

/// Begins no more writes, and waits until those that were sent are answered, for a second at most.
async fn stop_writing(fence: &WriteFence) {
    fence.close();
    if timeout(WRITE_TIMEOUT, fence.drained()).await.is_err() {
        tracing::warn!("writes had no answer within {WRITE_TIMEOUT:?}; they are abandoned");
    }
}

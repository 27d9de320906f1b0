//! A manager that runs: its tasks, what ends it, and the shutdown.

use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use kube_endpoint_api_writer::EventRecorder;
use kube_endpoint_informer::{Kind, Kinds};
use kube_endpoint_watch_channel as watch;
use tokio::time::timeout;

use super::election::{Election, Happening};
use super::informers::Informers;
use super::take_over::TakeOver;
use super::tasks::NamedTasks;
use super::{Manager, ManagerError, ManagerHandle};

/// The tasks of a manager. They are aborted when it is dropped.
pub(super) struct Running {
    handle: ManagerHandle,
    recorders: Vec<EventRecorder>,
    election: Option<Election>,
    informers: NamedTasks,
    stop_informers: watch::Sender<()>,
    workers: NamedTasks,
    event_tasks: NamedTasks,
    other_tasks: NamedTasks,
    shutdown_timeout: Duration,
}

impl Running {
    /// Starts the informers, and the controllers if no leader is elected.
    pub(super) fn start(manager: Manager) -> Self {
        let Manager { client, cluster, kinds, names, reflectors: options, seeds, outputs, fence, .. } =
            manager;
        let inputs =
            Kind::ALL.into_iter().filter(|kind| kinds.contains(*kind) && !outputs.contains(kind)).collect();
        let listed = watch::Sender::new(Kinds::default());
        let dry_run = manager.handle.is_dry_run();
        let take_over = TakeOver {
            client: client.clone(),
            cluster: cluster.clone(),
            outputs,
            inputs,
            listed: listed.subscribe(),
        };
        let election = manager.election.map(|elector| Election::start(elector, fence, take_over));
        let (informers, stop_informers) =
            Informers { client, cluster, kinds, dry_run, controllers: names, options, seeds, listed }.start();
        let mut workers = NamedTasks::default();
        if election.is_none() {
            manager.controllers.start(&mut workers);
            manager.handle.set_leading(true);
        }
        let mut other_tasks = NamedTasks::default();
        for (name, task) in manager.other_tasks {
            other_tasks.spawn(name, task);
        }
        Self {
            handle: manager.handle,
            recorders: manager.recorders,
            election,
            informers,
            stop_informers,
            workers,
            event_tasks: manager.event_tasks,
            other_tasks,
            shutdown_timeout: manager.shutdown_timeout,
        }
    }

    /// Runs until `shutdown` completes, then shuts down.
    pub(super) async fn run(&mut self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let mut shutdown = pin!(shutdown);
        let mut announced = false;
        loop {
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
                    Ok(Happening::TookOver) => {
                        self.handle.controllers().start(&mut self.workers);
                        self.handle.set_leading(true);
                    }
                },
                () = self.handle.cluster().synced(), if !announced => {
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
    async fn leave_to_successor(&mut self, mut election: Election) {
        election.stop_writing().await;
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
        let Ok(ended) = timeout(self.shutdown_timeout, all).await else {
            let unfinished = [&self.workers, &self.event_tasks].into_iter().flat_map(NamedTasks::names);
            let unfinished: Vec<&str> = unfinished.collect();
            tracing::warn!(
                unfinished = unfinished.join(", "),
                "shutdown timed out after {:?}; outstanding work was abandoned",
                self.shutdown_timeout
            );
            return Ok(());
        };
        ended
    }
}

//! Leader election of a running manager: decides when the controllers may write.

use std::time::Duration;

use futures::future::BoxFuture;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter, WriteFence};
use kube_endpoint_leader_election::{
    Elector, ElectorOptions, Ended, LastWrites, LeaderElectionError, Leadership, LeaseHealth, LowerVersion,
};
use kube_endpoint_watch_channel as watch;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout};

use super::ManagerError;
use super::take_over::TakeOver;
use super::tasks::NamedTasks;
use crate::leader::host_name;
use crate::settings::LeaderElectionSettings;

/// The name of the elector's task.
const TASK: &str = "leader elector";
/// The name of the task that sends events about the lease.
const EVENTS_TASK: &str = "lease events";
/// The longest time for which a process leaves the lease to others while its caches are not synced,
/// since it could not work. After that it takes part in the election anyway: perhaps it cannot list
/// one kind, and some controllers do not need that kind.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests per second for events about the lease, and their burst: client-go's defaults.
const EVENTS_QPS: f64 = 5.0;
const EVENTS_BURST: u32 = 10;
/// The component of events about the lease.
const EVENT_COMPONENT: &str = "kube-endpoint-manager";
/// The time limit for the last event of a process that no longer leads.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// A candidate that has not started, with the recorder of its events and the task that sends them.
pub(super) struct Candidate {
    elector: Elector,
    leadership: watch::Receiver<Leadership>,
    events: EventRecorder,
    send_events: BoxFuture<'static, ()>,
    former: Option<String>,
}

impl Candidate {
    /// Makes a candidate. It sends its events through `client`, past the fence: the last event says
    /// that this process has stopped leading.
    pub(super) fn new(
        client: ApiClient,
        settings: &LeaderElectionSettings,
        clock: Clock,
        (elector_seed, events_seed): (u64, u64),
    ) -> Result<Self, ManagerError> {
        let limiter = RequestLimiter::new(EVENTS_QPS, EVENTS_BURST)?;
        let agent = format!("kube-endpoint-manager/{} leader-election", env!("CARGO_PKG_VERSION"));
        let writer = ApiWriter::new(client.clone(), limiter, agent);
        let (events, send_events) = EventRecorder::new(EVENT_COMPONENT, writer, clock, events_seed);
        let options = elector_options(settings, elector_seed);
        let (elector, leadership) = Elector::new(client, options, clock, elector_seed)?;
        let elector = elector.with_event_recorder(events.clone());
        let former = settings.former.clone();
        Ok(Self { elector, leadership, events, send_events: Box::pin(send_events), former })
    }

    /// Returns the liveness check of the elector.
    pub(super) fn health(&self) -> LeaseHealth {
        self.elector.health()
    }
}

fn elector_options(settings: &LeaderElectionSettings, seed: u64) -> ElectorOptions {
    ElectorOptions {
        namespace: settings.namespace.clone(),
        name: settings.name.clone(),
        identity: settings.identity.clone().unwrap_or_else(|| format!("{}_{seed:016x}", host_name())),
        lease_duration: settings.lease_duration,
        renew_deadline: settings.renew_deadline,
        retry_period: settings.retry_period,
        reserve_for: settings.reserve_for,
    }
}

/// A running elector, with the fence that it opens and closes for the controllers.
pub(super) struct Election {
    leadership: watch::Receiver<Leadership>,
    stop: Option<oneshot::Sender<Option<LastWrites>>>,
    elector: JoinHandle<Result<Ended, LeaderElectionError>>,
    events: EventRecorder,
    event_task: NamedTasks,
    fence: WriteFence,
    take_over: TakeOver,
    /// The versions that the previous leader left. While this process leads, they are those of the
    /// kinds that it only reads.
    inherited: LastWrites,
    phase: Phase,
}

enum Phase {
    Standby,
    /// This process holds the lease, and its caches catch up. The fence is closed.
    TakingOver {
        until: Instant,
        caught_up: BoxFuture<'static, LastWrites>,
    },
    Leading {
        until: Instant,
    },
}

/// A change in an election.
pub(super) enum Happening {
    /// This process does not hold the lease. `leader` is the holder, if there is one.
    Standby { leader: Option<String> },
    /// The lease names another holder although this process leads. The fence is closed.
    Contested,
    /// The caches have caught up, and the fence is open: the controllers must begin.
    TookOver,
}

impl Election {
    /// Starts the elector. The fence must be closed. The elector calls `report` if the version of
    /// the Lease went back.
    pub(super) fn start(
        candidate: Candidate,
        fence: WriteFence,
        take_over: TakeOver,
        report: impl Fn(LowerVersion) + Send + Sync + 'static,
    ) -> Self {
        let Candidate { elector, leadership, events, send_events, former } = candidate;
        let (stop, mut stopped) = oneshot::channel();
        let cluster = take_over.cluster.clone();
        let mut elector = elector.with_history_observer(report);
        let elector = tokio::spawn(async move {
            let is_synced = tokio::select! {
                biased;
                _ = &mut stopped => return Ok(Ended::Standby),
                synced = timeout(SYNC_TIMEOUT, cluster.synced()) => synced.is_ok(),
            };
            // A standby with complete caches works sooner than a process without.
            if let Some(former) = former.filter(|_| is_synced) {
                elector = elector.with_former(former);
            }
            // A new start replaces the stores while the elector runs; the old ones must leave
            // memory.
            drop(cluster);
            let stopped = async move { stopped.await.unwrap_or_default() };
            elector.run(stopped).await
        });
        let mut event_task = NamedTasks::default();
        event_task.spawn(EVENTS_TASK, send_events);
        Self {
            leadership,
            stop: Some(stop),
            elector,
            events,
            event_task,
            fence,
            take_over,
            inherited: LastWrites::default(),
            phase: Phase::Standby,
        }
    }

    /// Waits for the next change.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If this process loses the lease, or if the elector or the task that sends its events fails.
    /// The process must end.
    pub(super) async fn next(&mut self) -> Result<Happening, ManagerError> {
        loop {
            let caught_up = async {
                match &mut self.phase {
                    Phase::TakingOver { caught_up, .. } => caught_up.await,
                    Phase::Standby | Phase::Leading { .. } => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = &mut self.elector => return Err(self.lost(ended)),
                Some(ended) = self.event_task.next_ended() => return Err(ended.unexpected()),
                Ok(()) = self.leadership.changed() => {
                    let leadership = self.leadership.borrow_and_update().clone();
                    if let Some(happening) = self.changed(leadership) {
                        return Ok(happening);
                    }
                }
                inputs = caught_up => {
                    self.inherited = inputs;
                    if let Phase::TakingOver { until, .. } = self.phase {
                        self.fence.open(Some(until));
                        self.phase = Phase::Leading { until };
                    }
                    return Ok(Happening::TookOver);
                }
            }
        }
    }

    fn changed(&mut self, leadership: Leadership) -> Option<Happening> {
        match leadership {
            Leadership::Standby { leader } => return Some(Happening::Standby { leader }),
            Leadership::Leading { until, predecessor } => match &mut self.phase {
                Phase::Standby => {
                    self.inherited =
                        predecessor.as_ref().map(|it| it.last_writes.clone()).unwrap_or_default();
                    let caught_up = self.take_over.begin(predecessor);
                    self.phase = Phase::TakingOver { until, caught_up };
                }
                Phase::TakingOver { until: before, .. } => *before = until,
                Phase::Leading { until: before } => {
                    *before = until;
                    self.fence.open(Some(until));
                }
            },
            // If this process gets the lease back, it takes over again, since the other holder may
            // have written.
            Leadership::Contested { .. } => {
                self.fence.close();
                self.phase = Phase::Standby;
                return Some(Happening::Contested);
            }
            // The elector's task ends next and returns the reason.
            Leadership::Lost => self.fence.close(),
        }
        None
    }

    /// Goes on with new controllers, whose caches are empty and whose fence is closed. Returns true
    /// if they may begin; otherwise [`Self::next`] tells when they may.
    pub(super) fn start_again(&mut self, fence: WriteFence, take_over: TakeOver) -> bool {
        (self.fence, self.take_over) = (fence, take_over);
        // The storage went back, so the versions that the previous leader left mean nothing.
        self.inherited = LastWrites::default();
        match &mut self.phase {
            Phase::Standby => false,
            // The predecessor had lost the lease before the first lists of the new caches begin.
            Phase::TakingOver { caught_up, .. } => {
                *caught_up = self.take_over.begin(None);
                false
            }
            // Their first lists begin after the answers to the writes of the controllers before. A
            // write without an answer may still happen: the watch shows it then.
            Phase::Leading { until } => {
                self.fence.open(Some(*until));
                true
            }
        }
    }

    fn lost(&self, ended: Result<Result<Ended, LeaderElectionError>, JoinError>) -> ManagerError {
        self.fence.close();
        match ended {
            Ok(Err(error)) => ManagerError::LeaderElectionLost(error),
            Ok(Ok(_)) => ManagerError::TaskEnded { name: TASK.to_owned() },
            Err(error) => ManagerError::TaskFailed { name: TASK.to_owned(), error },
        }
    }

    /// Releases the lease if this process holds it. Call this when no write can be in flight.
    pub(super) async fn release(mut self) {
        let last_writes = match self.phase {
            Phase::Leading { .. } => self.take_over.last_writes(&self.inherited),
            // This process has written nothing, and its caches may lag: it hands on what was left
            // to it.
            Phase::Standby | Phase::TakingOver { .. } => std::mem::take(&mut self.inherited),
        };
        if let Some(stop) = self.stop.take() {
            // This fails if the elector has ended.
            let _ = stop.send(Some(last_writes));
        }
        match (&mut self.elector).await {
            Ok(Ok(Ended::Standby | Ended::Released)) => {}
            Ok(Ok(Ended::NotReleased { why })) => {
                tracing::warn!(why, "the lease is not released; the next leader waits until it expires");
            }
            Ok(Err(error)) => tracing::warn!(%error, "the lease was lost during the shutdown"),
            Err(error) => tracing::error!(task = TASK, %error, "a task failed"),
        }
        self.send_last_events().await;
    }

    /// Sends the events that the elector recorded at its end, for a second at most. Call this when
    /// the elector has ended.
    pub(super) async fn send_last_events(&mut self) {
        self.events.shut_down();
        if timeout(EVENTS_TIMEOUT, self.event_task.all_ended()).await.is_err() {
            tracing::debug!("an event about the lease was not sent within {EVENTS_TIMEOUT:?}");
        }
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        self.fence.close();
        self.elector.abort();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use kube_endpoint_core_model::Timestamp;
    use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
    use kube_endpoint_informer::{Cluster, Kind, Kinds};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_the_task_that_sends_events_is_an_error_with_its_name() {
        let server = EmbeddedApiServer::builder().build().unwrap();
        let client = ApiClient::for_tests(server.service());
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let settings = LeaderElectionSettings::default();
        let mut candidate = Candidate::new(client.clone(), &settings, clock, (1, 2)).unwrap();
        candidate.send_events = async { panic!("a bug") }.boxed();
        let take_over = TakeOver {
            client,
            cluster: Cluster::new([Kind::Pods]),
            outputs: Vec::new(),
            inputs: Vec::new(),
            listed: watch::Sender::new(Kinds::default()).subscribe(),
        };
        let mut election = Election::start(candidate, WriteFence::closed(), take_over, |_| {});
        let error = loop {
            if let Err(error) = election.next().await {
                break error;
            }
        };
        assert!(matches!(&error, ManagerError::TaskFailed { name, .. } if name == EVENTS_TASK), "{error}");
        election.send_last_events().await;
    }
}

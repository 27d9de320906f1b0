//! The loop around the state machine: sends its requests, watches the Lease, and publishes the
//! state.

use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{Clock, EventRecorder};
use kube_endpoint_core_model::{EventType, PlannedEvent, ResourceVersion};
use kube_endpoint_watch_channel as watch;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::action::{Action, Answer};
use crate::health::LeaseHealth;
use crate::leadership::{Ended, LastWrites, LeaderElectionError, Leadership};
use crate::lease::Lease;
use crate::metrics::LeaseMetrics;
use crate::options::{ElectorOptions, InvalidElectorOptions};
use crate::requests::LeaseClient;
use crate::state::{Election, RequestError};

/// The capacity of the channel from the watch to the election, which never stays busy for long.
const EVENTS: usize = 16;

/// A lower version of the Lease is confirmed if a second answer has one too, this time later.
const CONFIRMATION: Duration = Duration::from_secs(1);

/// An answer had a lower version of the Lease than one before.
#[derive(Clone, Debug)]
pub struct LowerVersion {
    /// The two versions, as a part of a sentence.
    pub evidence: String,
    /// When the higher version was read.
    pub read: Instant,
    /// True if a second answer, a second later, had a lower version too. Otherwise the next answer
    /// had a higher one: another process has renewed the Lease since, or this one.
    pub is_confirmed: bool,
}

/// See [`Elector::with_history_observer`].
type HistoryObserver = Box<dyn Fn(LowerVersion) + Send + Sync>;

/// Acquires, renews and releases one Lease.
pub struct Elector {
    client: LeaseClient,
    options: ElectorOptions,
    clock: Clock,
    seed: u64,
    election: Election,
    leadership: watch::Sender<Leadership>,
    health: LeaseHealth,
    metrics: LeaseMetrics,
    events: Option<EventRecorder>,
    /// The highest version of the Lease in an answer, and when it was read.
    highest: (ResourceVersion, Instant),
    /// When an answer had a lower version than that, and none since had it again, with this lower
    /// version.
    lower_since: Option<(Instant, ResourceVersion)>,
    on_went_back: Option<HistoryObserver>,
    reported_error: Option<RequestError>,
    /// The time in the last log line that says until when this standby leaves a deleted Lease to
    /// its last holder.
    reported_deletion: Option<Instant>,
}

impl Elector {
    /// Returns an elector, and a receiver of its [`Leadership`]. The elector sends nothing before
    /// [`Elector::run`].
    ///
    /// `client` should not be that of the controllers: its requests must not wait behind theirs.
    /// The elector has a rate limit of its own. It writes the times of `clock` into the Lease, and
    /// `seed` determines all jitter. It registers its metrics with the current recorder.
    ///
    /// # Errors
    ///
    /// The error of [`ElectorOptions::validate`].
    pub fn new(
        client: ApiClient,
        options: ElectorOptions,
        clock: Clock,
        seed: u64,
    ) -> Result<(Self, watch::Receiver<Leadership>), InvalidElectorOptions> {
        options.validate()?;
        let election = Election::new(options.clone(), seed, Instant::now());
        let (leadership, receiver) = watch::channel(election.leadership());
        let elector = Self {
            client: LeaseClient::new(client, &options),
            clock,
            seed,
            election,
            leadership,
            health: LeaseHealth::new(&options.name),
            metrics: LeaseMetrics::register(&options.name),
            events: None,
            highest: (ResourceVersion::default(), Instant::now()),
            lower_since: None,
            on_went_back: None,
            reported_error: None,
            reported_deletion: None,
            options,
        };
        Ok((elector, receiver))
    }

    /// Records the events of client-go's resource lock on the Lease: `<identity> became leader` and
    /// `<identity> stopped leading`, and one if it took the Lease back. The recorder should not share a rate limit or a fence with the
    /// controllers.
    #[must_use]
    pub fn with_event_recorder(mut self, events: EventRecorder) -> Self {
        self.events = Some(events);
        self
    }

    /// Takes the Lease back if exactly this holder has it. The caller knows that its process has
    /// ended, as by [`IdentityFile`](crate::IdentityFile), and that this one is ready to lead.
    #[must_use]
    pub fn with_former(mut self, identity: String) -> Self {
        self.election.take_back_from(identity);
        self
    }

    /// Calls `observer` when answers have a lower version of the Lease than one before: the API
    /// server's storage went back, as after a restore. Nothing else of this process asks the server
    /// as regularly.
    #[must_use]
    pub fn with_history_observer(mut self, observer: impl Fn(LowerVersion) + Send + Sync + 'static) -> Self {
        self.on_went_back = Some(Box::new(observer));
        self
    }

    /// Returns the liveness check of this elector.
    pub fn health(&self) -> LeaseHealth {
        self.health.clone()
    }

    /// Takes part in the election until `stop` completes or the Lease is lost.
    ///
    /// `stop` must complete only when this process begins no more writes. Until then a leader
    /// renews the Lease. `stop` returns the versions of the last writes, or `None` if the process
    /// does not know them. The elector then releases the Lease, with these versions for the next
    /// leader, within half of the renew deadline. If the caller drops this future instead, the
    /// Lease expires.
    ///
    /// # Errors
    ///
    /// This process was the leader and no longer is: it must exit.
    pub async fn run(
        mut self,
        stop: impl Future<Output = Option<LastWrites>>,
    ) -> Result<Ended, LeaderElectionError> {
        tracing::info!(
            lease = self.options.lease(),
            identity = self.options.identity,
            "attempting to acquire leader lease"
        );
        let mut stop = pin!(stop);
        let mut is_stopped = false;
        let (sender, mut events) = mpsc::channel(EVENTS);
        let watch_seed = self.seed.wrapping_add(1);
        let mut watching =
            pin!(crate::watch::watch(self.client.clone(), self.options.clone(), watch_seed, sender));
        let client = self.client.clone();
        let mut request: Option<Pin<Box<dyn Future<Output = Answer> + Send + '_>>> = None;
        loop {
            let action = self.election.next(Instant::now(), self.clock.now());
            self.publish();
            self.report_deletion();
            let wake = match action {
                Action::Send { request: next, timeout, slow_path } => {
                    self.metrics.slow_paths.increment(u64::from(slow_path));
                    request = Some(Box::pin(client.send(next, timeout)));
                    continue;
                }
                Action::End(ended) => {
                    self.log_end(&ended);
                    if ended != Ok(Ended::Standby) {
                        self.record_event("LeaderElection", "stopped leading");
                    }
                    return ended;
                }
                Action::Wait(wake) => wake,
            };
            tokio::select! {
                biased;
                // The answer comes before the stop, because it may tell that there is a Lease to
                // release. The rate limit of the requests keeps answers from delaying the stop.
                answer = answer_to(&mut request) => {
                    request = None;
                    self.compare_versions(&answer);
                    self.election.answered(answer, Instant::now());
                    self.report_error();
                }
                last_writes = &mut stop, if !is_stopped => {
                    is_stopped = true;
                    request = None;
                    self.election.stop(last_writes, Instant::now());
                }
                Some(event) = events.recv() => self.election.event(event, Instant::now()),
                never = &mut watching => match never {},
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    /// Compares the version of the Lease with those of earlier answers. Requests are sent one after
    /// the other, so it cannot be lower, also not after the Lease was deleted and made anew.
    fn compare_versions(&mut self, answer: &Answer) {
        let Answer::Lease(lease) = answer else { return };
        let version = lease.version();
        if version.is_none() {
            return;
        }
        let now = Instant::now();
        let (before, read) = self.highest;
        let (since, lower) = if version < before {
            *self.lower_since.get_or_insert((now, version))
        } else {
            self.highest = (version, now);
            let Some(lower) = self.lower_since.take() else { return };
            lower
        };
        let is_confirmed = version < before;
        if is_confirmed && now - since < CONFIRMATION {
            return;
        }
        (self.highest, self.lower_since) = ((version, now), None);
        let lease = self.options.lease();
        tracing::warn!(lease, version = %lower, %before, is_confirmed, "the API server's version of the Lease went back");
        if let Some(observer) = &self.on_went_back {
            let evidence = format!(
                "the API server's version of the Lease {lease} was {lower}, although {before} had been read before"
            );
            observer(LowerVersion { evidence, read, is_confirmed });
        }
    }

    /// Publishes the state if it has changed.
    fn publish(&mut self) {
        let now = self.election.leadership();
        self.health.set_expiry(self.election.expiry());
        let is_master = matches!(now, Leadership::Leading { .. });
        self.metrics.master.set(f64::from(u8::from(is_master)));
        self.metrics.held.set(f64::from(u8::from(self.election.is_held(Instant::now()))));
        let before = self.leadership.borrow().clone();
        let (lease, identity) = (self.options.lease(), &self.options.identity);
        match (&before, &now) {
            (before, now) if before == now => return,
            (Leadership::Standby { .. }, Leadership::Leading { .. }) => {
                tracing::info!(lease, identity, "successfully acquired lease");
                self.record_event("LeaderElection", "became leader");
                if let Some(former) = self.election.took_back_from() {
                    tracing::info!(
                        lease,
                        identity,
                        former,
                        "took the lease back from the former process, which has ended"
                    );
                    self.metrics.taken_back.increment(1);
                    let what =
                        format!("took the lease back from its former process {former}, which has ended");
                    self.record_event("LeaseTakenBack", &what);
                }
            }
            (_, Leadership::Contested { holder }) => {
                tracing::warn!(
                    lease,
                    identity,
                    holder,
                    "the lease has another holder; nothing is written until it has this one again, or is lost"
                );
            }
            (Leadership::Contested { .. }, Leadership::Leading { .. }) => {
                tracing::warn!(lease, identity, "the lease has this holder again");
            }
            (_, Leadership::Standby { leader: Some(leader) }) => {
                tracing::info!(lease, leader, "new leader elected");
            }
            _ => {}
        }
        self.leadership.send_replace(now);
    }

    /// Records that `<identity> <what>`. Upstream: `LeaseLock.RecordEvent`, with the reason
    /// `LeaderElection`.
    fn record_event(&self, reason: &'static str, what: &str) {
        let Some(events) = &self.events else { return };
        let subject = match self.election.lease() {
            Some(lease) => lease.event_subject(),
            None => Lease::new(&self.options.namespace, &self.options.name).event_subject(),
        };
        let message = format!("{} {what}", self.options.identity);
        events.record(subject, &PlannedEvent { event_type: EventType::Normal, reason, message });
    }

    /// Logs once until when a standby leaves a deleted Lease to its last holder.
    fn report_deletion(&mut self) {
        let now = Instant::now();
        let until = self.election.deleted_until(now);
        if until != self.reported_deletion {
            if let Some(until) = until {
                let remaining = until - now;
                tracing::warn!(
                    lease = self.options.lease(), until = %(self.clock.now() + remaining),
                    "the lease does not exist; it is acquired in {remaining:.1?} unless its last holder restores it"
                );
            }
            self.reported_deletion = until;
        }
    }

    /// Logs the error of a request, once while it stays the same. A conflict is no fault: the Lease
    /// is read again.
    fn report_error(&mut self) {
        let error = self.election.last_error();
        if error == self.reported_error.as_ref() {
            return;
        }
        let lease = self.options.lease();
        match error {
            None => {}
            Some(RequestError::Conflict(_))
                if matches!(*self.leadership.borrow(), Leadership::Standby { .. }) =>
            {
                tracing::info!(lease, "another candidate was faster to acquire the lease");
            }
            Some(RequestError::Conflict(_)) => {
                tracing::info!(
                    lease,
                    "the lease has another version than this process knows; it is read before the next renewal"
                );
            }
            Some(RequestError::Other(error)) => {
                tracing::warn!(lease, error, "a request for the lease failed");
            }
        }
        self.reported_error = error.cloned();
    }

    fn log_end(&self, ended: &Result<Ended, LeaderElectionError>) {
        let lease = self.options.lease();
        match ended {
            Ok(Ended::Standby) => {}
            Ok(Ended::Released) => tracing::info!(lease, "released lease"),
            Ok(Ended::NotReleased { why }) => tracing::warn!(lease, why, "failed to release lease"),
            Err(error) => tracing::error!(lease, %error, "failed to renew lease"),
        }
    }
}

/// Waits for the answer to the request that is under way, or for ever if there is none.
async fn answer_to<F: Future<Output = Answer> + ?Sized>(request: &mut Option<Pin<Box<F>>>) -> Answer {
    match request {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

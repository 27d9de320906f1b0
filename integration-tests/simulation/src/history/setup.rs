//! The settings of a run.

use std::time::Duration;

use kube_endpoint_controllers::{
    ControllerName, Gate, Gates, LeaderElectionSettings, PodLogOptions, ReflectorOptions, Settings,
};

use super::{Manager, Profile};
use crate::text::{Field, text_struct};

text_struct! {
    /// The settings of a run. The seed is that of the server, of the managers and of the network.
    "setup" pub struct Setup {
        seed: u64,
        /// The profile of the history.
        profile: Profile,
        /// The lease duration in seconds, or `None` for one manager without a Lease.
        lease: Option<u16>,
        /// The maximum number of endpoints of a slice.
        slice_limit: u16,
        /// Workers of each controller.
        workers: u8,
        /// Batch period in milliseconds.
        batch: u16,
        /// Requests each second, or 0 for no limit.
        qps: u16,
        /// The times of watches and bookmarks are longer by this factor than the defaults.
        slowness: u8,
        /// True if managers stream lists.
        streaming: bool,
        /// Objects in a page of a list.
        page: u16,
        /// True if managers sync keys every 12 to 24 hours.
        resync: bool,
        /// True if managers compact slices.
        compaction: bool,
        /// The longest delay of a request, and of its answer, in milliseconds.
        latency: u8,
        /// The features that are off, besides `SliceCompaction`.
        without: Vec<Gate> = Vec::new(),
        /// How long the garbage collector waits before it deletes what a deleted object owned, in
        /// milliseconds.
        collected_after: u32 = 100,
        /// The maximum number of writes of outputs that the server may refuse, or `None` for any
        /// number.
        most_refused: Option<u16> = None,
        /// True if the managers send and ask for JSON instead of protobuf.
        json: bool = false,
        /// The API servers before the store.
        servers: u8 = 1,
        /// The maximum number of answered lists of whole kinds in an hour, or `None` for any
        /// number.
        most_lists: Option<u16> = None,
        /// The minimum number of writes of outputs in an hour that servers accept while a server
        /// answers from another storage, or `None` for any number.
        least_writes: Option<u16> = None,
        /// The maximum number of processes that lose the Lease in an hour, or `None` for any
        /// number.
        most_lost: Option<u16> = None,
        /// True if kube-controller-manager runs too, and the managers run the endpoint selector
        /// controller beside it.
        beside: bool = false,
        /// True if the Services of the namespace `team` have no Endpoints unless they say
        /// otherwise.
        retired: bool = false,
        /// True if the managers list the two namespaces one by one.
        namespaces: bool = false,
        /// True if each process that elects a leader has an identity file, and takes the Lease of
        /// its former process back.
        takes_back: bool = false,
    }
}

impl Field for Gate {
    fn write(&self) -> String {
        self.name().to_owned()
    }

    fn read(text: &str) -> Option<Self> {
        Self::all().find(|gate| gate.name() == text)
    }
}

/// How often the server sends bookmarks by default.
const BOOKMARKS: Duration = Duration::from_secs(60);

impl Setup {
    /// Returns the time between bookmarks.
    pub fn bookmark_interval(&self) -> Duration {
        BOOKMARKS * self.slowness.max(1).into()
    }

    /// Returns the time within which a manager gives up a silent connection, and opens a new watch.
    pub fn silence(&self) -> Duration {
        Duration::from_secs(3 * 60) * self.slowness.max(1).into()
    }

    /// Returns the time within which everything is right again after the last fault: ten minutes
    /// for the slow retry of a key, which comes after six minutes at most, and for the results of
    /// its sync; the time of silent connections; and the time until a lease expires and another
    /// process takes it.
    pub fn recovery(&self) -> Duration {
        Duration::from_secs(10 * 60 + 2 * u64::from(self.lease.unwrap_or_default())) + self.silence()
    }

    /// Returns how long after the end of its pod an endpoint may be ready if nothing goes wrong:
    /// the batch period, the limit of requests, and a second for events, requests and the echo of
    /// an earlier write.
    pub fn promptness(&self) -> Duration {
        let limit = if self.qps == 0 { Duration::ZERO } else { Duration::from_secs(5) };
        Duration::from_millis(self.batch.into()) + limit + Duration::from_secs(1)
    }

    /// Returns the settings of a process. `identity` is the one for the election, in which
    /// kube-controller-manager and the third manager take no part.
    pub fn settings_of(&self, manager: Manager, identity: String) -> Settings {
        let takes_part = matches!(manager, Manager::A | Manager::B);
        let mut settings = self.settings(takes_part.then_some(identity));
        if manager == Manager::K {
            settings.gates = Gates::upstream();
            settings.qps = 20.0;
        } else if self.beside {
            settings.controllers = vec![ControllerName::EndpointSelector];
        }
        settings
    }

    /// Returns the settings of a manager. `identity` is its holder identity if it takes part in the
    /// election.
    pub fn settings(&self, identity: Option<String>) -> Settings {
        let mut settings = Settings::default();
        let batch = Duration::from_millis(self.batch.into());
        let gates = Gates::default().with(Gate::SliceCompaction, self.compaction);
        settings.gates = self.without.iter().fold(gates, |gates, gate| gates.with(*gate, false));
        settings.qps = if self.qps == 0 { -1.0 } else { self.qps.into() };
        settings.watch_list_client = self.streaming;
        settings.reflectors = self.reflectors();
        // The Services of a history have few pods.
        settings.pod_log = PodLogOptions::SHORT_LISTS;
        if !self.resync {
            // Then only retries mend the damage of an outage.
            settings.min_resync_period = Duration::ZERO;
        }
        settings.max_endpoints_per_slice = self.slice_limit.into();
        settings.endpoint_slice_workers = self.workers.into();
        settings.endpoints_workers = self.workers.into();
        settings.mirroring_workers = self.workers.into();
        settings.endpoint_slice_batch_period = batch;
        settings.endpoints_batch_period = batch;
        settings.mirroring_batch_period = batch;
        if self.namespaces {
            settings.namespaces = vec!["default".to_owned(), "team".to_owned()];
        }
        if self.retired {
            settings.retirement.namespaces = vec!["team".to_owned()];
        }
        settings.leader_election = identity.zip(self.lease).map(|(identity, lease)| LeaderElectionSettings {
            identity: Some(identity),
            lease_duration: Duration::from_secs(lease.into()),
            renew_deadline: Duration::from_secs(lease.into()) * 2 / 3,
            retry_period: Duration::from_secs(lease.into()) * 2 / 15,
            ..LeaderElectionSettings::default()
        });
        settings
    }

    fn reflectors(&self) -> ReflectorOptions {
        let default = ReflectorOptions::new(0);
        let slowness = self.slowness.max(1).into();
        default
            .page_size(self.page.into())
            .watch_timeout(default.watch_timeout * slowness)
            .idle_timeout(default.idle_timeout * slowness)
            .silence(default.silence * slowness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::TextError;

    #[test]
    fn the_last_fields_may_be_missing() {
        let text = "setup seed=1 profile=churn lease=none slice_limit=5 workers=5 batch=0 qps=0 slowness=2 streaming=true \
                    page=500 resync=false compaction=true latency=0";
        let short: Setup = text.parse().unwrap();
        assert_eq!((short.without.len(), short.collected_after, short.most_refused), (0, 100, None));
        assert!(!short.json);
        assert_eq!((short.servers, short.most_lists), (1, None));
        assert_eq!((short.least_writes, short.most_lost, short.beside), (None, None, false));
        assert!(!short.retired && !short.takes_back);
        assert_eq!(short.to_string().parse::<Setup>().unwrap(), short);
        let long: Setup =
            format!("{text} without=EndpointsRepair,SlowRetries most_refused=0").parse().unwrap();
        assert_eq!(long.without, [Gate::EndpointsRepair, Gate::SlowRetries]);
        assert!(
            !long.settings(None).gates.is_on(Gate::SlowRetries)
                && short.settings(None).gates.is_on(Gate::SlowRetries)
        );
        let error = format!("{text} without=Speed").parse::<Setup>().unwrap_err();
        assert!(matches!(error, TextError::Field { field: "without", .. }), "{error}");
    }
}

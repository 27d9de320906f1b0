//! The builder of a server: its seed, clock, initial objects and settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::strategy::{ClusterIps, RangeError};
use parking_lot::Mutex;
use serde_json::Value;

use crate::EmbeddedApiServer;
use crate::changes::{ChangeObserver, StoreChange};
use crate::clock::Clock;
use crate::faults::{FaultRule, Faults};
use crate::kubelet::Kubelet;
use crate::load::LoadError;
use crate::random::Random;
use crate::request_log::{LoggedRequest, Observer, RequestLog};
use crate::reviews::{PolicyRule, Reviews, User};
use crate::server::{Inner, Settings};
use crate::store::{Limits, Store};
use crate::watches::OpenWatches;

/// The namespaces that every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The default for the start time in seconds: 2026-01-01T00:00:00Z.
const START_TIME: i64 = 1_767_225_600;

/// The default for the request log: about 100,000 requests.
const LOG_BYTES: usize = 32 * 1024 * 1024;

/// The default for the ranges of cluster IPs.
const SERVICE_RANGES: [&str; 2] = ["10.96.0.0/16", "fd00:10:96::/112"];

/// The default for the history of a resource.
const HISTORY: Limits = Limits { changes: 10_000, bytes: 64 * 1024 * 1024 };

/// The reason why building a server failed.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Loading an initial object failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A range of cluster IPs is invalid.
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// Configures a server; see [`EmbeddedApiServer::builder`].
#[must_use]
pub struct Builder {
    seed: u64,
    start_time: Timestamp,
    objects: Vec<Value>,
    history: Limits,
    log_bytes: usize,
    first_version: u64,
    bookmark_interval: Duration,
    gc_delay: Duration,
    collects_garbage: bool,
    plays_kubelet: bool,
    requires_token: bool,
    tracks_managers: bool,
    minor_version: u32,
    service_ranges: Vec<String>,
    reviews: Reviews,
    faults: Vec<FaultRule>,
    observer: Option<Observer>,
    change_observer: Option<ChangeObserver>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Builder").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            seed: 0,
            start_time: Timestamp::constant(START_TIME, 0),
            objects: Vec::new(),
            history: HISTORY,
            log_bytes: LOG_BYTES,
            first_version: 0,
            bookmark_interval: Duration::from_secs(60),
            gc_delay: Duration::from_millis(100),
            collects_garbage: true,
            plays_kubelet: false,
            requires_token: false,
            tracks_managers: false,
            minor_version: kube_endpoint_apiserver_printers::MINOR_VERSION,
            service_ranges: SERVICE_RANGES.map(str::to_owned).to_vec(),
            reviews: Reviews::default(),
            faults: Vec::new(),
            observer: None,
            change_observer: None,
        }
    }
}

impl Builder {
    /// Sets the seed of uids, generated names and everything else that is random. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the server's start time, which advances with tokio's clock. Default:
    /// 2026-01-01T00:00:00Z, so that runs repeat. Pass the system's time if people look at the
    /// objects' ages with kubectl.
    pub fn start_time(mut self, time: Timestamp) -> Self {
        self.start_time = time;
        self
    }

    /// Adds initial objects, which the server stores unchanged: see [`EmbeddedApiServer::load`]. It
    /// flattens lists.
    pub fn load(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.objects.extend(objects);
        self
    }

    /// How many changes of each resource are kept for watches and for reads of older states.
    /// Default: 10,000. At most 64 MiB of changed objects are kept of each resource, and the latest
    /// change in any case.
    pub fn history(mut self, changes: usize) -> Self {
        self.history.changes = changes;
        self
    }

    /// How much memory the request log takes. It keeps the latest requests, and 4096 bytes of each
    /// path, query and `User-Agent`. Default: 32 MiB.
    pub fn request_log_bytes(mut self, bytes: usize) -> Self {
        self.log_bytes = bytes;
        self
    }

    /// Calls `observer` with each logged request, in the order of the log. It must not wait.
    pub fn on_request(mut self, observer: impl Fn(&LoggedRequest) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Calls `observer` with each change of the store, in the order of resource versions. Initial
    /// objects and restores are no changes. The call holds the lock of the store: the observer must
    /// neither wait nor use the server.
    pub fn on_change(mut self, observer: impl Fn(&StoreChange<'_>) + Send + Sync + 'static) -> Self {
        self.change_observer = Some(Box::new(observer));
        self
    }

    /// Sets the resource version before the first one that the server assigns. Default: 0.
    pub fn first_resource_version(mut self, version: u64) -> Self {
        self.first_version = version;
        self
    }

    /// Sets the interval of bookmarks in watches that allow them. Default: a minute.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// Sets the delay with which the garbage collector, the namespace controller and the kubelet
    /// react. Default: 100 ms.
    pub fn gc_delay(mut self, delay: Duration) -> Self {
        self.gc_delay = delay;
        self
    }

    /// Disables the garbage collector: the server keeps dependents of deleted owners.
    pub fn without_garbage_collector(mut self) -> Self {
        self.collects_garbage = false;
        self
    }

    /// Plays the kubelet and the scheduler for the pods that clients create: such a pod gets a
    /// node, an address and, after a second, Ready, and it goes once the grace period of its
    /// deletion is over. If there is no node, the first pod makes the node `embedded`. The server
    /// leaves a pod alone that was loaded, or whose status somebody else has written: other
    /// conditions than those of readiness gates, or other fields. No container runs, so none ends
    /// by itself.
    pub fn kubelet(mut self) -> Self {
        self.plays_kubelet = true;
        self
    }

    /// Sets the ranges of cluster IPs: one, or one of each family. The first one is that of
    /// Services that ask for no family. Default: `10.96.0.0/16` and `fd00:10:96::/112`, which is
    /// smaller than kubeadm's, so that tests notice an address outside.
    pub fn service_ranges<R: Into<String>>(mut self, ranges: impl IntoIterator<Item = R>) -> Self {
        self.service_ranges = ranges.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a token and its user, for token reviews and for the listener.
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.reviews.tokens.insert(token.into(), user);
        self
    }

    /// Adds a token that token reviews accept until `end`.
    pub fn token_until(mut self, token: impl Into<String>, user: User, end: Timestamp) -> Self {
        let token = token.into();
        self.reviews.expiry.insert(token.clone(), end);
        self.token(token, user)
    }

    /// Adds a rule that allows actions in subject access reviews. The server does not authorize
    /// requests to itself.
    pub fn policy_rule(mut self, rule: PolicyRule) -> Self {
        self.reviews.rules.push(rule);
        self
    }

    /// Makes listeners reject requests without a known token (401). Requests in process need no
    /// token.
    pub fn require_token(mut self) -> Self {
        self.requires_token = true;
        self
    }

    /// Tracks in the managedFields of Endpoints and EndpointSlices who has set which field. Loaded
    /// objects keep theirs.
    pub fn track_managers(mut self) -> Self {
        self.tracks_managers = true;
        self
    }

    /// Sets the minor version that `/version` names. The behaviour stays that of the default, 36.
    pub fn minor_version(mut self, minor: u32) -> Self {
        self.minor_version = minor;
        self
    }

    /// Adds a fault that is active from the start.
    pub fn fault(mut self, rule: FaultRule) -> Self {
        self.faults.push(rule);
        self
    }

    /// Builds the server. It needs a tokio runtime only while it handles requests.
    pub fn build(self) -> Result<EmbeddedApiServer, BuildError> {
        let faults = Faults::default();
        for rule in self.faults {
            faults.add(rule);
        }
        let cluster_ips = ClusterIps::new(&self.service_ranges)?;
        let families = cluster_ips.families();
        let kubelet = self.plays_kubelet.then(|| Kubelet::new(&cluster_ips)).transpose()?;
        let inner = Arc::new_cyclic(|this| Inner {
            store: Mutex::new(Store::new(self.history, self.first_version, self.change_observer)),
            cluster_ips: Mutex::new(cluster_ips),
            kubelet: kubelet.map(Mutex::new),
            wakes_waiting_pods: AtomicBool::new(false),
            random: Mutex::new(Random::new(self.seed)),
            clock: Clock::starting_at(self.start_time),
            clock_jump: AtomicI64::new(0),
            settings: Settings {
                bookmark_interval: self.bookmark_interval.max(Duration::from_millis(1)),
                gc_delay: self.gc_delay,
                collects_garbage: self.collects_garbage,
                requires_token: self.requires_token,
                tracks_managers: self.tracks_managers,
                minor_version: self.minor_version,
                families,
            },
            faults,
            log: RequestLog::new(self.log_bytes, self.observer),
            reviews: self.reviews,
            watches: OpenWatches::default(),
            hidden_groups: Mutex::default(),
            queued_namespaces: Mutex::default(),
            this: this.clone(),
        });
        for namespace in NAMESPACES {
            inner.ensure_namespace(namespace, true);
        }
        inner.load(self.objects, true)?;
        Ok(EmbeddedApiServer { inner })
    }
}

//! The take-over of a new leader: before it writes, its caches must show the writes of the previous
//! leader.
//!
//! A leader that released the lease left the versions of its last writes. The caches must have read
//! up to these versions, and usually have. It also left the versions of the last changes of pods,
//! Services and nodes that it had read: a new leader whose watches lag would otherwise replace
//! newer state with older state.
//!
//! If the previous leader left no versions, as after a crash, nobody knows its last writes. The new
//! leader then lists once the kinds that the controllers write: a list that begins after it took
//! the lease shows all of them. It need not if the last list of its cache began after that, or if
//! there was no leader before.
//!
//! If this process took the lease back from its former process, which was killed, requests of that
//! process may still be carried out, after every list. The watches show them, as they show writes
//! of other clients, and the controllers put right what they changed. Until such requests cannot
//! happen any more, this process leaves its successor no last versions of their kinds.
//!
//! A kind that the controllers only read may be older than both if its requests fail: the network
//! was broken, and the next attempt is a while off. The new leader then lists this kind.
//!
//! In all cases, the new leader first asks the API server for its version of each kind. If a cache
//! has read a higher version, the server's storage went back, and the caches show objects that the
//! server has lost. The new leader then lists all kinds, which confirms this, and its controllers
//! start again.
//!
//! The take-over does not wait for a kind that the informers do not list, because the API server
//! does not serve it. The controllers that read this kind do.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube_endpoint_api_client::{ApiClient, STORAGE_WENT_BACK};
use kube_endpoint_core_model::ResourceVersion;
use kube_endpoint_informer::{Cluster, Kind, Kinds};
use kube_endpoint_leader_election::{LastWrites, Predecessor};
use kube_endpoint_watch_channel as watch;
use tokio::time::{Instant, sleep, timeout};

/// The longest wait for a cache that is behind. After it the new leader lists the kind, if the
/// controllers write it, and otherwise goes on with the cache as it is.
const LONGEST_LAG: Duration = Duration::from_secs(10);
/// The time limit for a list.
const LONGEST_LIST: Duration = Duration::from_secs(60);
/// The pause between two looks at the position of a cache.
const POLL: Duration = Duration::from_millis(10);
/// The time limit for an answer about the server's version, and the shortest time between two such
/// requests.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(500);

/// The inputs of a take-over.
#[derive(Clone)]
pub(super) struct TakeOver {
    pub(super) client: ApiClient,
    pub(super) cluster: Cluster,
    /// The kinds that the controllers write.
    pub(super) outputs: Vec<Kind>,
    /// The kinds that they only read.
    pub(super) inputs: Vec<Kind>,
    /// Those of these kinds that the informers list, because the API server serves what their
    /// controllers need. The receiver's first value is a placeholder.
    pub(super) listed: watch::Receiver<Kinds>,
}

/// The answer of the server about a kind.
struct Asked {
    kind: Kind,
    /// The highest version that the cache had read before the request.
    position: ResourceVersion,
    /// The server's version, or `None` if the server answered that it does not serve an output.
    server: Option<ResourceVersion>,
}

impl Asked {
    /// Returns the version that the lease names, or `None` if the server has not reached it, or has
    /// not told its own.
    fn existing(&self, version: Option<ResourceVersion>) -> Option<ResourceVersion> {
        let (version, server) = (version?, self.server?);
        if version > server {
            tracing::warn!(
                kind = self.kind.name(), %version, %server,
                "the lease names a version that the API server does not have; it was restored, or the lease edited"
            );
            return None;
        }
        Some(version)
    }
}

impl TakeOver {
    /// Begins a take-over. The future completes when the controllers may begin. It returns the
    /// versions of the inputs that the previous leader left, except those that the server has not
    /// reached.
    ///
    /// The ledgers keep the versions that the previous leader wrote, so that a process that stops
    /// soon hands them on.
    pub(super) fn begin(&self, predecessor: Option<Predecessor>) -> BoxFuture<'static, LastWrites> {
        let wrote_until = predecessor.as_ref().map(|it| it.wrote_until);
        let was_killed = predecessor.as_ref().is_some_and(|it| it.was_killed);
        let last_writes = predecessor.map(|it| it.last_writes).unwrap_or_default();
        self.continue_from(&last_writes);
        if let Some(wrote_until) = wrote_until.filter(|_| was_killed) {
            for kind in &self.outputs {
                self.cluster.ledger(*kind).writes_abandoned(wrote_until.into_std());
            }
        }
        tracing::info!(%last_writes, was_killed, "taking over");
        let mut this = self.clone();
        async move {
            // This fails if discovery has ended, as in a shutdown.
            let _ = this.listed.changed().await;
            let served = *this.listed.borrow();
            let this = this;
            let kinds = this.outputs.iter().chain(&this.inputs).copied();
            let kinds: Vec<Kind> = kinds.filter(|kind| served.contains(*kind)).collect();
            let asked = join_all(kinds.iter().map(|kind| this.ask(*kind))).await;
            let asked: Vec<Asked> = asked.into_iter().flatten().collect();
            let is_lower = |it: &Asked| it.server.is_some_and(|server| server < it.position);
            let went_back = asked.iter().any(is_lower);
            if went_back {
                // The other caches may show lost objects, too, although the server has passed their
                // versions since.
                tracing::warn!(
                    "the API server's version is lower than one that was read before: {STORAGE_WENT_BACK}"
                );
                let now = Instant::now();
                join_all(asked.iter().map(|asked| this.relist(asked.kind, now))).await;
            }
            let caught_up = asked.iter().map(async |asked| {
                let last = asked.existing(last_writes.get(asked.kind.name()));
                let last = if went_back { last } else { this.catch_up(asked.kind, last, wrote_until).await };
                Some((asked.kind.name(), last?))
            });
            let caught_up: LastWrites = join_all(caught_up).await.into_iter().flatten().collect();
            this.continue_from(&caught_up);
            tracing::info!("the controllers begin");
            let inputs = this.inputs.iter();
            inputs.filter_map(|kind| Some((kind.name(), caught_up.get(kind.name())?))).collect()
        }
        .boxed()
    }

    fn continue_from(&self, last_writes: &LastWrites) {
        for kind in &self.outputs {
            self.cluster.ledger(*kind).continue_from(last_writes.get(kind.name()));
        }
    }

    /// Returns the versions that this process leaves to the next leader: those of its last writes,
    /// and of the last changes that it has read of the other kinds. `inherited` has the versions of
    /// the other kinds that the previous leader left.
    pub(super) fn last_writes(&self, inherited: &LastWrites) -> LastWrites {
        let outputs = self.outputs.iter();
        let outputs =
            outputs.filter_map(|kind| Some((kind.name(), self.cluster.ledger(*kind).last_version()?)));
        let inputs = self.inputs.iter().filter_map(|kind| {
            let read = self.cluster.last_event(*kind).max(inherited.get(kind.name()))?;
            Some((kind.name(), read))
        });
        outputs.chain(inputs).collect()
    }

    /// Asks for the server's version of a kind, and waits for the answer about an output. About an
    /// input it asks only if the informer has listed it, and waits for a limited time: perhaps
    /// nobody can list it, and some controllers do not need it. Otherwise it returns `None`, as for
    /// an output that the server forbids, and for an input that it does not serve.
    async fn ask(&self, kind: Kind) -> Option<Asked> {
        // The position comes first: while the server answers, the cache may read past the answer.
        let position = |namespace: &str| self.cluster.position_in(kind, namespace);
        let namespaces = self.cluster.watched_namespaces().names();
        let position = namespaces.map(|namespace| position(namespace)).fold(position(""), Ord::max);
        let answer = self.server_version(kind);
        let server = if self.outputs.contains(&kind) {
            answer.await?
        } else if self.cluster.has_synced_kinds([kind]) {
            Some(timeout(LONGEST_LAG, answer).await.ok()???)
        } else {
            return None;
        };
        Some(Asked { kind, position, server })
    }

    /// Waits until the cache of a kind has read up to the version that the previous leader left.
    /// Returns this version if this process can hand it on to the next leader. If the version is
    /// unknown, waits for a list of an output that began at `wrote_until` or later: the previous
    /// leader began no write after that. Without a previous leader it waits for nothing, except for
    /// a list of an input whose last request failed.
    async fn catch_up(
        &self,
        kind: Kind,
        version: Option<ResourceVersion>,
        wrote_until: Option<Instant>,
    ) -> Option<ResourceVersion> {
        let is_output = self.outputs.contains(&kind);
        if !is_output && self.cluster.status(kind).failure.is_some() {
            // Perhaps the server refuses this kind for good.
            let _ = timeout(LONGEST_LAG, self.cluster.relist(kind, Instant::now())).await;
        }
        let Some(version) = version else {
            if let Some(wrote_until) = wrote_until.filter(|_| is_output) {
                self.relist(kind, wrote_until).await;
            }
            return None;
        };
        // If each namespace has a watch of its own, the watches without events do not reach the
        // version soon.
        let has_many_watches = self.cluster.watched_namespaces().names().len() > 1;
        let limit = if has_many_watches { Duration::ZERO } else { LONGEST_LAG };
        if self.reads(kind, version, limit).await {
            return Some(version);
        }
        if !has_many_watches {
            tracing::warn!(
                kind = kind.name(), %version, position = %self.cluster.position(kind), is_output,
                "the cache does not show what the previous leader had written or read; a kind that is written is listed"
            );
        }
        if !is_output {
            return Some(version);
        }
        self.relist(kind, Instant::now()).await;
        has_many_watches.then_some(version)
    }

    /// Lists a kind, unless the store shows a list that began at `since` or later. If that takes
    /// too long, the controllers begin with the cache as it is, so that those of other kinds do not
    /// wait.
    async fn relist(&self, kind: Kind, since: Instant) {
        if timeout(LONGEST_LIST, self.cluster.relist(kind, since)).await.is_err() {
            let kind = kind.name();
            tracing::error!(kind, "the kind was not listed within {LONGEST_LIST:?}; going on without");
        }
    }

    /// Waits until the cache has read up to a version. Returns false if it has not within the time
    /// limit.
    async fn reads(&self, kind: Kind, version: ResourceVersion, limit: Duration) -> bool {
        let reads = async {
            while self.cluster.position(kind) < version {
                sleep(POLL).await;
            }
        };
        timeout(limit, reads).await.is_ok()
    }

    /// Returns the server's current version of a kind, or `None` in the answer if the server does
    /// not serve the kind. This asks until the server answers: a server without an answer would
    /// take no writes either. But if it goes on to forbid the kind in all namespaces, this returns
    /// `None`: the controllers of other kinds do not wait for that.
    async fn server_version(&self, kind: Kind) -> Option<Option<ResourceVersion>> {
        let (began, mut reported) = (Instant::now(), None);
        loop {
            let asked = Instant::now();
            let answer = kube_endpoint_informer::server_version_of(
                &self.client,
                self.cluster.watched_namespaces(),
                kind,
                ANSWER_TIMEOUT,
            )
            .await;
            match answer {
                Ok(version) => {
                    if version.is_none() {
                        let kind = kind.name();
                        tracing::warn!(
                            kind,
                            "the API server does not serve this kind any more; its versions are not compared"
                        );
                    }
                    return Some(version);
                }
                Err(error) if error.is_forbidden && began.elapsed() >= LONGEST_LIST => {
                    let kind = kind.name();
                    tracing::error!(kind, %error, "the server's version stays unknown; going on without");
                    return None;
                }
                Err(error) if reported.as_ref() != Some(&error) => {
                    let kind = kind.name();
                    tracing::warn!(
                        kind,
                        %error,
                        "the server's version is not known; it is asked until it answers"
                    );
                    reported = Some(error);
                }
                Err(_) => {}
            }
            tokio::time::sleep_until(asked + RETRY).await;
        }
    }
}

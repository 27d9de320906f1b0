//! What a new leader waits for before it writes: that its caches show what the previous leader has
//! written.
//!
//! A leader that released the lease left the versions of its last writes, so the caches must have
//! read as far. They usually have already. It also left the versions of the last changes of pods,
//! Services and nodes that it had read: a new leader whose watches lag would otherwise put an older
//! state in place of a newer one.
//!
//! Otherwise the previous leader is gone, and nobody knows what it wrote last. The API server's
//! current version is an upper bound then, but a watch without events reaches it with the next
//! bookmark only, a minute later. So the controllers begin at once, and compare the outputs of a
//! key with the server's before they write any for it, until the cache has read up to that bound.
//!
//! A kind that the API server does not serve is not waited for. Its controllers wait for it.

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::WriteFence;
use kube_endpoint_core_model::{ResourceVersion, Text};
use kube_endpoint_informer::{Cluster, Kind, Kinds, Position};
use kube_endpoint_leader_election::LastWrites;
use kube_endpoint_watch_channel as watch;
use tokio::time::{Instant, sleep, timeout};

use super::controllers::Unread;

/// A cache that has not read the leader's last writes after this time is behind, or the versions
/// are wrong: the server's version tells which.
const USUAL_LAG: Duration = Duration::from_millis(250);
/// How long to wait for a cache that is behind. Then the outputs are compared with the server's
/// instead.
const LONGEST_LAG: Duration = Duration::from_secs(10);
/// How often the position of a cache is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long to wait for an answer about the server's version, and then until it is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(500);

/// What a take-over needs.
#[derive(Clone)]
pub(super) struct TakeOver {
    pub(super) client: ApiClient,
    pub(super) cluster: Cluster,
    /// The kinds that the controllers write.
    pub(super) outputs: Vec<Kind>,
    /// The kinds that they only read.
    pub(super) inputs: Vec<Kind>,
    /// Of all these, the kinds that the API server serves. The first value is not valid.
    pub(super) listed: watch::Receiver<Kinds>,
}

/// The result of a take-over.
pub(super) struct TakenOver {
    /// What the caches may not show.
    pub(super) unread: Unread,
    /// The versions of the inputs that the previous leader left, without those that the server does
    /// not have.
    pub(super) inputs: LastWrites,
}

impl TakeOver {
    /// Begins a take-over. The future completes when the controllers may begin.
    ///
    /// `fence` is told what the previous leader wrote, so that a process that stops soon hands this
    /// on.
    pub(super) fn begin(&self, fence: &WriteFence, last_writes: LastWrites) -> BoxFuture<'static, TakenOver> {
        for kind in &self.outputs {
            fence.continue_from(kind.name(), last_writes.get(kind.name()));
        }
        tracing::info!(%last_writes, "taking over");
        let (mut this, fence) = (self.clone(), fence.clone());
        async move {
            // The sender ends with the shutdown.
            let _ = this.listed.changed().await;
            let served = *this.listed.borrow();
            let this = this;
            let catch_up = async |kind: Kind| {
                if !this.outputs.contains(&kind) {
                    return None;
                }
                if !served.contains(kind) {
                    fence.continue_from(kind.name(), None);
                    return None;
                }
                this.catch_up(kind, last_writes.get(kind.name()), &fence).await
            };
            let inputs = this.inputs.iter().filter(|kind| served.contains(**kind));
            let inputs = inputs.filter_map(|kind| Some((*kind, last_writes.get(kind.name())?)));
            let inputs = join_all(inputs.map(async |(kind, version)| {
                this.read_input(kind, version).await.then_some((kind.name(), version))
            }));
            let (endpoint_slices, endpoints, inputs) =
                tokio::join!(catch_up(Kind::EndpointSlices), catch_up(Kind::Endpoints), inputs);
            let unread = Unread { endpoint_slices, endpoints };
            tracing::info!(%unread, "the controllers begin");
            TakenOver { unread, inputs: inputs.into_iter().flatten().collect() }
        }
        .boxed()
    }

    /// What this process leaves to the next leader: the versions of the last writes, and of the
    /// last changes that it has read of other kinds. `inherited` is what was left to it, of the
    /// other kinds.
    pub(super) fn last_writes(&self, fence: &WriteFence, inherited: &LastWrites) -> LastWrites {
        let outputs = fence.last_writes().into_iter();
        let inputs = self.inputs.iter().filter_map(|kind| {
            let read = self.cluster.last_event(*kind).max(inherited.get(kind.name()))?;
            Some((kind.name(), read))
        });
        outputs.chain(inputs).collect()
    }

    /// Waits until the cache of a kind shows the last change that the previous leader had read.
    /// Otherwise its outputs would be replaced by older ones. Returns whether the server has that
    /// version.
    async fn read_input(&self, kind: Kind, version: ResourceVersion) -> bool {
        // Each namespace has a watch of its own, and those without events do not reach the version
        // soon.
        let has_many_watches = self.cluster.view().namespaces().len() > 1;
        if !has_many_watches && self.reads(kind, version, USUAL_LAG).await {
            return true;
        }
        let Some(server) = self.server_version(kind).await else { return false };
        if server < version {
            tracing::warn!(
                kind = kind.name(), %version, %server,
                "the lease names a version that the API server does not have; it was restored, or the lease edited"
            );
            return false;
        }
        if !has_many_watches && !self.reads(kind, version, LONGEST_LAG).await {
            tracing::warn!(
                kind = kind.name(), %version, position = %self.cluster.position(kind),
                "the cache does not show what the previous leader had read; going on without"
            );
        }
        true
    }

    /// Waits until the cache of a kind shows the last write, if its version is known. Returns the
    /// version up to which the cache may not show what was written, if there is one.
    async fn catch_up(
        &self,
        kind: Kind,
        last_write: Option<ResourceVersion>,
        fence: &WriteFence,
    ) -> Option<ResourceVersion> {
        if let Some(version) = last_write {
            if self.reads(kind, version, USUAL_LAG).await {
                return None;
            }
            let Some(server) = self.server_version(kind).await else { return self.gone(kind, fence) };
            if server < version {
                tracing::warn!(
                    kind = kind.name(), %version, %server,
                    "the lease names a last write that the API server does not have; it was restored, or the lease edited"
                );
            } else if self.cluster.view().namespaces().len() > 1 {
                // Each namespace has a watch of its own, and those without events do not reach the
                // version soon.
                return Some(version);
            } else if self.reads(kind, version, LONGEST_LAG).await {
                return None;
            } else {
                tracing::warn!(
                    kind = kind.name(), %version, position = %self.cluster.position(kind),
                    "the cache does not show the last write of the previous leader; comparing with the server instead"
                );
            }
            fence.continue_from(kind.name(), None);
        }
        let Some(server) = self.server_version(kind).await else { return self.gone(kind, fence) };
        let namespaces: Vec<Text> = self.cluster.view().namespaces().cloned().collect();
        let namespaces = if namespaces.is_empty() { vec![Text::default()] } else { namespaces };
        let positions =
            namespaces.iter().map(|namespace| (namespace, self.cluster.position_in(kind, namespace)));
        let ahead: Vec<(&Text, Position)> =
            positions.filter(|(_, position)| position.version > server).collect();
        if ahead.is_empty() {
            return Some(server).filter(|server| *server > self.cluster.position(kind));
        }
        // The server was set back, and the watches do not know yet. The kind is listed then, in a
        // new epoch.
        for (namespace, _) in &ahead {
            self.cluster.request_version_check(kind, namespace);
        }
        let listed = async {
            let is_old = |(namespace, before): &(&Text, Position)| {
                self.cluster.position_in(kind, namespace).epoch == before.epoch
            };
            while ahead.iter().any(is_old) {
                sleep(POLL).await;
            }
        };
        // Without a new epoch, no version that is comparable with the cache's is known.
        timeout(LONGEST_LAG, listed).await.is_err().then_some(ResourceVersion(u64::MAX))
    }

    /// Forgets the last write of a kind that the server does not serve any more. What was listed of
    /// it before is compared with the server until the kind is listed in a new epoch.
    fn gone(&self, kind: Kind, fence: &WriteFence) -> Option<ResourceVersion> {
        fence.continue_from(kind.name(), None);
        let was_listed = self.cluster.position(kind) > ResourceVersion::default();
        was_listed.then_some(ResourceVersion(u64::MAX))
    }

    /// Waits until the cache has read up to a version; returns whether it has within the time
    /// limit.
    async fn reads(&self, kind: Kind, version: ResourceVersion, limit: Duration) -> bool {
        let reads = async {
            while self.cluster.position(kind) < version {
                sleep(POLL).await;
            }
        };
        timeout(limit, reads).await.is_ok()
    }

    /// The server's current version of a kind; none if it does not serve the kind. It is asked
    /// until it answers: without an answer nothing could be written either.
    async fn server_version(&self, kind: Kind) -> Option<ResourceVersion> {
        let mut reported = None;
        loop {
            let asked = Instant::now();
            let answer = kube_endpoint_informer::server_version_of(
                &self.client,
                self.cluster.view(),
                kind,
                ANSWER_TIMEOUT,
            )
            .await;
            match answer {
                Ok(version) => {
                    if version.is_none() {
                        let kind = kind.name();
                        tracing::warn!(kind, "the API server does not serve this kind; it is not waited for");
                    }
                    return version;
                }
                Err(error) if reported.as_ref() != Some(&error) => {
                    let kind = kind.name();
                    tracing::warn!(
                        kind,
                        error,
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

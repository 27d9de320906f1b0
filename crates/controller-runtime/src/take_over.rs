//! How a controller begins, maybe after another process was the leader.
//!
//! Before it begins, it keeps nothing for any key: what a leader does meanwhile is none of its own
//! writes, and no foreign write either. When it begins, it syncs all keys. Each Service is then
//! queued once, and not once for each of its pods.
//!
//! Its cache may not show the last writes of the previous leader. If the version of these is not
//! known, the outputs of a key are compared with the API server's before the first write for this
//! key, until the cache has read as far as the server was when the lease was taken. So are those of
//! a key with writes that were outstanding when the cache began a new epoch.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_endpoint_api_writer::{FailedWrite, Operation, PartialObjectMetadata, Writable, WriteError};
use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};
use kube_endpoint_tracker::CachePosition;
use parking_lot::Mutex;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::all_keys::AllKeys;
use crate::waiting::{LONGEST_WAIT, STALE_RETRY};
use crate::{Cause, Output, Reconciler, Runtime};

/// Objects of one page when all keys are queued.
const PAGE: usize = 1000;
/// How often the position of the cache is looked at.
const POLL: Duration = Duration::from_secs(1);

/// Whether the controller has begun, and what a new leader has to take into account.
#[derive(Debug, Default)]
pub(crate) struct TakeOver {
    has_begun: AtomicBool,
    unread: Mutex<Option<Unread>>,
}

/// Writes of the previous leader that the cache of the outputs may not show.
#[derive(Debug)]
struct Unread {
    until: ResourceVersion,
    /// The epoch of each namespace that is listed by itself, or of all, when the lease was taken.
    epochs: BTreeMap<Text, u64>,
    /// Keys whose outputs were the same in the cache and on the server. The cache has shown the
    /// leader's writes since.
    compared: HashSet<ObjectKey>,
}

impl Unread {
    /// Returns true if a cache with this position in a namespace shows everything. A new epoch
    /// begins with a complete list.
    fn is_read(&self, namespace: &Text, position: CachePosition) -> bool {
        let epoch = self.epochs.get(namespace).or_else(|| self.epochs.get(""));
        epoch.is_none_or(|epoch| position.epoch != *epoch) || position.version >= self.until
    }
}

impl<R: Reconciler> Runtime<R> {
    /// Returns true if changes are looked at. Before, another process may write the outputs.
    pub(crate) fn has_begun(&self) -> bool {
        self.take_over.has_begun.load(Ordering::Acquire)
    }

    /// Records that the cache of the outputs may not show everything up to this version of the
    /// server.
    pub(crate) fn expect_unread(&self, until: ResourceVersion) {
        let epoch = |namespace: &Text| (namespace.clone(), self.position(namespace).epoch);
        let mut epochs: BTreeMap<Text, u64> =
            self.cluster().watched_namespaces().names().map(epoch).collect();
        if epochs.is_empty() {
            epochs.extend([epoch(&Text::default())]);
        }
        *self.take_over.unread.lock() = Some(Unread { until, epochs, compared: HashSet::new() });
    }

    /// Looks at changes from now on. [`Self::queue_all_keys`] has to follow, since changes before
    /// were not looked at.
    pub(crate) fn begin(&self) {
        self.take_over.has_begun.store(true, Ordering::Release);
    }

    /// Queues all keys.
    pub(crate) async fn queue_all_keys(&self) {
        let mut all = AllKeys::with_repeats();
        while let Some(keys) = all.next_page(self.cluster(), PAGE) {
            for key in keys {
                self.add(key, Cause::Start);
            }
            yield_now().await;
        }
    }

    /// Whether the cache shows what was written for a key by the previous leader, or by this
    /// process before a new epoch of the cache. If this is not known, the cache is compared with
    /// the server. This sync must not write then, because its plan may be older than the cache is
    /// now. The key is synced again: soon if the cache and the server agree, otherwise when the
    /// cache shows a change.
    ///
    /// # Errors
    ///
    /// When the server does not say.
    async fn outputs_are_current(&self, key: &ObjectKey) -> Result<bool, WriteError> {
        if !self.must_compare(key) {
            return Ok(true);
        }
        let position = self.position(&key.namespace);
        let selector = R::Output::selector(key);
        let listed = self.writer.writer().list_metadata::<R::Output>(&key.namespace, &selector).await?;
        let cached = R::Output::of_owner(self.cluster(), key);
        if is_same(&cached, &listed) {
            tracing::debug!(queue = self.queue.name(), %key, ?position, "the cache shows what the server has");
            self.writer.tracker().confirmed(key);
            self.keys.with_kept_rare(key, |state| state.comparison_delay = Duration::ZERO);
            if let Some(unread) = &mut *self.take_over.unread.lock() {
                unread.compared.insert(key.clone());
            }
        } else {
            self.defer_for(key, self.next_comparison(key));
        }
        Ok(false)
    }

    /// How long to wait before the server is asked about a key once more, after an answer that
    /// differs from the cache. Each time is twice as long until a sync succeeds, so that a watch
    /// that cannot be opened for hours does not cost a list of each key every second.
    pub(crate) fn next_comparison(&self, key: &ObjectKey) -> Duration {
        self.keys.with_rare(key, |state| {
            state.comparison_delay = (state.comparison_delay * 2).clamp(STALE_RETRY, LONGEST_WAIT);
            state.comparison_delay
        })
    }

    /// Returns true if the outputs of a key were compared with the server, and were the same.
    pub(crate) fn is_compared(&self, key: &ObjectKey) -> bool {
        self.take_over.unread.lock().as_ref().is_some_and(|unread| unread.compared.contains(key))
    }

    fn must_compare(&self, key: &ObjectKey) -> bool {
        if self.writer.tracker().is_uncertain(key) {
            return true;
        }
        let position = self.position(&key.namespace);
        let unread = self.take_over.unread.lock();
        unread
            .as_ref()
            .is_some_and(|unread| !unread.is_read(&key.namespace, position) && !unread.compared.contains(key))
    }

    /// Waits until the cache shows everything that the previous leader wrote. Objects of keys that
    /// are gone are looked for once more then.
    pub(crate) async fn finish_take_over(&self) {
        while self.take_over.unread.lock().as_ref().is_some_and(|unread| {
            let mut namespaces = unread.epochs.keys();
            namespaces.any(|namespace| !unread.is_read(namespace, self.position(namespace)))
        }) {
            sleep(POLL).await;
        }
        if self.take_over.unread.lock().take().is_some() {
            self.reconciler.start(self);
        }
        std::future::pending::<()>().await;
    }

    /// Checks before a write or a delete that the cached outputs of a key are those that the server
    /// has. [`Self::carry_out`] does so by itself.
    ///
    /// # Errors
    ///
    /// If they are not, or if that was not known before this call. The sync has to end with this
    /// error, because its plan may be older than the cache is now. It is repeated by itself.
    pub async fn check_outputs_are_current(&self, key: &ObjectKey) -> Result<(), FailedWrite> {
        let error = match self.outputs_are_current(key).await {
            Ok(true) => return Ok(()),
            Ok(false) => WriteError::CacheBehind(
                "the cache may not show what was written before a take-over or a restore".to_owned(),
            ),
            Err(error) => error,
        };
        Err(FailedWrite { operation: Operation::Update, object: key.clone(), error })
    }
}

/// Returns true if the cached objects are those that the server listed, in these versions.
fn is_same<O: Writable>(cached: &[Arc<O>], listed: &[PartialObjectMetadata]) -> bool {
    let of_cached = cached.iter().map(|it| it.metadata());
    let cached: HashSet<_> = of_cached.map(|it| (&it.name, it.resource_version)).collect();
    cached.len() == listed.len()
        && listed.iter().all(|it| cached.contains(&(&it.metadata.name, it.version())))
}

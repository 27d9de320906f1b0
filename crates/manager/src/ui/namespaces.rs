//! Finds out which namespaces a reader may see: those in which they may list EndpointSlices.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use kube_endpoint_core_model::Text;
use kube_endpoint_serving::{Access, Unanswered};
use kube_endpoint_workqueue::TokenBucket;
use lru::LruCache;
use parking_lot::Mutex;

use kube_endpoint_status_page::Kept;

const GROUP: &str = "discovery.k8s.io";
const RESOURCE: &str = "endpointslices";

/// The most readers whose namespaces the page remembers.
const READERS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// The shortest time between two rounds of questions to the API server about one reader.
const PERIOD: Duration = Duration::from_secs(10);

/// The most questions at once about one reader.
const AT_ONCE: usize = 8;

/// Questions per second about all readers, and their burst. The limit of all reviews is four times
/// as high, so this page leaves room for others.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(50).expect("not zero");
const BURST: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

/// The namespaces that a reader may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Visible {
    All,
    Some {
        /// The namespaces that they may see.
        shown: BTreeSet<Text>,
        /// The namespaces that they may not see.
        hidden: BTreeSet<Text>,
    },
}

impl Visible {
    /// Returns true if the reader may see a namespace.
    pub(super) fn shows(&self, namespace: &Text) -> bool {
        match self {
            Self::All => true,
            Self::Some { shown, .. } => shown.contains(namespace),
        }
    }

    /// Returns true if the reader may not see a namespace. A namespace without an answer of the API
    /// server is neither shown nor hidden.
    pub(super) fn hides(&self, namespace: &Text) -> bool {
        match self {
            Self::All => false,
            Self::Some { hidden, .. } => hidden.contains(namespace),
        }
    }
}

/// The recent answers of the API server about readers.
pub(super) struct Readers {
    readers: Mutex<LruCache<[u8; 32], Arc<Kept<Visible>>>>,
    limit: Arc<TokenBucket>,
}

impl Default for Readers {
    fn default() -> Self {
        Self {
            readers: Mutex::new(LruCache::new(READERS)),
            limit: Arc::new(TokenBucket::per_second(PER_SECOND, BURST)),
        }
    }
}

impl Readers {
    /// Returns those of these namespaces that a reader may see, or `None` if the API server has not
    /// answered yet.
    pub(super) async fn visible(
        &self,
        access: &Access,
        namespaces: impl FnOnce() -> Vec<Text>,
    ) -> Option<Arc<Visible>> {
        let kept = {
            let mut readers = self.readers.lock();
            Arc::clone(readers.get_or_insert(access.reader(), || Kept::new(PERIOD)))
        };
        kept.get(|| {
            let (access, limit, namespaces) = (access.clone(), Arc::clone(&self.limit), namespaces());
            async move { ask(&access, &limit, namespaces).await.ok() }
        })
        .await
    }
}

/// Returns true if a reader may see a namespace.
///
/// # Errors
///
/// If the API server gives no answer.
pub(super) async fn may_see(access: &Access, namespace: &str) -> Result<bool, Unanswered> {
    access.may_list(GROUP, RESOURCE, Some(namespace)).await
}

/// Returns true if a reader may see all namespaces.
///
/// # Errors
///
/// If the API server gives no answer.
pub(super) async fn may_see_all(access: &Access) -> Result<bool, Unanswered> {
    access.may_list(GROUP, RESOURCE, None).await
}

/// Asks whether a reader may see all namespaces, and if not, asks about each. This stops at the
/// first question without an answer.
///
/// # Errors
///
/// If there is no answer about all namespaces.
async fn ask(access: &Access, limit: &TokenBucket, namespaces: Vec<Text>) -> Result<Visible, Unanswered> {
    if may_see_all(access).await? {
        return Ok(Visible::All);
    }
    let one = |namespace: Text| async move {
        tokio::time::sleep(limit.reserve()).await;
        let answer = may_see(access, &namespace).await;
        (namespace, answer)
    };
    let mut answers = std::pin::pin!(stream::iter(namespaces).map(one).buffered(AT_ONCE));
    let (mut shown, mut hidden) = (BTreeSet::new(), BTreeSet::new());
    while let Some((namespace, Ok(allowed))) = answers.next().await {
        if allowed { &mut shown } else { &mut hidden }.insert(namespace);
    }
    Ok(Visible::Some { shown, hidden })
}

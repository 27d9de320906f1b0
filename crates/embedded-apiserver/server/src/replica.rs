//! Several API servers before one store.

use std::sync::Arc;

use tokio::time::Instant;

use crate::handle::EmbeddedApiServer;
use crate::server::Inner;
use crate::service::ApiService;
use crate::watch_cache::{Lag, WatchCaches};

/// One of several API servers before one store. Its watch caches may lag, each by its own time.
///
/// As upstream's contract says, writes, gets without a version and lists without a version are
/// consistent on each of them, and lists of an exact version and the pages of a list do not depend
/// on the cache. Watches, and lists and gets of version 0 show what the cache has read. If a
/// request needs a later version than that (a list or get of this version or a later one, a watch
/// that begins with the current state), it waits for three seconds; then the answer is
/// `504 Timeout`, `Too large resource version`. A watch from a later version sends nothing before
/// the cache has passed it.
///
/// ```
/// # use std::time::Duration;
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube::api::{Api, ListParams};
/// # use kube::Client;
/// # use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Lag};
/// # use serde_json::json;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = EmbeddedApiServer::builder().build()?;
/// let server = store.replica(1);
/// server.add_lag(Lag { plural: Some("pods"), time: Duration::from_secs(60), bunched: false });
/// store.load([json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": {"containers": []}})])?;
/// let pods: Api<Pod> = Api::default_namespaced(Client::new(server.service(), "default"));
/// let cached = ListParams::default().match_any();
/// assert_eq!((pods.list(&cached).await?.items.len(), pods.list(&ListParams::default()).await?.items.len()), (0, 1));
/// tokio::time::sleep(Duration::from_secs(60)).await;
/// assert_eq!(pods.list(&cached).await?.items.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
    number: usize,
    caches: WatchCaches,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Replica").field("number", &self.number).finish_non_exhaustive()
    }
}

impl EmbeddedApiServer {
    /// Adds another API server before the store of this one. Its requests have this number in
    /// [`RequestInfo::replica`](crate::RequestInfo::replica), so that faults can select them.
    pub fn replica(&self, number: usize) -> Replica {
        let caches = WatchCaches::default();
        self.inner.store.lock().add_caches(caches.clone());
        Replica { inner: self.inner.clone(), number, caches }
    }
}

impl Replica {
    /// Returns the server as a tower service.
    pub fn service(&self) -> ApiService {
        ApiService::of_replica(self.inner.clone(), self.number, self.caches.clone())
    }

    /// Fills the watch caches anew, as a restart does: a watch from an earlier version gets
    /// `410 Expired`. Open watches stay; [`EmbeddedApiServer::break_watches`] ends them.
    pub fn restart(&self) {
        self.caches.fill(self.inner.store.lock().version());
    }

    /// Makes later changes reach the watch caches late. Returns the id of the lag.
    pub fn add_lag(&self, lag: Lag) -> usize {
        self.caches.add(lag)
    }

    /// Ends a lag. The changes that it has delayed still arrive late, and in order. Returns the
    /// number of these changes.
    pub fn remove_lag(&self, id: usize) -> usize {
        self.caches.remove(id)
    }

    /// Returns the time at which the watch caches have read all changes so far, or `None` if no
    /// change is late.
    pub fn catches_up_at(&self) -> Option<Instant> {
        self.caches.last_arrival()
    }
}

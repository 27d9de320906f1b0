//! What one holds of a server: to put clients on it, to look into it, to disturb it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::resource;
use serde_json::Value;

use crate::builder::Builder;
use crate::faults::{FaultId, FaultRule};
use crate::listener::{ListenError, ListenOptions, Listener};
use crate::load::LoadError;
use crate::request_log::LoggedRequest;
use crate::server::{Inner, key_of};
use crate::service::ApiService;
use crate::store::Store;

/// An API server in this process. Clones are handles of the same server; it is gone when the last handle, service and
/// open watch are.
#[derive(Clone)]
pub struct EmbeddedApiServer {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for EmbeddedApiServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EmbeddedApiServer")
            .field("version", &self.resource_version())
            .finish_non_exhaustive()
    }
}

impl EmbeddedApiServer {
    /// A builder with the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The server as a tower service, on which a `kube::Client` sits without any socket:
    /// `Client::new(server.service(), "default")`.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.inner.clone(), None)
    }

    /// Serves HTTP/1.1 and HTTP/2 without TLS on a loopback address; port 0 picks a free one.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listener, ListenError> {
        self.listen_with(address, ListenOptions::default()).await
    }

    /// [`Self::listen`] with options.
    pub async fn listen_with(
        &self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<Listener, ListenError> {
        Listener::bind(self.inner.clone(), address, options).await
    }

    /// A kubeconfig for kubectl and other clients of a listener, as YAML. Where the server knows tokens, the first of
    /// them is in it.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let token = match self.inner.reviews.tokens.keys().next() {
            Some(token) => format!("{{token: {}}}", Value::from(token.as_str())),
            None => "{}".to_owned(),
        };
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: embedded\n  cluster: {{server: \"http://{address}\"}}\n\
             users:\n- name: embedded\n  user: {token}\ncontexts:\n- name: embedded\n  context: {{cluster: embedded, \
             user: embedded, namespace: default}}\ncurrent-context: embedded\n"
        )
    }

    /// Loads objects as they stand: uids, owners, times, statuses and managedFields are kept, and so is the order of
    /// their resource versions, though not the versions themselves. What has no uid, time or namespace gets one;
    /// namespaces that are missing are made. Objects that are there already are replaced. Watchers see it happen.
    /// Defaults are filled in, as a server does with what it reads from its store, so that a client which writes an
    /// object back as it read it changes nothing.
    ///
    /// A parsed object takes several times the memory of its text, so large clusters are best loaded in batches of
    /// some thousand objects. Nothing is validated, and the garbage collector does not look at owners that are missing.
    pub fn load(&self, objects: impl IntoIterator<Item = Value>) -> Result<usize, LoadError> {
        self.inner.load(objects.into_iter().collect(), false)
    }

    /// The latest resource version.
    pub fn resource_version(&self) -> u64 {
        self.inner.store.lock().version()
    }

    /// The server's time.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// One object, past the protocol, the log and the faults. `plural` is the resource's name; for what lives in no
    /// namespace `namespace` is not looked at.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = resource::all().find(|r| r.plural == plural && r.is_stored())?;
        Some(self.inner.current(resource, &key_of(resource, namespace, name))?.value())
    }

    /// All objects of a resource, in the order of their keys, past the protocol, the log and the faults.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let Some(resource) = resource::all().find(|r| r.plural == plural && r.is_stored()) else {
            return Vec::new();
        };
        let objects = self.inner.store.lock().table(Store::table_of(resource)).objects.clone();
        objects.cursor("", "").map(|object| object.value()).collect()
    }

    /// How many objects of a resource there are.
    pub fn count(&self, plural: &str) -> usize {
        let resource = resource::all().find(|r| r.plural == plural && r.is_stored());
        resource.map_or(0, |r| self.inner.store.lock().table(Store::table_of(r)).objects.len())
    }

    /// Ends all open watches, as a restart of the server would.
    pub fn close_watches(&self) {
        self.inner.watch_epoch.send_modify(|epoch| *epoch += 1);
    }

    /// Forgets the history of all resources, as compaction does: watches that are behind, and reads of older states,
    /// get `410 Expired`.
    pub fn compact(&self) {
        self.inner.store.lock().compact();
    }

    /// Puts a fault in force.
    pub fn add_fault(&self, rule: FaultRule) -> FaultId {
        self.inner.faults.add(rule)
    }

    /// Takes a fault out of force; says whether it was there.
    pub fn remove_fault(&self, id: FaultId) -> bool {
        self.inner.faults.remove(id)
    }

    /// Takes all faults out of force.
    pub fn clear_faults(&self) {
        self.inner.faults.clear();
    }

    /// The latest requests, oldest first.
    pub fn request_log(&self) -> Vec<LoggedRequest> {
        self.inner.log.all()
    }

    /// How many write requests there were since the start or [`Self::clear_request_log`], by plural resource name,
    /// failed ones included.
    pub fn writes(&self) -> BTreeMap<&'static str, usize> {
        self.inner.log.writes()
    }

    /// Empties the log and its counts.
    pub fn clear_request_log(&self) {
        self.inner.log.clear();
    }
}

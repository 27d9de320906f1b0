//! The handle of a server: connects clients, inspects the store, injects faults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base64::prelude::{BASE64_STANDARD, Engine};
use jiff::Timestamp;
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use serde_json::{Value, json};

use crate::builder::Builder;
use crate::faults::{FaultId, FaultRule};
use crate::listener::{ListenError, ListenOptions, Listener};
use crate::load::LoadError;
use crate::request::RequestInfo;
use crate::request_log::LoggedRequest;
use crate::restore::Checkpoint;
use crate::server::{Inner, key_of};
use crate::service::ApiService;
use crate::store::Store;
use crate::watches::Ending;

/// The token of the kubeconfig of a server that checks none.
const ANY_TOKEN: &str = "unchecked";

/// An API server in this process. Clones are handles of the same server, which lives until its last
/// handle, service and open watch are dropped.
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
    /// Returns a builder with the defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the server as a tower service, which a `kube::Client` can use without a socket:
    /// `Client::new(server.service(), "default")`.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.inner.clone(), None)
    }

    /// Serves HTTP/1.1 and HTTP/2 without TLS on a loopback address; port 0 picks a free one.
    /// [`Self::listen_with`] can add TLS.
    ///
    /// So that no web page in a browser can use the server, it refuses requests with an `Origin` or
    /// with a `Host` other than a loopback address or `localhost` (403), and bodies without a known
    /// content type (415). [`Builder::require_token`] keeps other users and programs of the machine
    /// out, too.
    pub async fn listen(&self, address: SocketAddr) -> Result<Listener, ListenError> {
        self.listen_with(address, ListenOptions::default()).await
    }

    /// As [`Self::listen`], with options.
    pub async fn listen_with(
        &self,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<Listener, ListenError> {
        Listener::bind(self.inner.clone(), address, options).await
    }

    /// Returns a kubeconfig for clients of a listener, as YAML. It contains the certificate of the
    /// listener's CA, if there is one, and the first of the server's tokens, or one that nobody
    /// checks. kubectl and client-go do not send a token without TLS.
    pub fn kubeconfig_of(&self, listener: &Listener) -> String {
        self.kubeconfig_with(&format!("{{{}}}", of_cluster(listener)))
    }

    /// As [`Self::kubeconfig_of`], with an extension of the cluster. kubectl keeps it when it edits
    /// or merges kubeconfigs.
    pub fn kubeconfig_with_extension(&self, listener: &Listener, name: &str, extension: &Value) -> String {
        let extension = json!([{"name": name, "extension": extension}]);
        self.kubeconfig_with(&format!("{{{}, extensions: {extension}}}", of_cluster(listener)))
    }

    /// As [`Self::kubeconfig_of`], for a listener without TLS on an address.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        self.kubeconfig_with(&format!("{{server: \"http://{address}\"}}"))
    }

    fn kubeconfig_with(&self, cluster: &str) -> String {
        // Without credentials kubectl asks for a user name. A server without tokens checks none.
        let token = self.inner.reviews.tokens.keys().next().map_or(ANY_TOKEN, String::as_str);
        let token = format!("{{token: {}}}", Value::from(token));
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: embedded\n  cluster: {cluster}\n\
             users:\n- name: embedded\n  user: {token}\ncontexts:\n- name: embedded\n  context: {{cluster: embedded, \
             user: embedded, namespace: default}}\ncurrent-context: embedded\n"
        )
    }

    /// Loads objects unchanged: they keep uids, owners, times, statuses and managedFields, and the
    /// order of their resource versions, though not the versions themselves. Objects without uid,
    /// creation time or namespace get them. This creates missing namespaces and replaces existing
    /// objects. Watchers see the changes. It sets defaults, as a server does when it reads from its
    /// store, so a client that writes an object back unchanged causes no change.
    ///
    /// A parsed object takes several times the memory of its text, so load large clusters in
    /// batches of some thousand objects. This validates nothing, and the garbage collector ignores
    /// missing owners.
    pub fn load(&self, objects: impl IntoIterator<Item = Value>) -> Result<usize, LoadError> {
        self.inner.load(objects.into_iter().collect(), false)
    }

    /// Returns the latest resource version.
    pub fn resource_version(&self) -> u64 {
        self.inner.store.lock().version()
    }

    /// Returns the server's time.
    pub fn now(&self) -> Timestamp {
        self.inner.now()
    }

    /// Sets the server's time forward or, if `seconds` is negative, back, as when an administrator
    /// corrects the clock of its host. Timers do not change.
    pub fn jump_clock(&self, seconds: i64) {
        self.inner.clock_jump.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Returns one object, read from the store without a request. `plural` is the resource's name.
    /// This ignores `namespace` for cluster-scoped resources.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = stored_resource(plural)?;
        Some(self.inner.current(resource, &key_of(resource, namespace, name))?.value())
    }

    /// Returns all objects of a resource in the order of their keys, read from the store without a
    /// request.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        let Some(resource) = stored_resource(plural) else { return Vec::new() };
        let objects = self.inner.store.lock().table(Store::table_of(resource)).objects.clone();
        objects.cursor("", "").map(|object| object.value()).collect()
    }

    /// Returns the number of objects of a resource.
    pub fn count(&self, plural: &str) -> usize {
        stored_resource(plural).map_or(0, |r| self.inner.store.lock().table(Store::table_of(r)).objects.len())
    }

    /// Stops serving an API group, such as `discovery.k8s.io`, as a server that does not have it:
    /// requests below `/apis/GROUP` get 404. The server keeps the objects.
    pub fn hide_group(&self, group: &str) {
        self.inner.hidden_groups.lock().insert(group.to_owned());
    }

    /// Serves a hidden API group again.
    pub fn show_group(&self, group: &str) {
        self.inner.hidden_groups.lock().remove(group);
    }

    /// Ends all open watches, as a restart of the server does.
    pub fn close_watches(&self) {
        self.inner.watches.end(Ending::Closed, |_| true);
    }

    /// Breaks the connections of the open watches that `matcher` selects. Returns their number.
    pub fn break_watches(&self, matcher: impl Fn(&RequestInfo) -> bool) -> usize {
        self.inner.watches.end(Ending::Broken, matcher)
    }

    /// Makes the open watches that `matcher` selects silent, as when the peer is gone and sends no
    /// RST: nothing arrives on them any more, and they do not end. Returns their number.
    pub fn silence_watches(&self, matcher: impl Fn(&RequestInfo) -> bool) -> usize {
        self.inner.watches.end(Ending::Silent, matcher)
    }

    /// Returns the requests of the open watches, in the order in which they were opened, without
    /// silent ones.
    pub fn open_watches(&self) -> Vec<RequestInfo> {
        self.inner.watches.requests()
    }

    /// Returns a copy of all objects and of the resource version, for [`Self::restore`]. It shares
    /// memory with the server.
    pub fn checkpoint(&self) -> Checkpoint {
        self.inner.checkpoint()
    }

    /// Sets the running server back to a checkpoint, as when an administrator restores etcd from a
    /// backup: the objects are those of that time, and resource versions continue from the version
    /// of that time, so that the server gives later versions to other objects. There is no history,
    /// and the connections of all watches break. The clock goes on.
    ///
    /// Clients have seen versions that the server has not reached. As on the real server, a watch
    /// from such a version opens and sends nothing, not even bookmarks, until the server has passed
    /// that version, and a list or get at such a version gets `504 Timeout`,
    /// `Too large resource version`.
    pub fn restore(&self, checkpoint: &Checkpoint) {
        self.inner.restore(checkpoint);
    }

    /// Drops the history of all resources, as compaction does: watches that lag behind and reads of
    /// older states get `410 Expired`.
    pub fn compact(&self) {
        self.inner.store.lock().compact();
    }

    /// Adds a fault.
    pub fn add_fault(&self, rule: FaultRule) -> FaultId {
        self.inner.faults.add(rule)
    }

    /// Removes a fault. Returns true if it existed.
    pub fn remove_fault(&self, id: FaultId) -> bool {
        self.inner.faults.remove(id)
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.inner.faults.clear();
    }

    /// Returns the latest requests, oldest first.
    pub fn request_log(&self) -> Vec<LoggedRequest> {
        self.inner.log.all()
    }

    /// Returns the number of write requests since the start or [`Self::clear_request_log`], by
    /// plural resource name, including failed ones.
    pub fn writes(&self) -> BTreeMap<&'static str, usize> {
        self.inner.log.writes()
    }

    /// Empties the log and its counts.
    pub fn clear_request_log(&self) {
        self.inner.log.clear();
    }
}

/// Returns the fields of a kubeconfig's cluster for a listener.
fn of_cluster(listener: &Listener) -> String {
    let ca = listener.certificate_authority().map_or_else(String::new, |ca| {
        format!(", certificate-authority-data: {}", BASE64_STANDARD.encode(ca))
    });
    format!("server: \"{}\"{ca}", listener.url())
}

/// Returns the resource of a plural name, if the server stores its objects.
fn stored_resource(plural: &str) -> Option<&'static Resource> {
    resource::all().find(|resource| resource.plural == plural && resource.is_stored())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_can_be_set_back_and_goes_on_from_there() {
        let start = "2026-01-02T03:04:05Z".parse().unwrap();
        let server = EmbeddedApiServer::builder().start_time(start).build().unwrap();
        server.jump_clock(-3600);
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        assert_eq!(server.now().to_string(), "2026-01-02T02:05:05Z");
    }
}

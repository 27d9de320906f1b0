//! A server with managers on it, and the steps of histories that concern them.

mod candidates;
mod changes;
mod connection;
mod faults;
mod injection;
mod managers;
mod request_faults;
mod servers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::{SignedDuration, Timestamp};
use kube_endpoint_embedded_apiserver::{Builder, Checkpoint, EmbeddedApiServer, FaultId};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::history::{Fault, Setup};
use crate::watcher::SharedWatcher;
use candidates::Candidates;
pub(crate) use candidates::RENEWAL;
pub(crate) use changes::path_of;
pub(crate) use connection::{FIELD_MANAGER, UPSTREAM};
pub(crate) use managers::Managers;

const START: &str = "2026-01-01T00:00:00Z";
/// The namespace of the Lease of the managers.
pub(crate) const MANAGERS: &str = "kube-system";
/// The user agent of changes; requests of managers have others.
const USER: &str = "user";
/// The holder to which [`Cluster::give_lease_away`] gives the Lease.
pub(crate) const GIVEN_AWAY: &str = "another";

/// A server and the managers that run on it. Dropping it aborts them.
pub(crate) struct Cluster {
    pub(crate) server: EmbeddedApiServer,
    pub(crate) managers: Arc<Managers>,
    pub(crate) watcher: SharedWatcher,
    pub(crate) setup: Setup,
    /// The faults that have not ended, by number.
    faults: BTreeMap<usize, ActiveFault>,
    saved: BTreeMap<usize, Checkpoint>,
    candidates: Candidates,
}

/// A fault that has not ended.
struct ActiveFault {
    fault: Fault,
    rules: Vec<FaultId>,
    hits: Arc<AtomicUsize>,
    began: Instant,
    writer: Option<tokio::task::AbortHandle>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.managers.abort();
        for fault in self.faults.values().filter_map(|fault| fault.writer.as_ref()) {
            fault.abort();
        }
    }
}

pub(crate) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

impl Cluster {
    /// Returns a cluster without managers. The objects are part of its initial state.
    pub(crate) fn new(setup: &Setup, watcher: SharedWatcher, objects: Vec<Value>) -> Self {
        let (changes, requests) = (watcher.clone(), watcher.clone());
        let builder = Self::builder(setup, setup.seed, START.parse().unwrap_or_default());
        let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        let builder = builder
            .load([team])
            .load(objects)
            .on_change(move |change| changes.lock().change(change))
            .on_request(move |request| requests.lock().request(request));
        let server = match builder.build() {
            Ok(server) => server,
            Err(error) => panic!("the server cannot hold the initial objects: {error}"),
        };
        let managers = Managers::new(server.clone(), setup.clone(), watcher.clone());
        let (faults, saved, candidates) = Default::default();
        Self { server, managers, watcher, setup: setup.clone(), faults, saved, candidates }
    }

    /// Returns a server without objects.
    fn builder(setup: &Setup, seed: u64, now: Timestamp) -> Builder {
        EmbeddedApiServer::builder()
            .seed(seed)
            .start_time(now)
            .bookmark_interval(setup.bookmark_interval())
            .gc_delay(Duration::from_millis(setup.collected_after.into()))
            .request_log_bytes(0)
            .track_managers()
    }

    /// Returns a server with the same objects and versions, which goes its own way from now on. No
    /// rule looks at its changes; its requests count.
    fn fork(&self, number: u8, hits: Arc<AtomicUsize>) -> EmbeddedApiServer {
        let requests = self.watcher.clone();
        let builder =
            Self::builder(&self.setup, self.setup.seed ^ u64::from(number) << 32, self.server.now());
        let builder = builder.on_request(move |request| {
            hits.fetch_add(1, Ordering::Relaxed);
            let mut watcher = requests.lock();
            // The other servers have made no change for this request.
            watcher.settle_pending(None);
            watcher.request(request);
        });
        match builder.build() {
            Ok(other) => {
                other.restore(&self.server.checkpoint());
                other
            }
            Err(error) => panic!("no other server: {error}"),
        }
    }

    /// Sends a request of a user. Returns the status. The server refuses invalid requests, which is
    /// part of the simulation.
    pub(crate) async fn send(server: &EmbeddedApiServer, method: &str, path: &str, body: &Value) -> u16 {
        Self::send_as(USER, server, method, path, body).await
    }

    /// As [`Self::send`], for another client than a user.
    async fn send_as(
        client: &str,
        server: &EmbeddedApiServer,
        method: &str,
        path: &str,
        body: &Value,
    ) -> u16 {
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).header("user-agent", client);
        let Ok(request) = request.body(Full::new(bytes::Bytes::from(body))) else { return 0 };
        match server.service().oneshot(request).await {
            Ok(answer) => {
                let status = answer.status().as_u16();
                // As a client does, this reads the body.
                let _ = answer.into_body().collect().await;
                status
            }
            Err(_) => 0,
        }
    }

    /// Returns true if the Lease of the managers exists.
    pub(crate) fn has_lease(&self) -> bool {
        self.server.get("leases", MANAGERS, "kube-endpoint-manager").is_some()
    }

    /// Deletes the Lease, or removes its holder. Returns true if there was a Lease.
    pub(crate) async fn edit_lease(&self, delete: bool) -> bool {
        let exists = self.has_lease();
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-endpoint-manager";
        if delete {
            Self::delete(&self.server, path).await;
        } else {
            Self::send(&self.server, "PATCH", path, &json!({"spec": {"holderIdentity": ""}})).await;
        }
        exists
    }

    /// Gives the Lease to another process, which does not renew it. Nothing else runs meanwhile.
    pub(crate) fn give_lease_away(&self, seconds: u32) {
        let Some(mut lease) = self.server.get("leases", MANAGERS, "kube-endpoint-manager") else { return };
        let renewed = self.server.now().saturating_add(SignedDuration::from_secs(seconds.into()));
        lease["spec"]["holderIdentity"] = GIVEN_AWAY.into();
        lease["spec"]["renewTime"] = renewed.unwrap_or(self.server.now()).to_string().into();
        if let Err(error) = self.server.load([lease]) {
            panic!("the server cannot hold the Lease: {error}");
        }
    }

    /// Saves the state for [`Self::restore`].
    pub(crate) fn save(&mut self, number: usize) {
        self.saved.insert(number, self.server.checkpoint());
    }

    /// Sets the server back.
    pub(crate) fn restore(&mut self, number: usize) {
        if let Some(checkpoint) = self.saved.remove(&number) {
            self.server.restore(&checkpoint);
            self.watcher.lock().restored(&self.server);
        }
    }
}

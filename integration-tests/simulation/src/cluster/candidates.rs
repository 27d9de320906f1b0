//! The pods that hold Leases: they acquire, renew, release, and die.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::{Cluster, text};
use crate::history::Identity;
use crate::objects::{lease_name, namespace};

/// The time between two renewals.
pub(crate) const RENEWAL: Duration = Duration::from_secs(2);

/// The holders of Leases that live, by the number of the Lease.
#[derive(Default)]
pub(super) struct Candidates(Mutex<BTreeMap<u8, Candidate>>);

/// A pod that renews a Lease.
pub(super) struct Candidate {
    pub(super) pod: u8,
    /// The seconds by which its clock, and that of its node, is ahead.
    pub(super) skew: i64,
    renewing: AbortHandle,
}

impl Drop for Candidates {
    fn drop(&mut self) {
        self.0.lock().values().for_each(|it| it.renewing.abort());
    }
}

impl Candidates {
    /// Ends the holder of a Lease, and annotates the Lease, so that the step shows.
    pub(super) fn die(&self, lease: u8, server: &EmbeddedApiServer) -> Option<Candidate> {
        let ended = self.end(lease)?;
        if let Some(mut object) = server.get("leases", namespace(lease), &lease_name(lease)) {
            object["metadata"]["annotations"] = json!({"sim.example/holder": "dead"});
            load(server, object);
        }
        Some(ended)
    }

    fn end(&self, lease: u8) -> Option<Candidate> {
        let ended = self.0.lock().remove(&lease)?;
        ended.renewing.abort();
        Some(ended)
    }

    fn begin(&self, lease: u8, candidate: Candidate) {
        if let Some(before) = self.0.lock().insert(lease, candidate) {
            before.renewing.abort();
        }
    }
}

/// Returns the identity with which a pod elects.
fn identity_of(server: &EmbeddedApiServer, pod: u8, identity: Identity) -> String {
    let name = format!("p{pod}");
    let object = server.get("pods", namespace(pod), &name).unwrap_or_default();
    match identity {
        Identity::Name => format!("{name}_6bb9"),
        Identity::Uid => format!("candidate/{}", text(&object, "/metadata/uid")),
        Identity::Address => format!("{}:8443", text(&object, "/status/podIP")),
        Identity::Nobody => format!("the-{name}-of-nobody"),
        Identity::TwoPods => format!("{name},p{}", pod.wrapping_add(4)),
    }
}

fn load(server: &EmbeddedApiServer, lease: Value) {
    if let Err(error) = server.load([lease]) {
        panic!("the server cannot hold the Lease: {error}");
    }
}

/// Writes the record of a Lease as client-go does. A holder that is already there renews.
fn write(server: &EmbeddedApiServer, lease: u8, identity: &str, duration: u16, skew: i64) {
    let now = server.now().saturating_add(SignedDuration::from_secs(skew)).unwrap_or(server.now());
    let now = now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let metadata = json!({"name": lease_name(lease), "namespace": namespace(lease)});
    let before = server.get("leases", namespace(lease), &lease_name(lease));
    let before = before.unwrap_or_else(|| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": {"leaseTransitions": 0},
        })
    });
    let mut object = before.clone();
    object["spec"]["holderIdentity"] = identity.into();
    object["spec"]["leaseDurationSeconds"] = duration.into();
    object["spec"]["renewTime"] = now.clone().into();
    if text(&before, "/spec/holderIdentity") != identity {
        object["spec"]["acquireTime"] = now.into();
        let transitions = before["spec"]["leaseTransitions"].as_u64().unwrap_or_default();
        object["spec"]["leaseTransitions"] = (transitions + 1).into();
    }
    load(server, object);
}

impl Cluster {
    /// Lets a pod acquire a Lease and renew it.
    pub(super) fn lead(&self, lease: u8, pod: u8, identity: Identity, duration: u16, skew: i64) {
        let server = self.server.clone();
        let identity = identity_of(&server, pod, identity);
        write(&server, lease, &identity, duration, skew);
        let renewing = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                write(&server, lease, &identity, duration, skew);
            }
        });
        self.candidates.begin(lease, Candidate { pod, skew, renewing: renewing.abort_handle() });
    }

    /// Lets the holder of a Lease release it, as client-go does.
    pub(super) fn release(&self, lease: u8) {
        self.candidates.end(lease);
        if self.server.get("leases", namespace(lease), &lease_name(lease)).is_some() {
            write(&self.server, lease, "", 1, 0);
        }
    }
}

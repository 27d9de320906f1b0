//! The Leases of leader elections.

use std::time::Duration;

use kube_endpoint_core_model::maker::KUBE_ENDPOINT_MANAGER;
use kube_endpoint_core_model::{ObjectKey, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::facts::json::each;

/// The name of the Lease of kube-controller-manager.
pub(crate) const UPSTREAM_LEASE: &str = "kube-controller-manager";

pub(crate) const SYSTEM: &str = "kube-system";

/// The beginning of the names of the Leases of kube-endpoint-manager; those of a part of the
/// cluster have a suffix.
pub const MANAGER_LEASE: &str = "kube-endpoint-manager";

/// The name of the Lease of the add-on, as `deploy/overlays/addon` has it.
pub const ADDON_LEASE: &str = "kube-endpoint-manager-addon";

/// A Lease that lasts longer is a reservation, not that of a program.
pub(crate) const RESERVATION_SECONDS: i64 = 3600;

/// Clocks differ, and the last writes of the controller before may be late.
pub(crate) const SLACK: Duration = Duration::from_secs(60);

/// A Lease of a leader election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub key: ObjectKey,
    pub holder: String,
    /// The program that wrote it last: its field manager. Empty if the Lease does not tell.
    pub program: String,
    pub duration_seconds: i64,
    pub acquired: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawLease {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
}

impl Lease {
    /// Reads a Lease. Fields that it does not have are empty.
    pub fn read(lease: &Value) -> Self {
        let raw = RawLease::deserialize(&lease["spec"]).unwrap_or_default();
        let time = |text: Option<String>| text.and_then(|text| text.parse().ok());
        let entries = each(&lease["metadata"]["managedFields"]);
        // Seconds of UTC in RFC 3339 compare as texts.
        let newest = entries.max_by_key(|entry| entry["time"].as_str().unwrap_or_default());
        let program = newest.and_then(|entry| entry["manager"].as_str()).unwrap_or_default();
        Self {
            key: key_of(&lease["metadata"]),
            program: program.to_owned(),
            holder: raw.holder_identity.unwrap_or_default(),
            duration_seconds: raw.lease_duration_seconds.unwrap_or_default(),
            acquired: time(raw.acquire_time),
            renewed: time(raw.renew_time),
        }
    }
}

/// The state of a Lease, by the clock of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaseState {
    /// A leader renews it.
    Held,
    /// Its holder has not renewed it in time.
    Expired,
    /// It has no holder.
    Released,
    /// It is reserved for a hand-over: replicas wait.
    Reserved,
}

impl Lease {
    pub(crate) fn is_upstreams(&self) -> bool {
        *self.key.name == *UPSTREAM_LEASE && *self.key.namespace == *SYSTEM
    }

    pub(crate) fn is_managers(&self) -> bool {
        self.key.name.starts_with(MANAGER_LEASE)
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.duration_seconds.try_into().unwrap_or_default())
    }

    /// Returns when it expires, or has expired, unless somebody renews it.
    pub(crate) fn ends(&self) -> Option<Timestamp> {
        self.renewed.map(|renewed| renewed.saturating_add(self.duration()).unwrap_or(renewed))
    }

    pub(crate) fn state(&self, now: Timestamp) -> LeaseState {
        let duration = self.duration();
        if self.holder.is_empty() {
            LeaseState::Released
        } else if self.duration_seconds >= RESERVATION_SECONDS {
            LeaseState::Reserved
        } else if self.renewed.is_some_and(|renewed| is_within(duration + SLACK, renewed, now)) {
            LeaseState::Held
        } else {
            LeaseState::Expired
        }
    }

    /// Returns true if another program holds it: kube-controller-manager campaigns for the Lease of
    /// kube-endpoint-manager in a hand-over.
    pub(crate) fn is_held_by_other_program(&self) -> bool {
        !self.program.is_empty() && self.program != KUBE_ENDPOINT_MANAGER
    }
}

/// Returns true if `later` is less than `span` after `earlier`.
pub(crate) fn is_within(span: Duration, earlier: Timestamp, later: Timestamp) -> bool {
    earlier.saturating_add(span).is_ok_and(|end| later < end)
}

/// Returns namespace and name of an object, by its metadata or a reference to it.
pub(crate) fn key_of(metadata: &Value) -> ObjectKey {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

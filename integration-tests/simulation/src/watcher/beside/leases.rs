//! A model of the Leases: who has held each of them, from when, and until when, by the clock of the
//! server.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

use super::objects::Pod;
use crate::cluster::{RENEWAL, text};

/// The duration of a record that names none.
const DEFAULT: u64 = 15;
/// The longest duration of a record.
const LONGEST: u64 = 600;
/// So many tenures of a Lease are kept.
const MOST: usize = 32;

/// A time in which one holder renewed a Lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tenure {
    /// The identity of the holder, or empty for nobody.
    pub(super) holder: String,
    /// When it got the Lease, or came back.
    pub(super) from: Duration,
    /// When it last renewed.
    pub(super) last: Duration,
    pub(super) duration: Duration,
}

impl Tenure {
    /// Returns the time at which it expires.
    pub(super) fn end(&self) -> Duration {
        if self.holder.is_empty() { self.from } else { self.last + self.duration }
    }

    /// Returns false if the container of a pod has restarted since the last renewal: its new
    /// process does not lead. Returns `None` if a controller may not know: the kubelet writes whole
    /// seconds, and a renewal may come between a restart and its event.
    pub(super) fn is_of(&self, pod: &Pod) -> Option<bool> {
        match pod.restarted {
            Some(at) if self.last.as_secs() < at.as_secs() => Some(false),
            Some(at) if self.last < at + RENEWAL => None,
            _ => Some(true),
        }
    }
}

/// The fields of a record.
type Record = (String, u64, String, String, u64);

#[derive(Debug, Default)]
struct Lease {
    record: Option<Record>,
    tenures: VecDeque<Tenure>,
}

/// The Leases that are not those of the managers, by namespace and name.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: BTreeMap<String, Lease>,
    /// The time of the present checks.
    pub(super) now: Duration,
}

impl Leases {
    /// Takes a version of a Lease.
    pub(super) fn apply(&mut self, at: Duration, key: &str, lease: &Value) {
        let time = |field: &str| text(lease, &format!("/spec/{field}")).to_owned();
        let number = |field: &str| lease["spec"][field].as_u64();
        let duration = number("leaseDurationSeconds").unwrap_or(DEFAULT).min(LONGEST);
        let transitions = number("leaseTransitions").unwrap_or_default();
        let record = (time("holderIdentity"), duration, time("renewTime"), time("acquireTime"), transitions);
        let known = self.leases.entry(key.to_owned()).or_default();
        if known.record.as_ref() == Some(&record) {
            return;
        }
        let (holder, duration) = (record.0.clone(), Duration::from_secs(duration));
        known.record = Some(record);
        match known.tenures.front_mut() {
            Some(tenure) if tenure.holder == holder && at < tenure.end() => {
                (tenure.last, tenure.duration) = (at, duration);
            }
            _ => {
                known.tenures.push_front(Tenure { holder, from: at, last: at, duration });
                known.tenures.truncate(MOST);
            }
        }
    }

    /// Returns the tenures of a Lease, newest first.
    pub(super) fn tenures(&self, key: &str) -> impl Iterator<Item = &Tenure> {
        self.leases.get(key).into_iter().flat_map(|lease| &lease.tenures)
    }

    /// Returns the last tenure if it has not expired.
    pub(super) fn living(&self, key: &str, at: Duration) -> Option<&Tenure> {
        self.tenures(key).next().filter(|tenure| at < tenure.end())
    }
}

/// Returns true if an identity names a pod. `key` has its namespace and name.
pub(super) fn names(identity: &str, key: &str, pod: &Pod) -> bool {
    let name = key.split_once('/').map_or(key, |(_, name)| name);
    let parts = identity.split(|it: char| "_/:,@".contains(it) || it.is_whitespace());
    parts.filter(|part| !part.is_empty()).any(|part| {
        part == name || part == pod.uid || !pod.has_ended && pod.addresses.iter().any(|it| it == part)
    })
}

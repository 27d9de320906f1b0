//! Keeps the edits of slices by other clients than managers. No process can know of an edit before
//! its cache shows it, so these slices and their endpoints are exempt from the rules about constant
//! states, until a manager has nothing left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::world::Slice;

/// How long writes of older plans may be under way after a process has read everything.
const MARGIN: Duration = Duration::from_secs(60);

/// Edits of the slices of one Service.
#[derive(Debug, Default)]
struct Edited {
    last: Duration,
    /// The slices, by namespace and name.
    slices: BTreeSet<String>,
    /// The addresses in these slices before and after the edits.
    addresses: BTreeSet<String>,
}

/// Edits that managers may not have seen, by Service.
#[derive(Debug, Default)]
pub(super) struct Edits(BTreeMap<String, Edited>);

impl Edits {
    /// Records that another client than a manager has written a slice.
    pub(super) fn add(&mut self, at: Duration, key: &str, states: [Option<&Slice>; 2]) {
        for slice in states.into_iter().flatten() {
            let edited = self.0.entry(slice.service.clone()).or_default();
            edited.last = at;
            edited.slices.insert(key.to_owned());
            edited.addresses.extend(slice.endpoints.iter().map(|endpoint| endpoint.address.clone()));
        }
    }

    /// Returns true if there is an edit of this slice of a Service.
    pub(super) fn has_slice(&self, service: &str, key: &str) -> bool {
        self.0.get(service).is_some_and(|edited| edited.slices.contains(key))
    }

    /// Returns true if an address of a Service is, or was, in an edited slice.
    pub(super) fn has_address(&self, service: &str, address: &str) -> bool {
        self.0.get(service).is_some_and(|edited| edited.addresses.contains(address))
    }

    /// Returns true if there is an edit of a Service's slices after a time.
    pub(super) fn is_after(&self, service: &str, time: Duration) -> bool {
        self.0.get(service).is_some_and(|edited| edited.last > time)
    }

    /// Notes that a manager has nothing left to do about the edits.
    pub(super) fn settle(&mut self, at: Duration) {
        self.0.retain(|_, edited| at < edited.last + MARGIN);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edited_slices_and_their_addresses_are_known_until_a_manager_is_idle() {
        let slice = |address: &str| {
            Slice::of(&json!({
                "metadata": {"namespace": "n", "labels": {"kubernetes.io/service-name": "s"}},
                "endpoints": [{"addresses": [address]}],
            }))
        };
        let (before, after) = (slice("10.0.0.1"), slice("10.0.0.2"));
        let mut edits = Edits::default();
        edits.add(Duration::from_secs(5), "n/one", [Some(&before), Some(&after)]);
        assert!(edits.has_address("n/s", "10.0.0.1") && edits.has_address("n/s", "10.0.0.2"));
        assert!(!edits.has_address("n/s", "10.0.0.3") && !edits.has_address("n/t", "10.0.0.1"));
        assert!(edits.has_slice("n/s", "n/one") && !edits.has_slice("n/s", "n/two"));
        assert!(
            edits.is_after("n/s", Duration::from_secs(4)) && !edits.is_after("n/s", Duration::from_secs(5))
        );
        edits.settle(Duration::from_secs(64));
        assert!(edits.has_slice("n/s", "n/one"), "writes may be under way");
        edits.settle(Duration::from_secs(65));
        assert!(!edits.has_slice("n/s", "n/one"));
    }
}

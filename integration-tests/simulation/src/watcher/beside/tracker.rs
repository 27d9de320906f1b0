//! A model of the trackers in kube-controller-manager: each remembers the slices that it has
//! written by their uid, and forgets one only when its watch reports a deletion. While one of them
//! is missing among the slices with its label, each sync of the Service fails, until
//! kube-controller-manager restarts.

use std::collections::BTreeMap;

use super::objects::Slice;

/// The slices that kube-controller-manager expects in its list, by uid, with their manager.
#[derive(Debug, Default)]
pub(super) struct Tracker(BTreeMap<String, String>);

impl Tracker {
    /// Notes a change of a slice. `tracks` is true if kube-controller-manager made it.
    ///
    /// # Errors
    ///
    /// If a tracked slice still exists and is no longer in the list.
    pub(super) fn changed(
        &mut self,
        before: Option<&Slice>,
        after: Option<&Slice>,
        tracks: bool,
    ) -> Result<(), String> {
        let Some(after) = after else {
            if let Some(before) = before {
                self.0.remove(&before.uid);
            }
            return Ok(());
        };
        if tracks {
            self.0.insert(after.uid.clone(), after.managed_by.clone());
        }
        match self.0.get(&after.uid) {
            Some(manager) if *manager != after.managed_by => {
                Err(format!("{manager} waits for a slice that {:?} manages now", after.managed_by))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(manager: &str) -> Slice {
        Slice::of(&json!({
            "metadata": {"uid": "u", "labels": {"endpointslice.kubernetes.io/managed-by": manager}},
        }))
    }

    #[test]
    fn a_tracked_slice_leaves_the_list_by_deletion_only() {
        let (own, other) = (slice("kcm"), slice("other"));
        let mut tracker = Tracker::default();
        assert!(tracker.changed(None, Some(&other), false).is_ok());
        assert!(tracker.changed(Some(&other), Some(&own), true).is_ok());
        assert!(tracker.changed(Some(&own), Some(&own), false).is_ok());
        assert!(tracker.changed(Some(&own), Some(&other), false).is_err());
        assert!(tracker.changed(Some(&own), None, false).is_ok());
        assert!(tracker.changed(None, Some(&other), false).is_ok(), "it has been deleted");
    }
}

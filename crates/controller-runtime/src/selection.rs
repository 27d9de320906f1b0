//! Selects the Services that a controller syncs, by a label selector.
//!
//! The selector limits the syncs, never the lists. The controller leaves the outputs of a Service
//! outside the selection as they are: another process syncs it. It deletes nothing because a
//! Service is not selected.
//!
//! The outputs of a deleted Service belong to the process that selected its last labels. A process
//! that began later did not see the Service, so it reads the labels of the outputs: the controllers
//! copy a Service's labels to its Endpoints and slices. Since all processes decide from the same
//! labels, and each label set is in one selection, one process cleans up.

use ahash::HashMap;
use kube_endpoint_core_model::{LabelSelector, ObjectKey, Service, StringMap};
use parking_lot::Mutex;

/// The selection of a controller.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// `None` selects all Services.
    pub(crate) selector: Option<LabelSelector>,
    /// Deleted Services that left outputs or Endpoints; true for those whose last labels were
    /// selected.
    pub(crate) deleted: Mutex<HashMap<ObjectKey, bool>>,
}

/// The effect of a change of a Service on the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// The Service is selected, or was until its deletion.
    Selected,
    /// The Service existed, and is selected only since the change.
    Joined,
    /// The Service exists, and was selected only before the change.
    Left,
    /// The Service was not selected before, and is not selected now.
    Outside,
}

impl Selection {
    pub(crate) fn new(selector: Option<LabelSelector>) -> Self {
        let selector = selector.filter(|selector| !selector.is_everything());
        Self { selector, deleted: Mutex::default() }
    }

    pub(crate) fn selects(&self, labels: &StringMap) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    pub(crate) fn membership(&self, old: Option<&Service>, new: Option<&Service>) -> Membership {
        let selects = |service: &Service| self.selects(&service.labels);
        match (old.map(selects), new.map(selects)) {
            (Some(false), Some(true)) => Membership::Joined,
            (_, Some(true)) | (Some(true), None) => Membership::Selected,
            (Some(true), Some(false)) => Membership::Left,
            _ => Membership::Outside,
        }
    }

    /// Returns the number of deleted Services that left outputs or Endpoints.
    pub(crate) fn len(&self) -> usize {
        self.deleted.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_decide_who_syncs_a_service() {
        let selection = Selection::new(Some("shard=a".parse().unwrap()));
        let service =
            |shard: &str| Service { labels: [("shard", shard)].into_iter().collect(), ..Service::default() };
        let check = |old: Option<&str>, new: Option<&str>, want: Membership| {
            let (old_service, new_service) = (old.map(service), new.map(service));
            assert_eq!(
                selection.membership(old_service.as_ref(), new_service.as_ref()),
                want,
                "{old:?} {new:?}"
            );
        };
        check(None, Some("a"), Membership::Selected);
        check(None, Some("b"), Membership::Outside);
        check(Some("a"), Some("a"), Membership::Selected);
        check(Some("b"), Some("a"), Membership::Joined);
        check(Some("a"), Some("b"), Membership::Left);
        check(Some("b"), Some("c"), Membership::Outside);
        check(Some("a"), None, Membership::Selected);
        check(Some("b"), None, Membership::Outside);
    }

    #[test]
    fn a_selector_without_requirements_selects_everything() {
        let everything = Selection::new(Some("".parse().unwrap()));
        assert!(everything.selector.is_none() && everything.selects(&StringMap::default()));
    }
}

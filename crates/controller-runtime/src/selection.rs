//! Which keys are synced: those of the Services that a label selector selects.
//!
//! The selector limits what is synced, never what is listed. The outputs of a Service outside the
//! selection are left as they are: another process syncs it. Nothing is deleted because a Service
//! is not selected.
//!
//! The outputs of a deleted Service belong to the process that selected its last labels. A process
//! that has not looked at the Service, because it began later, goes by the labels of the outputs:
//! the controllers copy a Service's labels to its Endpoints and slices. As each process asks the
//! same labels, and each label set is in one of the selections, one process cleans up.

use std::time::Duration;

use ahash::HashMap;
use kube_endpoint_core_model::{LabelSelector, ObjectKey, Service, StringMap};
use kube_endpoint_informer::Change;
use kube_endpoint_workqueue::Reason;
use parking_lot::Mutex;

use crate::log_lines::Line;
use crate::{Cause, Output, Reconciler, Runtime};

/// The selection of a controller.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// None selects all Services.
    selector: Option<LabelSelector>,
    /// Deleted Services of which outputs or Endpoints are left, and whether the last labels of each
    /// were selected.
    deleted: Mutex<HashMap<ObjectKey, bool>>,
}

/// What a change of a Service means for the selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    /// It is selected, or was when it was deleted.
    Selected,
    /// It is selected now and was not before.
    Joined,
    /// It was selected before and is not any more.
    Left,
    /// It is not selected, and was not before.
    Outside,
}

impl Selection {
    pub(crate) fn new(selector: Option<LabelSelector>) -> Self {
        let selector = selector.filter(|selector| !selector.is_everything());
        Self { selector, deleted: Mutex::default() }
    }

    fn selects(&self, labels: &StringMap) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    fn membership(&self, old: Option<&Service>, new: Option<&Service>) -> Membership {
        let selects = |service: &Service| self.selects(&service.labels);
        match (old.map(selects), new.map(selects)) {
            (Some(false), Some(true)) => Membership::Joined,
            (_, Some(true)) | (Some(true), None) => Membership::Selected,
            (Some(true), Some(false)) => Membership::Left,
            _ => Membership::Outside,
        }
    }

    /// The number of deleted Services of which something is left.
    pub(crate) fn len(&self) -> usize {
        self.deleted.lock().len()
    }
}

impl<R: Reconciler> Runtime<R> {
    /// Starts the sync of a key, unless its Service is outside the selection.
    pub fn add(&self, key: ObjectKey, reason: impl Into<Reason>) {
        if self.is_selected(&key) {
            self.queue.add_for(key, reason);
        }
    }

    /// As [`Self::add`], after a delay in which more may come.
    pub fn add_after(&self, key: ObjectKey, delay: Duration, reason: impl Into<Reason>) {
        if self.is_selected(&key) {
            self.queue.add_after_for(key, delay, reason);
        }
    }

    /// Returns true if a key may be synced: its Service is selected, or does not exist, which
    /// [`Self::owns_leftover`] is about.
    pub fn is_selected(&self, key: &ObjectKey) -> bool {
        self.selection.selector.is_none()
            || self.cluster().service(key).is_none_or(|service| self.selection.selects(&service.labels))
    }

    /// Returns true if this process cleans up what is left of a Service that does not exist.
    /// `labels` are those of what is left.
    pub fn owns_leftover(&self, key: &ObjectKey, labels: &StringMap) -> bool {
        if self.selection.selector.is_none() {
            return true;
        }
        let known = self.selection.deleted.lock().get(key).copied();
        known.unwrap_or_else(|| self.selection.selects(labels))
    }

    /// Passes the change of a Service on to the reconciler if it is selected.
    pub(crate) fn service_changed(&self, change: &Change<Service>) {
        let Some(latest) = change.latest() else { return };
        if self.selection.selector.is_none() {
            return self.reconciler.on_service(self, change);
        }
        let key = &latest.key;
        let membership = self.selection.membership(change.old.as_deref(), change.new.as_deref());
        if change.new.is_some() {
            self.selection.deleted.lock().remove(key);
        } else if self.has_leftovers(key) {
            self.selection.deleted.lock().insert(key.clone(), membership == Membership::Selected);
        }
        match membership {
            Membership::Outside => {}
            Membership::Selected => self.reconciler.on_service(self, change),
            // Also when it left: what is kept for it is dropped by a worker, never during a sync.
            Membership::Joined | Membership::Left => {
                if let Some(left_out) = self.admits(Line::Selection) {
                    tracing::info!(
                        queue = self.queue.name(), service = %key, ?membership, left_out,
                        "the labels of a Service have changed, and whether it is selected"
                    );
                }
                self.queue.add_for(key.clone(), Cause::Service.since(change.arrived));
            }
        }
    }

    /// Forgets a deleted Service when nothing is left of it.
    pub(crate) fn leftover_deleted(&self, key: &ObjectKey) {
        if self.selection.selector.is_some() && !self.has_leftovers(key) {
            self.selection.deleted.lock().remove(key);
        }
    }

    fn has_leftovers(&self, key: &ObjectKey) -> bool {
        self.cluster().endpoints(key).is_some() || !R::Output::of_owner(self.cluster(), key).is_empty()
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

//! The garbage collector: deletes objects whose owners were deleted, and completes foreground
//! deletion and orphaning.
//!
//! Like the real one it runs a moment after the change that causes it. It knows only owners of
//! kinds that this server stores; a reference to another kind, such as a pod's to its ReplicaSet,
//! counts as an existing owner.

use std::sync::Arc;

use kube_endpoint_apiserver_rules::resource::{NAMESPACES, Resource};
use serde_json::Value;

use crate::metadata::{FOREGROUND, ORPHAN, list, set, set_list};
use crate::server::Inner;
use crate::store::{Place, Stored, owner_is_served, resource_of_table};
use crate::verbs::{DeleteOptions, Propagation};

fn has_finalizer(object: &Value, name: &str) -> bool {
    list(object, "finalizers").iter().any(|finalizer| finalizer == name)
}

fn uid_of(reference: &Value) -> &str {
    reference["uid"].as_str().unwrap_or_default()
}

impl Inner {
    /// Schedules the check of an object whose owner does not exist.
    pub(crate) fn collect_later(&self, place: Place) {
        if self.settings.collects_garbage {
            self.later(self.settings.gc_delay, move |inner| inner.collect(&place));
        }
    }

    /// Schedules the check of the dependents of a removed object and of its owners that wait for
    /// it.
    pub(crate) fn owner_removed_later(&self, gone: &Arc<Stored>) {
        if !self.settings.collects_garbage {
            return;
        }
        let (has_dependents, waiting) = {
            let store = self.store.lock();
            let waiting =
                gone.meta.owners.iter().any(|uid| store.by_uid(uid).is_some_and(|o| o.meta.deleting));
            (!store.dependents_of(&gone.meta.uid).is_empty(), waiting)
        };
        if has_dependents || waiting {
            let gone = gone.clone();
            self.later(self.settings.gc_delay, move |inner| {
                let dependents = inner.store.lock().dependents_of(&gone.meta.uid);
                dependents.iter().for_each(|place| inner.collect(place));
                gone.meta.owners.iter().for_each(|uid| inner.release(uid));
            });
        }
    }

    /// Reacts to an object that a write has marked for deletion and not yet removed.
    pub(crate) fn deletion_marked(&self, resource: &Resource, stored: &Stored) {
        if *resource == NAMESPACES {
            self.enqueue_namespace(&stored.key);
        }
        self.tell_kubelet(resource, &stored.key);
        if self.settings.collects_garbage {
            let uid = stored.meta.uid.clone();
            self.later(self.settings.gc_delay, move |inner| inner.release(&uid));
        }
    }

    fn at(&self, place: &Place) -> Option<(&'static Resource, Arc<Stored>)> {
        let stored = self.store.lock().table(place.0).objects.get(&place.1).cloned()?;
        Some((resource_of_table(place.0), stored))
    }

    /// Deletes an object if all of its owners are gone. If some exist, removes the references to
    /// the others.
    fn collect(&self, place: &Place) {
        let Some((resource, stored)) = self.at(place) else { return };
        let object = stored.value();
        let is_there = |reference: &Value| {
            !owner_is_served(reference) || self.store.lock().by_uid(uid_of(reference)).is_some()
        };
        let (solid, dangling): (Vec<Value>, Vec<Value>) =
            list(&object, "ownerReferences").into_iter().partition(is_there);
        if dangling.is_empty() {
            return;
        }
        let lost = if solid.is_empty() {
            let options =
                DeleteOptions { uid: Some(stored.meta.uid.to_string()), ..DeleteOptions::default() };
            self.delete(resource, &place.1, &options, false).is_err_and(|status| status.code != 404)
        } else {
            let mut object = object;
            set(&mut object, "ownerReferences", solid);
            self.commit(resource, &place.1, Some(stored.version), &object).is_err()
        };
        if lost {
            self.collect_later(place.clone());
        }
    }

    /// Continues the deletion of an owner that waits for its dependents.
    fn release(&self, uid: &str) {
        let Some(place) = self.store.lock().place_of(uid).cloned() else { return };
        let Some((_, stored)) = self.at(&place).filter(|(_, stored)| stored.meta.deleting) else { return };
        let object = stored.value();
        if has_finalizer(&object, ORPHAN) {
            let dependents = self.store.lock().dependents_of(uid);
            dependents.iter().for_each(|dependent| self.forget_owner(dependent, uid));
            self.drop_finalizer(&place, ORPHAN);
        } else if has_finalizer(&object, FOREGROUND) {
            // This deletes all dependents; the owner waits only for those that block it.
            let dependents = self.store.lock().dependents_of(uid);
            for dependent in &dependents {
                self.delete_with_owner(dependent, uid);
            }
            if !dependents.iter().any(|dependent| self.blocks(dependent, uid)) {
                self.drop_finalizer(&place, FOREGROUND);
            }
        }
    }

    /// Deletes a dependent of an owner that is being deleted in the foreground. A dependent with
    /// another owner stays and loses its reference to this one.
    fn delete_with_owner(&self, dependent: &Place, owner: &str) {
        let Some((resource, stored)) = self.at(dependent).filter(|(_, stored)| !stored.meta.deleting) else {
            return;
        };
        let has_other = list(&stored.value(), "ownerReferences").iter().any(|other| {
            uid_of(other) != owner
                && (!owner_is_served(other)
                    || self.store.lock().by_uid(uid_of(other)).is_some_and(|found| !found.meta.deleting))
        });
        if has_other {
            return self.forget_owner(dependent, owner);
        }
        let has_own = !self.store.lock().dependents_of(&stored.meta.uid).is_empty();
        let propagation = has_own.then_some(Propagation::Foreground);
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        // A failure needs no retry: the removal of the dependent causes another check of the owner.
        let _ = self.delete(resource, &dependent.1, &options, false);
    }

    fn blocks(&self, dependent: &Place, owner: &str) -> bool {
        self.at(dependent).is_some_and(|(_, stored)| {
            let references = list(&stored.value(), "ownerReferences");
            references.iter().any(|r| uid_of(r) == owner && r["blockOwnerDeletion"] == true)
        })
    }

    fn forget_owner(&self, dependent: &Place, owner: &str) {
        while let Some((resource, stored)) = self.at(dependent) {
            let mut object = stored.value();
            let mut references = list(&object, "ownerReferences");
            let before = references.len();
            references.retain(|reference| uid_of(reference) != owner);
            if references.len() == before {
                return;
            }
            set_list(&mut object, "ownerReferences", references);
            if self.commit(resource, &dependent.1, Some(stored.version), &object).is_ok() {
                return;
            }
        }
    }

    /// Removes a finalizer, and the object if it was the last one.
    fn drop_finalizer(&self, place: &Place, finalizer: &str) {
        while let Some((resource, stored)) = self.at(place) {
            let mut object = stored.value();
            let mut finalizers = list(&object, "finalizers");
            finalizers.retain(|name| name != finalizer);
            let still_runs =
                object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
            let has_others = set_list(&mut object, "finalizers", finalizers);
            let held = has_others || still_runs || *resource == NAMESPACES;
            let done = if held {
                self.commit(resource, &place.1, Some(stored.version), &object).is_ok()
            } else {
                self.erase(resource, &place.1, stored.version).is_ok()
            };
            if done {
                if *resource == NAMESPACES {
                    self.enqueue_namespace(&place.1);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_apiserver_rules::resource::PODS;
    use serde_json::json;

    use crate::EmbeddedApiServer;
    use crate::store::Store;

    #[test]
    fn a_reference_that_is_gone_is_not_removed_again() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "owner"}]}});
        let server = EmbeddedApiServer::builder().without_garbage_collector().load([pod]).build().unwrap();
        let place = (Store::table_of(&PODS), "default/p".into());
        let version = server.resource_version();
        server.inner.forget_owner(&place, "other");
        assert_eq!(server.resource_version(), version);
        server.inner.forget_owner(&place, "owner");
        assert_eq!(server.resource_version(), version + 1);
        server.inner.forget_owner(&place, "owner");
        assert_eq!(server.resource_version(), version + 1);
    }
}

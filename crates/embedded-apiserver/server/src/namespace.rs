//! Namespaces: the admission plugin NamespaceLifecycle, and the namespace controller, which empties
//! a deleted namespace: its pods first, then other objects, then the namespace itself.

use std::collections::BTreeMap;

use kube_endpoint_apiserver_rules::resource::{self, NAMESPACES, PODS, Resource};
use kube_endpoint_apiserver_rules::status::{Cause, Status};
use serde_json::{Value, json};

use crate::clock::rfc3339;
use crate::metadata::{is_empty, text};
use crate::server::Inner;
use crate::store::Store;
use crate::verbs::DeleteOptions;

/// Returns the namespaced resources in their stored version, pods first.
fn contents() -> impl Iterator<Item = &'static Resource> {
    let kept = |resource: &&'static Resource| resource.namespaced && resource.is_stored();
    let all = || resource::all().filter(kept);
    all().filter(|r| **r == PODS).chain(all().filter(|r| **r != PODS))
}

impl Inner {
    /// Rejects the creation of an object in a namespace that is missing or terminating, as
    /// upstream's admission plugin NamespaceLifecycle does.
    pub(crate) fn check_namespace_accepts(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Value,
    ) -> Result<(), Status> {
        if !resource.namespaced {
            return Ok(());
        }
        let Some(found) = self.current(&NAMESPACES, namespace) else {
            return Err(Status::not_found(&NAMESPACES, namespace));
        };
        if !found.meta.deleting {
            return Ok(());
        }
        let name = text(object, "name");
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(resource, name, &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
        }
        Err(status)
    }

    /// Reacts to the removal of an object: if its namespace is terminating, this may have been the
    /// last object.
    pub(crate) fn namespace_content_removed(&self, namespace: &str) {
        if namespace.is_empty() {
            return;
        }
        if self.current(&NAMESPACES, namespace).is_some_and(|found| found.meta.deleting) {
            self.enqueue_namespace(namespace);
        }
    }

    /// Enqueues a terminating namespace for the namespace controller.
    pub(crate) fn enqueue_namespace(&self, namespace: &str) {
        if self.queued_namespaces.lock().insert(namespace.to_owned()) {
            let namespace = namespace.to_owned();
            self.later(self.settings.gc_delay, move |inner| {
                inner.queued_namespaces.lock().remove(&namespace);
                inner.sync_namespace(&namespace);
            });
        }
    }

    fn sync_namespace(&self, namespace: &str) {
        let prefix = format!("{namespace}/");
        let keys = |resource: &Resource| -> Vec<Box<str>> {
            let objects = self.store.lock().table(Store::table_of(resource)).objects.clone();
            objects.cursor(&prefix, &prefix).map(|object| object.key.clone()).collect()
        };
        let mut remaining = Vec::new();
        for resource in contents() {
            for key in keys(resource) {
                let deleted = self.delete(resource, &key, &DeleteOptions::default(), false);
                if deleted.is_err_and(|status| status.code == 409) {
                    self.enqueue_namespace(namespace);
                }
            }
            let kept = keys(resource);
            if !kept.is_empty() {
                remaining.push((resource, kept));
            }
            if !remaining.is_empty() && *resource == PODS {
                // Kubelets remove pods with a grace period; the controller deletes other objects
                // after them.
                break;
            }
        }
        self.set_conditions(namespace, &remaining);
        if remaining.is_empty() {
            self.finalize(namespace);
        }
    }

    /// Sets the conditions of a terminating namespace, which tell what its deletion waits for,
    /// after upstream's `deletion/status_condition_utils.go`.
    fn set_conditions(&self, namespace: &str, remaining: &[(&Resource, Vec<Box<str>>)]) {
        let Some(current) = self.current(&NAMESPACES, namespace).filter(|found| found.meta.deleting) else {
            return;
        };
        let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
        for (resource, keys) in remaining {
            for object in keys.iter().filter_map(|key| self.current(resource, key)) {
                for finalizer in object.value()["metadata"]["finalizers"].as_array().into_iter().flatten() {
                    *finalizers.entry(finalizer.as_str().unwrap_or_default().to_owned()).or_default() += 1;
                }
            }
        }
        let content = remaining.iter().map(|(resource, keys)| {
            format!("{}.{} has {} resource instances", resource.plural, resource.group, keys.len())
        });
        let held = finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
        let (content, held): (Vec<String>, Vec<String>) = (content.collect(), held.collect());
        let condition = |kind: &str, list: &[String], good: [&str; 2], bad: [&str; 2]| match list {
            [] => json!({"type": kind, "status": "False", "reason": good[0], "message": good[1]}),
            list => {
                let message = format!("{}: {}", bad[1], list.join(", "));
                json!({"type": kind, "status": "True", "reason": bad[0], "message": message})
            }
        };
        let none = ["", ""];
        let conditions = [
            condition(
                "NamespaceDeletionDiscoveryFailure",
                &[],
                ["ResourcesDiscovered", "All resources successfully discovered"],
                none,
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                &[],
                ["ParsedGroupVersions", "All legacy kube types successfully parsed"],
                none,
            ),
            condition(
                "NamespaceDeletionContentFailure",
                &[],
                ["ContentDeleted", "All content successfully deleted, may be waiting on finalization"],
                none,
            ),
            condition(
                "NamespaceContentRemaining",
                &content,
                ["ContentRemoved", "All content successfully removed"],
                ["SomeResourcesRemain", "Some resources are remaining"],
            ),
            condition(
                "NamespaceFinalizersRemaining",
                &held,
                ["ContentHasNoFinalizers", "All content-preserving finalizers finished"],
                ["SomeFinalizersRemain", "Some content in the namespace has finalizers remaining"],
            ),
        ];
        let mut object = current.value();
        let now = rfc3339(self.now());
        let mut all: Vec<Value> = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        for mut condition in conditions {
            let known = all.iter_mut().find(|known| known["type"] == condition["type"]);
            let is_same = |known: &&mut Value| {
                ["status", "reason", "message"].iter().all(|field| known[*field] == condition[*field])
            };
            if known.as_ref().is_some_and(is_same) {
                continue;
            }
            condition["lastTransitionTime"] = now.as_str().into();
            match known {
                Some(known) => *known = condition,
                None => all.push(condition),
            }
        }
        if object["status"]["conditions"].as_array() == Some(&all) {
            return;
        }
        object["status"]["conditions"] = all.into();
        if self.commit(&NAMESPACES, namespace, Some(current.version), &object).is_err() {
            self.enqueue_namespace(namespace);
        }
    }

    /// Removes the namespace controller's finalizer and, if there are no other finalizers, the
    /// namespace.
    fn finalize(&self, namespace: &str) {
        let Some(current) = self.current(&NAMESPACES, namespace).filter(|found| found.meta.deleting) else {
            return;
        };
        let mut object = current.value();
        let lost = if is_empty(&object["metadata"]["finalizers"]) {
            self.erase(&NAMESPACES, namespace, current.version).is_err()
        } else if let Some(spec) = object["spec"].as_object_mut()
            && spec.remove("finalizers").is_some()
        {
            self.commit(&NAMESPACES, namespace, Some(current.version), &object).is_err()
        } else {
            false
        };
        if lost {
            self.enqueue_namespace(namespace);
        }
    }
}

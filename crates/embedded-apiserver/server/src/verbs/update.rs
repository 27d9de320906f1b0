//! `update`, and the part of `patch` after computing the new object: optimistic concurrency,
//! preconditions, no-ops, and the removal of an object after its last finalizer.

use kube_endpoint_apiserver_rules::kubelet;
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy::{self, Subresource};
use kube_endpoint_apiserver_rules::{Errors, Path};
use serde_json::{Value, json};

use super::create::check_namespace;
use super::{Call, Done, Outcome};
use crate::answer::Answer;
use crate::faults::Fault;
use crate::managers;
use crate::metadata::{is_empty, set, text, unset};
use crate::server::{Inner, key_of};
use crate::store::Stored;

/// The maximum number of attempts of a write without a resource version if others write
/// concurrently, as upstream.
const ATTEMPTS: usize = 5;

pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The target and the options of an update.
pub(crate) struct Update<'a> {
    pub(crate) resource: &'static Resource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) subresource: Subresource,
    pub(crate) dry_run: bool,
    /// True if the update creates an object that does not exist.
    pub(crate) may_create: bool,
    /// The field manager; see [`Call::manager`].
    pub(crate) manager: &'a str,
    /// True if a uid in the new object is a precondition, which the server checks before everything
    /// else.
    pub(crate) uid_is_precondition: bool,
}

/// Rejects an object whose name is not the one in the path.
pub(super) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match text(object, "name") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given if given != name => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

/// Returns the subresource in the path, which is no other than `status`.
pub(super) fn subresource(call: &Call<'_>) -> Subresource {
    if call.info.subresource.is_empty() { Subresource::None } else { Subresource::Status }
}

impl Inner {
    /// Handles a PUT request.
    pub(crate) fn put(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let subresource = subresource(call);
        let dry_run = call.query.write_options("UpdateOptions")?;
        let mut object = call.decode(call.body()?)?;
        let name = &call.info.name;
        check_namespace(call.resource, &call.info.namespace, &mut object)?;
        check_name(&object, name)?;
        let manager = call.manager();
        let update = Update {
            resource: call.resource,
            manager: &manager,
            namespace: &call.info.namespace,
            name,
            subresource,
            dry_run,
            may_create: subresource == Subresource::None && strategy::allow_create_on_update(call.resource),
            uid_is_precondition: true,
        };
        let undone = call.faults.contains(&Fault::UndoUpdate);
        let make = |current: Option<&Value>| match current {
            Some(current) if undone => Ok(preconditions_only(current, &object)),
            _ => Ok(object.clone()),
        };
        Ok(call.done(self.update(&update, make)?))
    }

    /// Replaces an object by the result of `make` for its current state.
    pub(crate) fn update(
        &self,
        update: &Update<'_>,
        make: impl Fn(Option<&Value>) -> Result<Value, Status>,
    ) -> Result<Done, Status> {
        let Update { resource, namespace, name, .. } = *update;
        let key = key_of(resource, namespace, name);
        for _ in 0..ATTEMPTS {
            let Some(current) = self.current(resource, &key) else {
                if !update.may_create {
                    return Err(Status::not_found(resource, name));
                }
                let mut object = make(None)?;
                if !text(&object, "uid").is_empty() {
                    let why = format!(
                        "Precondition failed: UID in precondition: {}, UID in object meta: ",
                        text(&object, "uid")
                    );
                    return Err(Status::conflict(resource, name, &why));
                }
                unset(&mut object, "resourceVersion");
                return self.create(resource, namespace, object, update.dry_run, update.manager);
            };
            if let Some(done) = self.replace(update, &key, &current, &make)? {
                return Ok(done);
            }
        }
        Err(Status::conflict(resource, name, MODIFIED))
    }

    /// Makes one attempt. Returns `None` if another request wrote concurrently.
    fn replace(
        &self,
        update: &Update<'_>,
        key: &str,
        current: &Stored,
        make: &impl Fn(Option<&Value>) -> Result<Value, Status>,
    ) -> Result<Option<Done>, Status> {
        let resource = update.resource;
        let old = current.value();
        let mut new = make(Some(&old))?;
        check_version(update, &old, &new)?;
        let uid = text(&new, "uid");
        if update.uid_is_precondition && !uid.is_empty() && uid != text(&old, "uid") {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                text(&old, "uid")
            );
            return Err(Status::conflict(resource, update.name, &why));
        }
        keep_system_fields(resource, &old, &mut new);
        let families = self.settings.families;
        let mut decided = strategy::before_update_with(resource, &old, new, update.subresource, families)?;
        if self.settings.tracks_managers && decided.object != old {
            managers::track(resource, Some(&old), &mut decided.object, update.manager, self.now());
        }
        let mut addresses = (*resource == resource::SERVICES).then(|| self.cluster_ips.lock());
        if let Some(addresses) = &mut addresses {
            if update.dry_run {
                addresses.clone().allocate(Some(&old), &mut decided.object)?;
            } else {
                addresses.allocate(Some(&old), &mut decided.object)?;
            }
        }
        let outcome = if decided.object == old {
            Ok(Outcome::Shown(old.clone()))
        } else if update.dry_run {
            Ok(Outcome::Shown(decided.object.clone()))
        } else if is_finished(&old, &decided.object) {
            if let Some(mut addresses) = addresses.take() {
                // The server removes the object as stored: addresses and ports that this update
                // would have allocated are free again.
                addresses.allocate(Some(&decided.object), &mut old.clone())?;
            }
            self.erase(resource, key, current.version).map(|_| Outcome::Shown(decided.object.clone()))
        } else {
            let kept = decided.object.clone();
            let mut kubelet = self.kubelet_of(resource).filter(|_| kubelet::is_taken_over(&old, &kept));
            let stored = self.commit(resource, key, Some(current.version), &kept);
            if let (Some(kubelet), Ok(_)) = (&mut kubelet, &stored) {
                kubelet.give_up(&kept);
            }
            stored.map(Outcome::Stored)
        };
        if let Some(addresses) = &mut addresses
            && outcome.is_err()
        {
            addresses.allocate(Some(&decided.object), &mut old.clone())?;
        }
        if let Ok(Outcome::Stored(stored)) = &outcome {
            if stored.meta.deleting {
                self.deletion_marked(resource, stored);
            } else if *resource != resource::NODES || kubelet::concerns_pods(&old, &decided.object) {
                self.tell_kubelet(resource, &stored.key);
            }
        }
        Ok(outcome.ok().map(|outcome| Done { outcome, created: false, warnings: decided.warnings }))
    }
}

/// Returns the current object with the uid and the version of an update, for a check of these
/// preconditions.
fn preconditions_only(current: &Value, update: &Value) -> Value {
    let mut object = current.clone();
    for field in ["uid", "resourceVersion"] {
        match text(update, field) {
            "" => unset(&mut object, field),
            value => set(&mut object, field, value),
        }
    }
    object
}

fn check_version(update: &Update<'_>, old: &Value, new: &Value) -> Result<(), Status> {
    match text(new, "resourceVersion") {
        "" | "0" if strategy::allow_unconditional_update(update.resource) => Ok(()),
        "" | "0" => {
            let mut errors = Errors::default();
            errors.invalid(&Path::Root("metadata.resourceVersion"), &0, "must be specified for an update");
            // Upstream names the resource here, not the kind.
            let Resource { group, plural, .. } = update.resource;
            Err(Status::invalid_object(group, plural, update.name, errors))
        }
        version if version == text(old, "resourceVersion") => Ok(()),
        _ => Err(Status::conflict(update.resource, update.name, MODIFIED)),
    }
}

/// Restores fields that a writer may omit and cannot change. managedFields without an entry stand
/// for those of the old object; one empty entry removes them.
fn keep_system_fields(resource: &Resource, old: &Value, new: &mut Value) {
    let kept = &old["metadata"]["managedFields"];
    let given = &new["metadata"]["managedFields"];
    if is_empty(given) && !is_empty(kept) {
        set(new, "managedFields", kept.clone());
    } else if *given == json!([{}]) {
        unset(new, "managedFields");
    }
    let given = !matches!(text(new, "resourceVersion"), "" | "0");
    if given || strategy::allow_unconditional_update(resource) {
        set(new, "resourceVersion", text(old, "resourceVersion"));
    } else {
        unset(new, "resourceVersion");
    }
    for field in ["uid", "creationTimestamp"] {
        if text(new, field).is_empty() && !text(old, field).is_empty() {
            set(new, field, text(old, field));
        }
    }
}

/// Returns true if the server can remove an object that is marked for deletion after an update.
fn is_finished(old: &Value, new: &Value) -> bool {
    !text(old, "deletionTimestamp").is_empty()
        && is_empty(&new["metadata"]["finalizers"])
        && old["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0
        && (new["kind"] != "Namespace" || is_empty(&new["spec"]["finalizers"]))
}

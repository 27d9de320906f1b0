//! `create`: sets names, uids and creation times; the rules crate does the rest.

use http::StatusCode;
use jiff::Timestamp;
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy;
use serde_json::Value;

use super::{Call, Done, Outcome};
use crate::answer::Answer;
use crate::clock::rfc3339;
use crate::managers;
use crate::metadata::{set, text, unset};
use crate::server::{Inner, key_of};

/// The maximum number of attempts at a generated name, as upstream.
const NAME_ATTEMPTS: usize = 8;

impl Inner {
    /// Handles a create request.
    pub(crate) fn post(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let dry_run = call.query.write_options("CreateOptions")?;
        let mut object = call.decode(call.body()?)?;
        if call.resource.is_stored() {
            let (resource, namespace) = (call.resource, &call.info.namespace);
            return Ok(call.done(self.create(resource, namespace, object, dry_run, &call.manager())?));
        }
        check_namespace(call.resource, &call.info.namespace, &mut object)?;
        let mut object = strategy::before_create(call.resource, object)?.object;
        let (spec, user) = (&object["spec"], &call.info.user);
        object["status"] = self.reviews.status(call.resource.kind, spec, user, self.now());
        Ok(call.value(StatusCode::CREATED, object))
    }

    /// Creates a decoded object. If it has no name, this generates one from its generateName.
    pub(crate) fn create(
        &self,
        resource: &'static Resource,
        namespace: &str,
        mut object: Value,
        dry_run: bool,
        manager: &str,
    ) -> Result<Done, Status> {
        check_namespace(resource, namespace, &mut object)?;
        self.check_namespace_accepts(resource, namespace, &object)?;
        if !matches!(text(&object, "resourceVersion"), "" | "0") {
            return Err(Status::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        let base = match (text(&object, "name"), text(&object, "generateName")) {
            ("", base) if !base.is_empty() => Some(base.to_owned()),
            _ => None,
        };
        let mut attempts = if base.is_some() { NAME_ATTEMPTS } else { 1 };
        loop {
            let mut candidate = object.clone();
            if let Some(base) = &base {
                set(&mut candidate, "name", self.random.lock().name(base));
            }
            attempts -= 1;
            match self.create_named(resource, namespace, candidate, dry_run, manager) {
                Err(status) if status.reason == "AlreadyExists" && attempts > 0 => {}
                result => return result,
            }
        }
    }

    fn create_named(
        &self,
        resource: &'static Resource,
        namespace: &str,
        mut object: Value,
        dry_run: bool,
        manager: &str,
    ) -> Result<Done, Status> {
        let now = self.now();
        self.fill_system_fields(&mut object, now);
        let mut decided = strategy::before_create_with(resource, object, self.settings.families)?;
        if self.settings.tracks_managers {
            managers::track(resource, None, &mut decided.object, manager, now);
        }
        let name = text(&decided.object, "name").to_owned();
        let key = key_of(resource, namespace, &name);
        if self.current(resource, &key).is_some() {
            return Err(Status::already_exists(resource, &name));
        }
        let mut addresses = (*resource == resource::SERVICES).then(|| self.cluster_ips.lock());
        if let Some(addresses) = &mut addresses {
            if dry_run {
                addresses.clone().allocate(None, &mut decided.object)?;
            } else {
                addresses.allocate(None, &mut decided.object)?;
            }
        }
        let outcome = if dry_run {
            Ok(Outcome::Shown(decided.object))
        } else {
            let kept = decided.object;
            // The lock keeps others from writing the status before the kubelet knows the pod.
            let mut kubelet = self.kubelet_of(resource);
            let stored = self.commit(resource, &key, None, &kept);
            if let (Some(kubelet), Ok(stored)) = (&mut kubelet, &stored) {
                kubelet.run(stored);
            }
            if let (Err(_), Some(addresses)) = (&stored, &mut addresses) {
                addresses.release(&kept);
            }
            stored.map(Outcome::Stored)
        };
        let outcome = outcome.map_err(|_| Status::already_exists(resource, &name))?;
        if let Outcome::Stored(stored) = &outcome {
            self.tell_kubelet(resource, &stored.key);
        }
        Ok(Done { outcome, created: true, warnings: decided.warnings })
    }

    /// Sets the uid and creation time of a new object, and removes the fields that only the server
    /// may set.
    fn fill_system_fields(&self, object: &mut Value, now: Timestamp) {
        for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            unset(object, field);
        }
        set(object, "uid", self.random.lock().uid());
        set(object, "creationTimestamp", rfc3339(now));
    }
}

/// Sets the namespace of the path, and rejects an object with a different one.
pub(crate) fn check_namespace(
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    if !resource.namespaced {
        unset(object, "namespace");
        return Ok(());
    }
    let given = text(object, "namespace");
    if !given.is_empty() && given != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    set(object, "namespace", namespace);
    Ok(())
}

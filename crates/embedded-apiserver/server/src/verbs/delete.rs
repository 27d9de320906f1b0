//! `delete` and `deletecollection`.

use std::sync::Arc;

use kube_endpoint_apiserver_rules::resource::{ENDPOINTS, NAMESPACES, PODS, Resource, SERVICES};
use kube_endpoint_apiserver_rules::status::{Details, Status};
use serde_json::{Value, json};

use super::deletion::{Decision, DeleteOptions, decide};
use super::update::MODIFIED;
use super::{Call, Outcome, list};
use crate::answer::{self, Answer};
use crate::metadata::text;
use crate::server::{Conflict, Inner};
use crate::store::{Store, Stored};

/// The maximum number of attempts of a deletion if others write concurrently.
const ATTEMPTS: usize = 5;

/// The result of a deletion.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The object as last stored or as marked for deletion.
    pub(crate) outcome: Outcome,
    /// True if the object is removed.
    pub(crate) gone: bool,
}

impl Inner {
    /// Handles a DELETE request of one object.
    pub(crate) fn delete_one(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let (options, dry_run) = DeleteOptions::read(call)?;
        let key = call.key();
        let deleted = self.delete(call.resource, &key, &options, dry_run)?;
        if !deleted.gone && !dry_run {
            call.warnings.lock().extend(self.endless_deletion(call.resource, &key));
        }
        // Upstream returns the object only for these kinds, and for others only while they are not
        // removed.
        let shows_object = !deleted.gone || [&NAMESPACES, &PODS, &SERVICES].contains(&call.resource);
        match deleted.outcome {
            Outcome::Stored(stored) if shows_object => Ok(call.object(http::StatusCode::OK, &stored)),
            Outcome::Shown(value) if shows_object => Ok(call.value(http::StatusCode::OK, value)),
            Outcome::Stored(stored) => Ok(success(call, &stored.value())),
            Outcome::Shown(value) => Ok(success(call, &value)),
        }
    }

    /// Handles a DELETE request of a collection, or of one page of it; the response lists the
    /// deleted objects.
    pub(crate) async fn delete_collection(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let (options, dry_run) = DeleteOptions::read(call)?;
        let (metadata, selected) = match self.page(call).await {
            Ok((metadata, objects)) => (metadata, objects.collect::<Vec<Arc<Stored>>>()),
            Err(refused) => return refused.into_answer(call.form.encoding),
        };
        let mut warning = None;
        for object in &selected {
            match self.delete(call.resource, &object.key, &options, dry_run) {
                Err(status) if status.code != 404 => return Err(status),
                Ok(Deleted { gone: false, .. }) if !dry_run && warning.is_none() => {
                    warning = self.endless_deletion(call.resource, &object.key);
                }
                _ => {}
            }
        }
        call.warnings.lock().extend(warning);
        list::encode(call.resource, call.form, &metadata, selected.into_iter())
    }

    /// Returns a warning if a deletion waits for a pod that the kubelet leaves alone, which a user
    /// would otherwise wait for without a word.
    fn endless_deletion(&self, resource: &Resource, key: &str) -> Option<String> {
        let kubelet = self.kubelet_of(&PODS)?;
        let is_endless = |pod: &Arc<Stored>| {
            !kubelet.runs(&pod.meta.uid)
                && match decide(&PODS, pod.value(), &DeleteOptions::default(), self.now()) {
                    Decision::Pending => true,
                    Decision::Mark(pod) => pod["metadata"]["deletionGracePeriodSeconds"] != 0,
                    Decision::MarkAndRemove(_) | Decision::Remove => false,
                }
        };
        let pod = if *resource == NAMESPACES {
            let prefix = format!("{key}/");
            let mut pods = self.store.lock().table(Store::table_of(&PODS)).objects.cursor(&prefix, &prefix);
            pods.find(is_endless)
        } else {
            self.current(resource, key).filter(|object| *resource == PODS && is_endless(object))
        }?;
        let why = format!(
            "the status of pod {} comes from its file or another writer, so the kubelet does not end its deletion",
            pod.key
        );
        let delete = format!("kubectl -n {} delete", pod.namespace());
        Some(if *resource == NAMESPACES {
            format!(
                "{why}, and the namespace waits for it; {delete} pods --all --grace-period=0 --force removes such pods"
            )
        } else {
            format!("{why}; {delete} pod {} --grace-period=0 --force removes it", pod.name())
        })
    }

    /// Deletes one object, or marks it for deletion.
    pub(crate) fn delete(
        &self,
        resource: &'static Resource,
        key: &str,
        options: &DeleteOptions,
        dry_run: bool,
    ) -> Result<Deleted, Status> {
        let name = key.rsplit('/').next().unwrap_or_default();
        if *resource == NAMESPACES && matches!(name, "default" | "kube-system" | "kube-public") {
            return Err(Status::forbidden(resource, name, "this namespace may not be deleted"));
        }
        for _ in 0..ATTEMPTS {
            let current = self.current(resource, key).ok_or_else(|| Status::not_found(resource, name))?;
            let object = current.value();
            options.check(resource, &object)?;
            let before = object.clone();
            let decision = decide(resource, object, options, self.now());
            let (marked, remove) = match decision {
                Decision::Pending => (None, false),
                // This does not write an object again that is already marked.
                Decision::Mark(object) if object == before => (None, false),
                Decision::Mark(object) => (Some(object), false),
                Decision::MarkAndRemove(object) => (Some(object), true),
                Decision::Remove => (None, true),
            };
            if dry_run {
                let outcome = marked.map_or(Outcome::Stored(current), Outcome::Shown);
                return Ok(Deleted { outcome, gone: remove });
            }
            let mut latest = current;
            if let Some(object) = &marked {
                match self.commit(resource, key, Some(latest.version), object) {
                    Ok(stored) => latest = stored,
                    Err(_) => continue,
                }
            }
            if !remove {
                self.deletion_marked(resource, &latest);
                return Ok(Deleted { outcome: Outcome::Stored(latest), gone: false });
            }
            if let Ok(gone) = self.erase(resource, key, latest.version) {
                return Ok(Deleted { outcome: Outcome::Stored(gone), gone: true });
            }
        }
        Err(Status::conflict(resource, name, MODIFIED))
    }

    /// Removes an object if it is still at version `expected`, and triggers the controllers that
    /// react to it.
    pub(crate) fn erase(
        &self,
        resource: &Resource,
        key: &str,
        expected: u64,
    ) -> Result<Arc<Stored>, Conflict> {
        let table = Store::table_of(resource);
        let gone = {
            let mut store = self.store.lock();
            if store.table(table).objects.get(key).map(|stored| stored.version) != Some(expected) {
                return Err(Conflict);
            }
            store.remove(table, key).ok_or(Conflict)?
        };
        if *resource == SERVICES {
            self.service_removed(&gone);
        }
        self.forget_pod(resource, &gone);
        self.owner_removed_later(&gone);
        self.namespace_content_removed(gone.namespace());
        Ok(gone)
    }

    /// Releases a deleted Service's addresses and deletes the Endpoints of the same name, as
    /// upstream's Service storage does. The garbage collector deletes its EndpointSlices.
    fn service_removed(&self, service: &Stored) {
        self.cluster_ips.lock().release(&service.value());
        while let Some(current) = self.current(&ENDPOINTS, &service.key) {
            let options = DeleteOptions::default();
            if self.delete(&ENDPOINTS, &current.key, &options, false).is_ok() {
                return;
            }
        }
    }
}

/// Returns the Status for the deletion of a removed object.
fn success(call: &Call<'_>, object: &Value) -> Answer {
    let details = Details {
        name: text(object, "name").to_owned(),
        group: call.resource.group.to_owned(),
        kind: call.resource.plural.to_owned(),
        uid: text(object, "uid").to_owned(),
        ..Details::default()
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    answer::object(call.form.encoding, http::StatusCode::OK, &body)
}

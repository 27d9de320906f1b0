//! `cleanup`: finds leftovers, and deletes them with `--yes`.
//!
//! It looks for possible leftovers in lists of metadata, and confirms each by reading its Service
//! and its owners one by one before it reports it; for Endpoints whose Service has no selector any
//! more, it reads all slices of the Service. Before it deletes an object, it reads them once
//! more, and the uid and the version of the object are preconditions: an object that has changed
//! since the list stays.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::anyhow;
use kube::Error;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_core_model::maker::Content;
use kube_endpoint_core_model::well_known::{LABEL_MANAGED_BY, LABEL_SERVICE_NAME};
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, LabelSelector, ObjectKey, Service, StringMap, causes,
};
use kube_endpoint_explain::leftovers::{
    Cleanup, CleanupItem, Judgement, Managed, Outcome, OutputKind, Presence, Reference, Remains,
};
use serde::Deserialize;
use serde_json::Value;

use kube_endpoint_explain_reader::{Reader, Resource};

/// Finds the leftovers of a namespace, or of all namespaces, among the objects whose labels a
/// selector matches. Deletes them if `delete` is true.
///
/// # Errors
///
/// An error if the server refuses to list Services or does not answer, or if the namespace does not
/// exist.
pub(crate) async fn run(
    reader: &Reader,
    namespace: Option<&str>,
    selector: Option<&LabelSelector>,
    delete: bool,
) -> anyhow::Result<Cleanup> {
    let mut found = Cleanup::default();
    let candidates = candidates(reader, namespace, selector, &mut found.not_read).await?;
    for object in candidates {
        let item = |reason: String, outcome, message: String| CleanupItem {
            kind: object.kind,
            object: object.key.clone(),
            uid: object.uid.clone(),
            reason,
            outcome,
            message,
        };
        match confirm(reader, &object).await {
            Judgement::InUse => {}
            Judgement::Kept(why) => found.items.push(item(why, Outcome::Kept, String::new())),
            Judgement::Unchecked(why) => found.items.push(item(why, Outcome::Unchecked, String::new())),
            Judgement::Leftover(reason) if !delete => {
                found.items.push(item(reason.to_string(), Outcome::Found, String::new()));
            }
            Judgement::Leftover(reason) => {
                let (outcome, message) = delete_one(reader, &object).await;
                found.items.push(item(reason.to_string(), outcome, message));
            }
        }
    }
    Ok(found)
}

/// Returns true if a selector matches the labels of an object.
fn is_selected(selector: Option<&LabelSelector>, metadata: &Value) -> bool {
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    selector.is_none_or(|selector| {
        let labels: StringMap =
            metadata["labels"].as_object().into_iter().flatten().filter_map(text).collect();
        selector.matches(&labels)
    })
}

fn kind_of(kind: OutputKind) -> Resource {
    match kind {
        OutputKind::EndpointSlice => Resource::SLICES,
        OutputKind::Endpoints => Resource::ENDPOINTS,
    }
}

/// Returns the objects that are leftovers or not in use by these lists, by namespace, kind and
/// name.
async fn candidates(
    reader: &Reader,
    namespace: Option<&str>,
    selector: Option<&LabelSelector>,
    not_read: &mut Vec<String>,
) -> anyhow::Result<Vec<Managed>> {
    let mut managed = Vec::new();
    let mut uids: HashMap<Reference, String> = HashMap::new();
    let managers = format!("{LABEL_MANAGED_BY} in ({})", Content::Slice.managers().join(","));
    // Services come last, so that a slice whose Service is younger than the list of slices is no
    // leftover.
    let mut endpoints_known = true;
    for kind in [Resource::SLICES, Resource::ENDPOINTS] {
        let (output, params) = match kind {
            Resource::SLICES => (OutputKind::EndpointSlice, ListParams::default().labels(&managers)),
            _ => (OutputKind::Endpoints, ListParams::default()),
        };
        let add = |(managed, uids): &mut (Vec<Managed>, Vec<(Reference, String)>), metadata: Value| {
            if is_selected(selector, &metadata) {
                managed.extend(Managed::read(output, &metadata)?);
            }
            if kind == Resource::ENDPOINTS {
                let (key, uid) = identity(&metadata);
                uids.push((Reference { is_service: false, key }, uid));
            }
            Ok(())
        };
        match reader.list_metadata(kind, namespace, params, add).await? {
            Ok((found, of_kind)) => {
                managed.extend(found);
                uids.extend(of_kind);
            }
            Err(note) => {
                endpoints_known &= kind != Resource::ENDPOINTS;
                not_read.push(format!("{note} They are not cleaned up."));
            }
        }
    }
    // The metadata does not tell if a Service has a selector.
    let add = |(services, without_selector): &mut (Vec<(Reference, String)>, HashSet<ObjectKey>),
               object: Value| {
        let (key, uid) = identity(&object["metadata"]);
        if Service::deserialize(&object)?.selector.is_none() {
            without_selector.insert(key.clone());
        }
        services.push((Reference { is_service: true, key }, uid));
        Ok(())
    };
    let read = reader.list_objects(Resource::SERVICES, namespace, ListParams::default(), add).await?;
    let (services, without_selector) =
        read.map_err(|note| anyhow!("without Services nothing can be said. {note}"))?;
    uids.extend(services);
    if let Some(namespace) = namespace.filter(|_| managed.is_empty() && uids.is_empty()) {
        reader.check_namespace(namespace).await?;
    }
    let look = |reference: &Reference| match uids.get(reference) {
        Some(uid) => Presence::Present(uid.as_str().into()),
        None if reference.is_service || endpoints_known => Presence::Absent,
        None => Presence::Unknown(String::new()),
    };
    managed.retain(|object| {
        object.judge(look) != Judgement::InUse
            || object.is_made_from_pods()
                && object.service_key().is_some_and(|service| without_selector.contains(&service))
    });
    managed.sort_by(|one, two| {
        (&one.key.namespace, one.kind, &one.key.name).cmp(&(&two.key.namespace, two.kind, &two.key.name))
    });
    Ok(managed)
}

/// Returns the key and the uid of an object.
fn identity(metadata: &Value) -> (ObjectKey, String) {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    (ObjectKey::new(text("namespace"), text("name")), text("uid"))
}

/// Reads the objects on which the decision depends, and judges the object.
async fn confirm(reader: &Reader, object: &Managed) -> Judgement {
    let mut found: HashMap<Reference, Presence> = HashMap::new();
    for reference in object.references() {
        let kind = if reference.is_service { Resource::SERVICES } else { Resource::ENDPOINTS };
        let presence = match reader.uid(kind, &reference.key).await {
            Ok(Some(uid)) => Presence::Present(uid.into()),
            Ok(None) => Presence::Absent,
            Err(error) => Presence::Unknown(why_request_failed(&error)),
        };
        found.insert(reference, presence);
    }
    let judgement = object.judge(|reference| {
        found.get(reference).cloned().unwrap_or_else(|| Presence::Unknown("it was not read".to_owned()))
    });
    if judgement != Judgement::InUse || !object.is_made_from_pods() {
        return judgement;
    }
    let Some(service) = object.service_key() else { return judgement };
    match remains(reader, &service).await {
        Ok(Some(remains)) => object.judge_without_selector(remains),
        Ok(None) => Judgement::InUse,
        Err(error) => Judgement::Unchecked(format!(
            "whether clients need {} cannot be found out: {}",
            object.kind.pronoun(),
            causes(&*error)
        )),
    }
}

/// Reads what controllers left for a Service. Returns `None` if it has a selector, or does not
/// exist any more.
async fn remains(reader: &Reader, key: &ObjectKey) -> anyhow::Result<Option<Remains>> {
    let get = async |kind: Resource| {
        let read = reader.get(kind, &key.namespace, &key.name).await;
        read.map_err(|error| anyhow!("{kind} {key}: {}", why_request_failed(&error)))
    };
    let Some(service) = get(Resource::SERVICES).await? else { return Ok(None) };
    let service = Service::deserialize(&service)?;
    if service.selector.is_some() || service.is_of_the_api_server() {
        return Ok(None);
    }
    let endpoints = get(Resource::ENDPOINTS).await?;
    let endpoints = endpoints.as_ref().map(Endpoints::deserialize).transpose()?;
    let of_service = ListParams::default().labels(&format!("{LABEL_SERVICE_NAME}={}", key.name));
    let add = |slices: &mut Vec<Arc<EndpointSlice>>, slice: Value| {
        slices.push(Arc::new(EndpointSlice::deserialize(slice)?));
        Ok(())
    };
    let listed = reader.list_objects(Resource::SLICES, Some(&*key.namespace), of_service, add).await?;
    let slices = listed.map_err(|note| anyhow!(note))?;
    Ok(Some(Remains::of(&service, endpoints.as_ref(), &slices)))
}

/// Deletes an object, if it is still the one in the list.
async fn delete_one(reader: &Reader, object: &Managed) -> (Outcome, String) {
    let preconditions = Preconditions {
        uid: Some(object.uid.to_string()),
        resource_version: Some(object.resource_version.to_string()),
    };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match reader.delete(kind_of(object.kind), &object.key, &params).await {
        Ok(()) => (Outcome::Deleted, String::new()),
        Err(Error::Api(status)) if status.is_not_found() => {
            (Outcome::Gone, "somebody else deleted it meanwhile".to_owned())
        }
        Err(Error::Api(status)) if status.code == 409 => {
            (Outcome::Failed, "it changed meanwhile; run the command again".to_owned())
        }
        Err(error) => (Outcome::Failed, why_request_failed(&error)),
    }
}

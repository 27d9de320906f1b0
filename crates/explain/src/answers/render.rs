//! Render: makes the objects that the controllers would write for Services without outputs.

use std::collections::BTreeSet;

use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_core_model::well_known::SELECTOR_GROUP;
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, LeftOut, ObjectKey, PodVerdict, Timestamp, Verdict,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::objects::Objects;
use crate::facts::options::{Known, Options};
use crate::models::hand_over::made_by_controller;
use crate::models::planned::Planned;
use crate::models::selection::{Selection, is_name};

/// The maximum number of Services that [`notes`] names.
const NOTES: usize = 20;

/// The objects that the controllers would write for one name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Rendered {
    /// The Service, or the mirrored Endpoints.
    pub object: ObjectKey,
    /// The slices. The API server will generate their names.
    pub slices: Vec<EndpointSlice>,
    /// The Endpoints, if the endpoints controller makes them from pods.
    pub endpoints: Vec<Endpoints>,
    pub verdicts: Vec<PodVerdict>,
}

/// Returns the objects that the controllers would write if there were no slices, and no Endpoints
/// but those that other clients wrote. The result does not depend on the time: the holder of a
/// Lease counts, and no rehearsal of retired Endpoints has ended. The list has one entry for each
/// Service and for each Endpoints object without a Service of that name, by key.
pub fn render(objects: &Objects, options: &Options) -> Vec<Rendered> {
    let topology = objects.topology();
    let mut inputs = objects.clone();
    inputs.slices.clear();
    let makes_endpoints = |key: &ObjectKey| {
        objects.service(key).is_some_and(|service| {
            service.selects_pods()
                || service.endpoint_selector().is_some() && made_by_controller(objects, key)
        })
    };
    inputs.endpoints.retain(|key, _| !makes_endpoints(key));
    let without_service = inputs.endpoints.keys().filter(|key| inputs.service(key).is_none());
    let mut keys: Vec<ObjectKey> = inputs.services().chain(without_service).cloned().collect();
    keys.sort();
    let render = |key: ObjectKey| {
        let mut planned = Planned::new(&inputs, &key, &topology, Timestamp::MIN, options);
        let verdicts = planned.slices.as_mut().map(|plan| std::mem::take(&mut plan.verdicts));
        let mut slices: Vec<EndpointSlice> =
            planned.slice_writes().flat_map(|writes| &writes.create).cloned().collect();
        // An object of a file has no uid, and the API server refuses an owner without one.
        for slice in &mut slices {
            slice.metadata.owner_references.retain(|owner| !owner.uid.is_empty());
        }
        Rendered {
            slices,
            endpoints: planned.endpoints_writes().flat_map(|writes| &writes.create).cloned().collect(),
            verdicts: verdicts.unwrap_or_default(),
            object: key,
        }
    };
    keys.into_iter().map(render).collect()
}

/// Returns notes for a reader of rendered objects, as sentences: the Services for which the
/// controllers write or publish nothing, and why. [`Rendered::verdicts`] has the reasons of single
/// pods.
pub fn notes(objects: &Objects, rendered: &[Rendered]) -> Vec<String> {
    let mut notes: Vec<String> = rendered.iter().filter_map(|one| note(objects, one)).collect();
    if notes.len() > NOTES {
        let more = notes.len() - NOTES;
        notes.truncate(NOTES);
        notes.push(format!("{more} more Services have no endpoints."));
    }
    let named = rendered
        .iter()
        .filter_map(|one| Some((&one.object, objects.service(&one.object)?.rehearsed_selector()?)));
    notes.extend(named.map(|(key, name)| {
        format!("{key}: its selector wins, so EndpointSelector {name}, which it names, has no effect.")
    }));
    let without_address: BTreeSet<&ObjectKey> = rendered
        .iter()
        .flat_map(|one| &one.verdicts)
        .filter(|verdict| matches!(verdict.verdict, Verdict::LeftOut(LeftOut::NoAddress)))
        .map(|verdict| &verdict.pod)
        .collect();
    if let Some(first) = without_address.first() {
        let pods = match without_address.len() {
            1 => format!("The pod {first} has no address, as before it runs"),
            more => format!("{more} pods, such as {first}, have no address, as before they run"),
        };
        notes.push(format!(
            "{pods}: write status.podIPs and the condition Ready into the manifest, or render what `kubectl get pods -o yaml` \
             prints."
        ));
    }
    notes
}

fn note(objects: &Objects, one: &Rendered) -> Option<String> {
    let key = &one.object;
    let Some(service) = objects.service(key) else {
        let is_written = !one.slices.is_empty();
        return (!is_written).then(|| {
            format!("{key}: its Endpoints are not mirrored, because there is no Service of this name.")
        });
    };
    let selection = Selection::of(objects, service, Known::ALL);
    if let Selection::Attached { name, selector, .. } = selection {
        return one.verdicts.is_empty().then(|| {
            format!("{key}: EndpointSelector {name} selects no pod that was read, so there are no endpoints: {selector}.")
        });
    }
    if let Selection::Unusable { name, object } = selection {
        let why = match object.and_then(|object| object.selector.as_ref().err()) {
            Some(reason) => format!("EndpointSelector {name} is invalid: {reason}"),
            None if !is_name(name) => format!("no EndpointSelector can have the name {name:?}"),
            None => {
                format!(
                    "EndpointSelector {name} was not read; give its manifest ({SELECTOR_GROUP}/v1alpha1), too"
                )
            }
        };
        return one.slices.is_empty().then(|| format!("{key}: nothing is written, because {why}."));
    }
    if !service.selects_pods() {
        let is_alias = service.service_type == ServiceType::ExternalName;
        let why = match (is_alias, objects.endpoints_of(key)) {
            _ if !one.slices.is_empty() => return None,
            (true, _) => "it is an ExternalName",
            (false, None) => {
                "it has no selector, and there are no Endpoints of this name that could be mirrored"
            }
            (false, Some(_)) => {
                "it has no selector, and its Endpoints have no addresses, or a label or an annotation that forbids to mirror them"
            }
        };
        return Some(format!("{key}: nothing is written, because {why}."));
    }
    let selector = service.selector.as_ref().filter(|_| one.verdicts.is_empty())?;
    let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels = labels.join(",");
    Some(format!("{key}: no pod that was read has the labels {labels}, so there are no endpoints."))
}

/// Returns rendered objects as a v1 List, which `kubectl create -f` accepts.
///
/// # Errors
///
/// This does not fail: the objects serialise to JSON.
pub fn to_list(rendered: &[Rendered]) -> Result<Value, serde_json::Error> {
    let mut items = Vec::new();
    for one in rendered {
        for slice in &one.slices {
            items.push(typed(slice, "discovery.k8s.io/v1", "EndpointSlice")?);
        }
        for endpoints in &one.endpoints {
            items.push(typed(endpoints, "v1", "Endpoints")?);
        }
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// Serialises an object with its type.
pub(crate) fn typed(
    object: &impl Serialize,
    api_version: &str,
    kind: &str,
) -> Result<Value, serde_json::Error> {
    let mut json = serde_json::to_value(object)?;
    json["apiVersion"] = api_version.into();
    json["kind"] = kind.into();
    Ok(json)
}

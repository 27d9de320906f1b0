//! Render: the objects that the controllers would write for Services that have none yet.

use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, PodVerdict};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{Objects, Options, Planned};

/// What the controllers would write for one name.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Rendered {
    /// The Service, or the Endpoints that are mirrored.
    pub object: ObjectKey,
    /// The slices. Their names are generated when they are created.
    pub slices: Vec<EndpointSlice>,
    /// The Endpoints, if they are made from pods.
    pub endpoints: Vec<Endpoints>,
    /// A verdict on each pod.
    pub verdicts: Vec<PodVerdict>,
}

/// Returns what the controllers would write if there were no slices, and no Endpoints but those that other clients wrote. One
/// entry for each Service and for each Endpoints object without a Service of that name, by key.
pub fn render(objects: &Objects, options: &Options) -> Vec<Rendered> {
    let topology = objects.topology(options.slices.topology_node_tolerance);
    let mut inputs = objects.clone();
    inputs.slices.clear();
    let makes_endpoints =
        |key: &ObjectKey| objects.service(key).is_some_and(|service| service.selects_pods());
    inputs.endpoints.retain(|key, _| !makes_endpoints(key));
    let without_service = inputs.endpoints.keys().filter(|key| inputs.service(key).is_none());
    let mut keys: Vec<ObjectKey> = inputs.services().chain(without_service).cloned().collect();
    keys.sort();
    let render = |key: ObjectKey| {
        let mut planned = Planned::new(&inputs, &key, &topology, options);
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

/// Returns rendered objects as a v1 List, which `kubectl create -f` accepts.
///
/// # Errors
///
/// None: the objects serialise to JSON.
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

//! A second reader of what a replica leaves: it reads as replicas of 0.1 do, and shares no code
//! with the product.
//!
//! Do not change this file when the product changes: replicas of 0.1 that run on a cluster do not
//! change either. Add such a file for each minor version that leaves something else. Delete this
//! one when docs/compatibility.md no longer lets a version run beside 0.1.

use std::collections::BTreeMap;

use serde_json::Value;

/// The words of a reader that finds something else than 0.1 leaves.
pub(super) const NOT_UNDERSTOOD: &str = "\
Replicas of 0.1 do not understand what this version leaves. In an upgrade and in a rollback both versions run at once, \
and each takes over from the other. Leave what 0.1 reads, beside something newer if need be, until a version no longer \
has to run beside 0.1. Then say so in docs/compatibility.md and in CHANGELOG.md, and delete this reader";

/// Returns the resource version of the last write of each kind that the annotation of a released
/// Lease has, or the reason why a replica of 0.1 ignores it and lists instead.
pub(super) fn last_writes(lease: &Value) -> Result<BTreeMap<String, u64>, String> {
    let spec = &lease["spec"];
    if spec["holderIdentity"] != "" || spec["leaseDurationSeconds"] != 1 {
        return Err(format!("the Lease is not released: {spec}"));
    }
    let text = lease["metadata"]["annotations"]["kube-endpoint-manager/last-writes"].as_str();
    let text = text.ok_or("the Lease has no annotation kube-endpoint-manager/last-writes")?;
    let value: Value = serde_json::from_str(text).map_err(|error| format!("{text}: {error}"))?;
    let time = |value: &Value| value.as_str().and_then(|it| it.parse::<jiff::Timestamp>().ok());
    let released = time(&value["released"]).ok_or("`released` is no time")?;
    if Some(released) != time(&spec["renewTime"]) {
        return Err(format!("{released} is not the renewTime of {spec}: it is of an earlier release"));
    }
    let versions = value["versions"].as_object().ok_or("`versions` is no object")?;
    let version = |(kind, version): (&String, &Value)| {
        let number = version.as_str().and_then(|it| it.parse().ok());
        let number =
            number.ok_or_else(|| format!("`versions.{kind}` is no number in a string: {version}"))?;
        Ok((kind.clone(), number))
    };
    versions.iter().map(version).collect()
}

/// Returns true if an entry of `managedFields` for this project owns a field.
fn owns(object: &Value, field: &str) -> bool {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    entries
        .iter()
        .any(|entry| entry["manager"] == "kube-endpoint-manager" && entry["fieldsV1"][field].is_object())
}

/// Returns the Service of a slice and the controller of 0.1 that goes on with the slice.
pub(super) fn slice(slice: &Value) -> Result<(String, String), String> {
    let labels = &slice["metadata"]["labels"];
    let label = |name: &str| labels[name].as_str().ok_or_else(|| format!("no label {name}: {labels}"));
    let service = label("kubernetes.io/service-name")?.to_owned();
    let controller = match label("endpointslice.kubernetes.io/managed-by")? {
        "endpointslice-controller.k8s.io" => "slices".to_owned(),
        "endpointslicemirroring-controller.k8s.io" => "mirrored".to_owned(),
        "endpoint-selector.kube-endpoint-manager.github.io" => {
            format!("selector {}", label("kube-endpoint-manager.github.io/endpoint-selector")?)
        }
        other => return Err(format!("{service}: no controller of 0.1 goes on with slices of {other}")),
    };
    let owner = &slice["metadata"]["ownerReferences"][0];
    let owner_kind = if controller == "mirrored" { "Endpoints" } else { "Service" };
    if owner["kind"] != owner_kind || owner["name"] != *service || owner["controller"] != true {
        return Err(format!("{service}: its slice has another owner: {owner}"));
    }
    // `cleanup` and the doctor tell controllers from users by this.
    if !owns(slice, "f:endpoints") {
        return Err(format!("{service}: nobody whom 0.1 knows owns the endpoints of its slice"));
    }
    trigger_time(slice)?;
    Ok((service, controller))
}

/// Returns the name of Endpoints, and true if 0.1 deletes them when their Service is retired.
pub(super) fn endpoints(endpoints: &Value) -> Result<(String, bool), String> {
    let metadata = &endpoints["metadata"];
    let by_controller = metadata["labels"]["endpoints.kubernetes.io/managed-by"] == "endpoint-controller";
    trigger_time(endpoints)?;
    let name = metadata["name"].as_str().ok_or("Endpoints without a name")?;
    Ok((name.to_owned(), by_controller && owns(endpoints, "f:subsets")))
}

fn trigger_time(object: &Value) -> Result<(), String> {
    let value = &object["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"];
    let is_time = value.as_str().is_none_or(|text| text.parse::<jiff::Timestamp>().is_ok());
    let is_text = value.is_null() || value.is_string();
    if is_time && is_text { Ok(()) } else { Err(format!("the trigger time is no time: {value}")) }
}

/// Returns the name of an EndpointSelector and the reason in its status, with which a new leader of
/// 0.1 goes on until it knows better.
pub(super) fn selector(selector: &Value) -> Result<(String, String), String> {
    let (metadata, status) = (&selector["metadata"], &selector["status"]);
    let name = metadata["name"].as_str().ok_or("an EndpointSelector without a name")?;
    let generation = metadata["generation"].as_i64().unwrap_or_default();
    if status["observedGeneration"] != generation || status["services"] != 1 {
        return Err(format!("{name}: its status is not that of this generation: {status}"));
    }
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let accepted = conditions.iter().find(|it| it["type"] == "Accepted" && it["status"] == "True");
    let reason = accepted.and_then(|it| it["reason"].as_str());
    Ok((name.to_owned(), reason.ok_or_else(|| format!("{name}: not accepted: {status}"))?.to_owned()))
}

//! Validation of an update of a pod's status, after `ValidatePodStatusUpdate` of `pkg/apis/core/validation`.

use serde_json::Value;

use super::metadata;
use super::names::{dns1123_subdomain, qualified_name};
use super::pod_change::validate_annotations;
use super::{Errors, Path, Raw, ip};
use crate::value::{Fields, spec};

const NON_NEGATIVE: &str = "must be a non-negative integer";

/// Validates an update of the status. The caller validates metadata.
pub(crate) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    validate_annotations(new, old, errors);
    let root = Path::Root("status");
    let (now, before) = (&new["status"], &old["status"]);
    for (index, condition) in now.list("conditions").iter().enumerate() {
        let at = root.child("conditions");
        let at = at.index(index);
        let generation = condition.int("observedGeneration");
        if generation < 0 {
            errors.invalid(&at.child("observedGeneration"), &generation, NON_NEGATIVE);
        }
        let kind = condition.text("type");
        errors.invalid_each(&at.child("Type"), kind, qualified_name(kind));
    }
    let nominated = now.text("nominatedNodeName");
    if !nominated.is_empty() && nominated != before.text("nominatedNodeName") {
        let at = root.child("nominatedNodeName");
        errors.invalid_each(&at, nominated, dns1123_subdomain(nominated));
        if !spec(old).text("nodeName").is_empty() {
            errors.forbidden(&at, "may not be set on pods that are already bound to a node");
        }
    }
    let generation = now.int("observedGeneration");
    if generation < 0 {
        errors.invalid(&root.child("observedGeneration"), &generation, NON_NEGATIVE);
    }
    metadata::immutable(now, before, "qosClass", &root, false, errors);
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_restarts(now, before, list, spec(old), errors);
    }
    validate_addresses(now, before, "podIPs", errors);
    let hosts = now.list("hostIPs");
    if let Some(first) = hosts.first().filter(|first| first.text("ip") != now.text("hostIP")) {
        let at = root.child("hostIPs");
        errors.invalid(&at.index(0).child("ip"), first.text("ip"), "must be equal to `hostIP`");
    }
    validate_addresses(now, before, "hostIPs", errors);
}

/// Rejects a container that runs again although it has terminated and is not restarted.
fn validate_restarts(now: &Value, before: &Value, list: &str, spec: &Value, errors: &mut Errors) {
    let policy = spec.text("restartPolicy");
    let ephemeral = list == "ephemeralContainerStatuses";
    if policy == "Always" && !ephemeral {
        return;
    }
    let of = if list == "initContainerStatuses" { "initContainers" } else { "containers" };
    for (index, status) in before.list(list).iter().enumerate() {
        let Some(ended) = status["state"].get("terminated").filter(|t| !t.is_null()) else { continue };
        let name = status.text("name");
        let own =
            spec.list(of).iter().find(|c| c.text("name") == name).and_then(|c| c.opt_text("restartPolicy"));
        let restarts = match own.unwrap_or(policy) {
            "Always" => true,
            "OnFailure" => ended.int("exitCode") != 0,
            _ => false,
        };
        let runs = now.list(list).iter().any(|s| s.text("name") == name && !s["state"].has("terminated"));
        if runs && (ephemeral || !restarts) {
            let at = Path::Root("status").child(list).index(index).child("state").to_string();
            errors.forbidden(&Path::Root(&at), "may not be transitioned to non-terminated state");
        }
    }
}

fn validate_addresses(now: &Value, before: &Value, list: &str, errors: &mut Errors) {
    let root = Path::Root("status");
    let at = root.child(list);
    let kept: Vec<&str> = before.list(list).iter().map(|i| i.text("ip")).collect();
    let addresses: Vec<&str> = now.list(list).iter().map(|i| i.text("ip")).collect();
    for (index, address) in addresses.iter().enumerate() {
        ip::legacy(errors, &at.index(index), address, &kept);
    }
    if addresses.len() > 1 && (addresses.len() > 2 || !ip::is_dual_stack(&addresses)) {
        let why = "may specify no more than one IP for each IP family";
        let shown: Vec<String> = addresses.iter().map(|a| format!("{{\"IP\":{a:?}}}")).collect();
        errors.invalid(&at, &Raw(format!("[{}]", shown.join(","))), why);
    }
}

//! Validation of Pods, after `ValidatePodCreate`, `ValidatePodUpdate` and `ValidatePodStatusUpdate`
//! of `pkg/apis/core/validation`, limited to the parts that matter to endpoint controllers and to
//! users of kubectl: metadata, names, images and ports of containers, addresses, and immutable
//! fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::metadata::{self, NameRule};
use super::names::{PROTOCOLS, dns1123_label, dns1123_subdomain, port_name, port_number, qualified_name};
use super::{Errors, Path, Raw, ip};
use crate::value::{Fields, spec};

const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
     set to 1 if it was previously negative)";

/// Validates the metadata and spec of a new or updated pod.
pub(crate) fn validate(pod: &Value, errors: &mut Errors) {
    metadata::validate(&pod["metadata"], true, NameRule::Subdomain, errors);
    let root = Path::Root("spec");
    let spec = spec(pod);
    validate_containers(spec, &root, errors);
    let policy = spec.text("restartPolicy");
    if !RESTART_POLICIES.contains(&policy) {
        errors.not_supported(&root.child("restartPolicy"), policy, &RESTART_POLICIES);
    }
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let kind = gate.text("conditionType");
        let at = root.child("readinessGates");
        errors.invalid_each(&at.index(index).child("conditionType"), kind, qualified_name(kind));
    }
    for field in ["serviceAccountName", "nodeName", "hostname", "subdomain"] {
        if let Some(name) = spec.opt_text(field).filter(|name| !name.is_empty()) {
            let label = matches!(field, "hostname" | "subdomain");
            let wrong = if label { dns1123_label(name) } else { dns1123_subdomain(name) };
            errors.invalid_each(&root.child(field), name, wrong);
        }
    }
}

fn validate_containers(spec: &Value, root: &Path<'_>, errors: &mut Errors) {
    if spec.list("containers").is_empty() {
        errors.required(&root.child("containers"), "");
    }
    let mut names = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        let at = root.child(list);
        for (index, container) in spec.list(list).iter().enumerate() {
            let at = at.index(index);
            let name = container.text("name");
            if name.is_empty() {
                errors.required(&at.child("name"), "");
            } else {
                errors.invalid_each(&at.child("name"), name, dns1123_label(name));
            }
            if container.text("image").is_empty() {
                errors.required(&at.child("image"), "");
            }
            validate_ports(container, &at.child("ports"), errors);
            if !names.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
        }
    }
}

fn validate_ports(container: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in container.list("ports").iter().enumerate() {
        let at = at.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            let wrong = port_name(name);
            if !wrong.is_empty() {
                errors.invalid_each(&at.child("name"), name, wrong);
            } else if !names.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
        }
        let number = port.int("containerPort");
        if number == 0 {
            errors.required(&at.child("containerPort"), "");
        }
        for (field, number) in [("containerPort", number), ("hostPort", port.int("hostPort"))] {
            if number != 0 {
                errors.invalid_each(&at.child(field), &number, port_number(number));
            }
        }
        let protocol = port.text("protocol");
        if !PROTOCOLS.contains(&protocol) {
            errors.not_supported(&at.child("protocol"), protocol, &PROTOCOLS);
        }
    }
}

/// Validates that `new` may replace `old`.
pub(crate) fn validate_change(new: &Value, old: &Value, errors: &mut Errors) {
    metadata::validate_update(&new["metadata"], &old["metadata"], errors);
    validate(new, errors);
    let (now, before) = (spec(new), spec(old));
    for list in ["containers", "initContainers"] {
        if now.list(list).len() != before.list(list).len() {
            let why = "pod updates may not add or remove containers";
            errors.forbidden(&Path::Root("spec").child(list), why);
            return;
        }
    }
    let mut rest = now.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in rest.items_mut(list).iter_mut().zip(before.list(list)) {
            container.copy("image", old);
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        rest.copy(field, before);
    }
    if rest != *before {
        let fields: BTreeSet<&String> =
            [before, &rest].into_iter().filter_map(Value::as_object).flat_map(Map::keys).collect();
        let changed: Vec<&str> = fields
            .into_iter()
            .filter(|field| before.get(field) != rest.get(field))
            .map(String::as_str)
            .collect();
        let why = format!(
            "pod updates may not change fields other than {UPDATABLE}\nchanged: {}",
            changed.join(", ")
        );
        errors.forbidden(&Path::Root("spec"), &why);
    }
}

/// Validates an update of the status. The caller validates metadata.
pub(crate) fn validate_status(new: &Value, old: &Value, errors: &mut Errors) {
    let root = Path::Root("status");
    let (now, before) = (&new["status"], &old["status"]);
    for (index, condition) in now.list("conditions").iter().enumerate() {
        let kind = condition.text("type");
        let at = root.child("conditions");
        errors.invalid_each(&at.index(index).child("Type"), kind, qualified_name(kind));
    }
    metadata::immutable(now, before, "qosClass", &root, false, errors);
    for list in ["podIPs", "hostIPs"] {
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
}

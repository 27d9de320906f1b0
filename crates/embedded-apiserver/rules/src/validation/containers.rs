//! Validation of a pod's containers, after `validateContainers` and `validateInitContainers` of
//! `pkg/apis/core/validation`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metadata::non_negative;
use super::names::{dns1123_label, env_name, port_name, port_number, qualified_name};
use super::service::validate_number_or_name;
use super::{Errors, Path};
use crate::quantity::Quantity;
use crate::value::Fields;

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Validates all containers of a pod's spec except the ephemeral ones.
pub(super) fn validate(spec: &Value, root: &Path<'_>, volumes: &[&str], errors: &mut Errors) {
    let containers = spec.list("containers");
    let at = root.child("containers");
    if containers.is_empty() {
        errors.required(&at, "");
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        validate_one(container, &at, volumes, errors);
        let name = container.text("name");
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        validate_handlers(container, &at, errors);
        if spec.flag("hostNetwork") {
            for (index, port) in container.list("ports").iter().enumerate() {
                if port.int("hostPort") != port.int("containerPort") {
                    let at = at.child("ports");
                    let at = at.index(index);
                    let why = "must match `containerPort` when `hostNetwork` is true";
                    errors.invalid(&at.child("hostPort"), &port.int("hostPort"), why);
                }
            }
        }
    }
    validate_host_ports(containers, &at, errors);
    let at = root.child("initContainers");
    for (index, container) in spec.list("initContainers").iter().enumerate() {
        let each = at.index(index);
        validate_one(container, &each, volumes, errors);
        let name = container.text("name");
        if !names.insert(name) {
            errors.duplicate(&each.child("name"), name);
        }
        validate_host_ports(std::slice::from_ref(container), &at, errors);
        if container.text("restartPolicy") == "Always" {
            validate_handlers(container, &each, errors);
            continue;
        }
        for field in ["lifecycle"].iter().chain(&PROBES).filter(|f| container.has(f)) {
            let why = "may not be set for init containers without restartPolicy=Always";
            errors.forbidden(&each.child(field), why);
        }
    }
}

fn validate_one(container: &Value, at: &Path<'_>, volumes: &[&str], errors: &mut Errors) {
    let name = container.text("name");
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    } else {
        errors.invalid_each(&at.child("name"), name, dns1123_label(name));
    }
    let image = container.text("image");
    if image.is_empty() {
        errors.required(&at.child("image"), "");
    } else if image.trim() != image {
        errors.invalid(&at.child("image"), image, "must not have leading or trailing whitespace");
    }
    let policies = ["File", "FallbackToLogsOnError"];
    let policy = container.text("terminationMessagePolicy");
    if !policies.contains(&policy) {
        errors.not_supported(&at.child("terminationMessagePolicy"), policy, &policies);
    }
    validate_ports(container, &at.child("ports"), errors);
    for (index, variable) in container.list("env").iter().enumerate() {
        let at = at.child("env");
        let at = at.index(index);
        let name = variable.text("name");
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        } else {
            errors.invalid_each(&at.child("name"), name, env_name(name));
        }
        validate_source(variable, &at.child("valueFrom"), errors);
    }
    validate_mounts(container, &at.child("volumeMounts"), volumes, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    let policy = container.text("imagePullPolicy");
    if !policies.contains(&policy) {
        errors.not_supported(&at.child("imagePullPolicy"), policy, &policies);
    }
    validate_resources(&container["resources"], &at.child("resources"), errors);
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
            for why in Some(number).filter(|n| *n != 0).map(port_number).unwrap_or_default() {
                errors.invalid(&at.child(field), &number, &why);
            }
        }
        let protocol = port.text("protocol");
        if !PROTOCOLS.contains(&protocol) {
            errors.not_supported(&at.child("protocol"), protocol, &PROTOCOLS);
        }
    }
}

/// Rejects a host port that two containers use.
fn validate_host_ports(containers: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = at.index(index);
        let at = at.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let number = port.int("hostPort");
            if number == 0 {
                continue;
            }
            let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
            if seen.contains(&key) {
                errors.duplicate(&at.index(index).child("hostPort"), &key);
            }
            seen.insert(key);
        }
    }
}

fn validate_source(variable: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(source) = variable.get("valueFrom").and_then(Value::as_object) else { return };
    if source.is_empty() {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                   `fileKeyRef`";
        errors.invalid(at, "", why);
    } else if !variable.text("value").is_empty() {
        errors.invalid(at, "", "may not be specified when `value` is not empty");
    } else if source.len() > 1 {
        errors.invalid(at, "", "may not have more than one field specified at a time");
    }
}

fn validate_mounts(container: &Value, at: &Path<'_>, volumes: &[&str], errors: &mut Errors) {
    let mut points = BTreeSet::new();
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        let at = at.index(index);
        let (name, point) = (mount.text("name"), mount.text("mountPath"));
        if name.is_empty() {
            errors.required(&at.child("name"), "");
        }
        if !volumes.contains(&name) {
            errors.not_found(&at.child("name"), name);
        }
        if point.is_empty() {
            errors.required(&at.child("mountPath"), "");
        }
        if !points.insert(point) {
            errors.invalid(&at.child("mountPath"), point, "must be unique");
        }
    }
}

fn validate_handlers(container: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(lifecycle) = container.get("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.get(hook) {
                validate_handler(handler, &at.child("lifecycle").child(hook), errors);
            }
        }
    }
    for field in PROBES {
        let Some(probe) = container.get(field) else { continue };
        let at = at.child(field);
        validate_handler(probe, &at, errors);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            non_negative(probe.int(field), &at.child(field), errors);
        }
        let grace = probe.opt_int("terminationGracePeriodSeconds");
        let grace_at = at.child("terminationGracePeriodSeconds");
        if let Some(seconds) = grace.filter(|s| *s <= 0) {
            errors.invalid(&grace_at, &seconds, "must be greater than 0");
        }
        if field == "readinessProbe" {
            if let Some(seconds) = grace {
                errors.invalid(&grace_at, &seconds, "must not be set for readinessProbes");
            }
        } else if probe.int("successThreshold") != 1 {
            errors.invalid(&at.child("successThreshold"), &probe.int("successThreshold"), "must be 1");
        }
    }
}

fn validate_handler(handler: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut given = HANDLERS.iter().filter(|h| handler.has(h));
    let Some(kind) = given.next() else {
        errors.required(at, "must specify a handler type");
        return;
    };
    for other in given {
        errors.forbidden(&at.child(other), "may not specify more than 1 handler type");
    }
    let at = at.child(kind);
    let action = &handler[*kind];
    match *kind {
        "exec" if action.list("command").is_empty() => errors.required(&at.child("command"), ""),
        "httpGet" => {
            validate_number_or_name(&action["port"], &at.child("port"), errors);
            let schemes = ["HTTP", "HTTPS"];
            if !schemes.contains(&action.text("scheme")) {
                errors.not_supported(&at.child("scheme"), action.text("scheme"), &schemes);
            }
        }
        "tcpSocket" | "grpc" => validate_number_or_name(&action["port"], &at.child("port"), errors),
        _ => {}
    }
}

fn validate_resources(resources: &Value, at: &Path<'_>, errors: &mut Errors) {
    let standard = |name: &str| {
        matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage") || name.starts_with("hugepages-")
    };
    for list in ["limits", "requests"] {
        let list_at = at.child(list);
        for (name, amount) in resources.entries(list) {
            let at = list_at.key(name);
            let wrong = qualified_name(name);
            if wrong.is_empty() && !name.contains('/') && !standard(name) {
                errors.invalid(&at, name, "must be a standard resource type or fully qualified");
                errors.invalid(&at, name, "must be a standard resource for containers");
            }
            errors.invalid_each(&at, name, wrong);
            let Some(quantity) = Quantity::parse(amount) else { continue };
            if quantity.is_negative() {
                errors.invalid(&at, amount, "must be greater than or equal to 0");
            }
            if !quantity.is_whole() && name.contains('/') {
                errors.invalid(&at, amount, "must be an integer");
            }
            let limit = resources["limits"].opt_text(name);
            let limit = limit.filter(|_| list == "requests").and_then(Quantity::parse);
            if let Some(limit) = limit.filter(|l| quantity.amount() > l.amount()) {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(&list_at, amount, &why);
            }
        }
    }
}

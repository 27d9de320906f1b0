//! Validation of a pod, after `ValidatePodCreate` and `ValidatePodSpec` of `pkg/apis/core/validation`, as far as it
//! matters to controllers and kubectl. Of volume sources, affinity terms and security contexts only the types are
//! checked, by decoding.

use serde_json::Value;

use super::containers;
use super::metadata::{self, NameRule, validate_labels};
use super::names::{dns1123_label, dns1123_subdomain, label_value, qualified_name, range};
use super::{Errors, Path, ip};
use crate::value::{Fields, spec};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates a pod that is to be created.
pub(crate) fn validate_new(pod: &Value, errors: &mut Errors) {
    validate(pod, errors);
    let spec = spec(pod);
    if !spec.list("ephemeralContainers").is_empty() {
        errors.forbidden(&Path::Root("spec.ephemeralContainers"), "cannot be set on create");
    }
    if !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&Path::Root("spec.nodeName"), why);
    }
}

/// Validates the metadata and spec of a new or updated pod.
pub(crate) fn validate(pod: &Value, errors: &mut Errors) {
    metadata::validate(&pod["metadata"], true, NameRule::Subdomain, errors);
    validate_annotations(pod, errors);
    let root = Path::Root("spec");
    let spec = spec(pod);
    let volumes = validate_volumes(spec, &root, errors);
    containers::validate(spec, &root, &volumes, errors);
    validate_enumerations(spec, &root, errors);
    validate_labels(spec, "nodeSelector", &root.child("nodeSelector"), errors);
    validate_dns(spec, &root, errors);
    for (index, gate) in spec.list("readinessGates").iter().enumerate() {
        let kind = gate.text("conditionType");
        let at = root.child("readinessGates");
        errors.invalid_each(&at.index(index).child("conditionType"), kind, qualified_name(kind));
    }
    validate_gates(spec, &root, errors);
    validate_names(spec, &root, errors);
    if let Some(seconds) = spec.opt_int("activeDeadlineSeconds") {
        let most = i64::from(i32::MAX);
        if seconds < 1 || seconds > most {
            errors.invalid(&root.child("activeDeadlineSeconds"), &seconds, &range(1, most));
        }
    }
    validate_tolerations(spec.list("tolerations"), &root.child("tolerations"), errors);
    for (index, alias) in spec.list("hostAliases").iter().enumerate() {
        let at = root.child("hostAliases");
        let at = at.index(index);
        ip::legacy(errors, &at.child("ip"), alias.text("ip"), &[]);
        for (index, name) in alias.texts("hostnames").iter().enumerate() {
            errors.invalid_each(&at.child("hostnames").index(index), name, dns1123_subdomain(name));
        }
    }
}

fn validate_annotations(pod: &Value, errors: &mut Errors) {
    let at = Path::Root("metadata.annotations");
    let annotations = &pod["metadata"]["annotations"];
    if let Some(mirror) = annotations.opt_text(MIRROR).filter(|_| spec(pod).text("nodeName").is_empty()) {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&at.key(MIRROR), mirror, why);
    }
    if let Some(cost) = annotations.opt_text(DELETION_COST).filter(|c| !is_deletion_cost(c)) {
        errors.invalid(&at.key(DELETION_COST), cost, "must be a 32bit integer");
    }
}

/// Whether the text is a canonical 32-bit integer: no plus sign and no leading zeros.
fn is_deletion_cost(text: &str) -> bool {
    text.parse::<i32>().is_ok_and(|cost| cost.to_string() == text)
}

/// Validates the names of volumes and returns the valid ones.
fn validate_volumes<'a>(spec: &'a Value, root: &Path<'_>, errors: &mut Errors) -> Vec<&'a str> {
    let mut names = Vec::new();
    let at = root.child("volumes");
    for (index, volume) in spec.list("volumes").iter().enumerate() {
        let at = at.index(index);
        let at = at.child("name");
        let name = volume.text("name");
        let found = errors.len();
        let sources = volume.as_object().map_or(0, |v| v.keys().filter(|k| *k != "name").count());
        if sources > 1 {
            let kind = volume.as_object().and_then(|v| v.keys().filter(|k| *k != "name").nth(1));
            let at = root.child("volumes");
            let at = at.index(index);
            errors.forbidden(
                &at.child(kind.map_or("", String::as_str)),
                "may not specify more than 1 volume type",
            );
        }
        if name.is_empty() {
            errors.required(&at, "");
        } else {
            errors.invalid_each(&at, name, dns1123_label(name));
        }
        if names.contains(&name) {
            errors.duplicate(&at, name);
        }
        if errors.len() == found {
            names.push(name);
        }
    }
    names
}

fn validate_enumerations(spec: &Value, root: &Path<'_>, errors: &mut Errors) {
    const FIELDS: [(&str, &[&str]); 2] = [
        ("restartPolicy", &["Always", "OnFailure", "Never"]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ];
    for (field, values) in FIELDS {
        if !values.contains(&spec.text(field)) {
            errors.not_supported(&root.child(field), spec.text(field), values);
        }
    }
    let values = ["PreemptLowerPriority", "Never"];
    if let Some(policy) = spec.opt_text("preemptionPolicy").filter(|p| !values.contains(p)) {
        errors.not_supported(&root.child("preemptionPolicy"), policy, &values);
    }
}

fn validate_dns(spec: &Value, root: &Path<'_>, errors: &mut Errors) {
    let at = root.child("dnsConfig");
    let config = &spec["dnsConfig"];
    let servers = config.texts("nameservers");
    if spec.text("dnsPolicy") == "None" {
        if config.is_null() {
            errors.required(&at, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&at.child("nameservers"), why);
            return;
        }
    }
    if servers.len() > 3 {
        let why = "must not have more than 3 nameservers";
        errors.invalid(&at.child("nameservers"), servers.as_slice(), why);
    }
    for (index, server) in servers.iter().enumerate() {
        ip::legacy(errors, &at.child("nameservers").index(index), server, &[]);
    }
    for (index, _) in config.list("options").iter().enumerate().filter(|(_, o)| o.text("name").is_empty()) {
        errors.required(&at.child("options").index(index), "must not be empty");
    }
}

fn validate_gates(spec: &Value, root: &Path<'_>, errors: &mut Errors) {
    let at = root.child("schedulingGates");
    let mut seen = Vec::new();
    for (index, gate) in spec.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        errors.invalid_each(&at.index(index), name, qualified_name(name));
        if seen.contains(&name) {
            errors.duplicate(&at.index(index), name);
        }
        seen.push(name);
    }
}

fn validate_names(spec: &Value, root: &Path<'_>, errors: &mut Errors) {
    for field in
        ["serviceAccountName", "nodeName", "hostname", "subdomain", "priorityClassName", "runtimeClassName"]
    {
        // runtimeClassName is a pointer, so an empty name is invalid.
        if let Some(name) = spec.opt_text(field).filter(|n| !n.is_empty() || field == "runtimeClassName") {
            let label = matches!(field, "hostname" | "subdomain");
            let wrong = if label { dns1123_label(name) } else { dns1123_subdomain(name) };
            errors.invalid_each(&root.child(field), name, wrong);
        }
    }
    if let Some(name) = spec.opt_text("hostnameOverride") {
        let at = root.child("hostnameOverride");
        if spec.flag("setHostnameAsFQDN") {
            errors.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
        }
        if spec.flag("hostNetwork") {
            errors.forbidden(&at, "may not be specified when hostNetwork is true");
        }
        if name.len() > 64 {
            errors.too_long(&at, 64);
        }
        errors.invalid_each(&at, name, dns1123_subdomain(name));
    }
}

/// Validates the tolerations of a new pod or those added by an update.
pub(crate) fn validate_tolerations(tolerations: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = at.index(index);
        let (key, operator) = (toleration.text("key"), toleration.text("operator"));
        let (value, effect) = (toleration.text("value"), toleration.text("effect"));
        if !key.is_empty() {
            errors.invalid_each(&at.child("key"), key, qualified_name(key));
        } else if operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&at.child("operator"), operator, why);
        }
        if toleration.has("tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at.child("effect"), effect, why);
        }
        match operator {
            "Equal" | "" => {
                let wrong = label_value(value);
                if !wrong.is_empty() {
                    errors.invalid(&at.child("operator"), value, &wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(
                    &at.child("operator"),
                    value,
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                errors.not_supported(&at.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]);
            }
            other => errors.not_supported(&at.child("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.not_supported(&at.child("effect"), effect, &EFFECTS);
        }
    }
}

//! Validation of a pod's update, after `ValidatePodUpdate` of `pkg/apis/core/validation`.

use serde_json::Value;

use super::metadata;
use super::names::range;
use super::pod::{self, validate_tolerations};
use super::{Errors, Path};
use crate::value::{Fields, spec};

const MIRROR: &str = "kubernetes.io/config.mirror";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
     `spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
     set to 1 if it was previously negative)";

/// Validates that `new` may replace `old`.
pub(crate) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    metadata::validate_update(&new["metadata"], &old["metadata"], errors);
    pod::validate(new, errors);
    validate_annotations(new, old, errors);
    let (now, before) = (spec(new), spec(old));
    for list in ["containers", "initContainers"] {
        let at = Path::Root("spec").child(list).to_string();
        let at = Path::Root(&at);
        if now.list(list).len() != before.list(list).len() {
            errors.forbidden(&at, "pod updates may not add or remove containers");
            return;
        }
        for (index, container) in now.list(list).iter().enumerate() {
            let at = at.index(index);
            let image = container.text("image");
            if image.is_empty() {
                errors.required(&at.child("image"), "");
            }
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                errors.invalid(&at.child("image"), image, why);
            }
        }
    }
    if !validate_deadline(now, before, errors) {
        return;
    }
    validate_added_tolerations(now, before, errors);
    validate_removed_gates(now, before, errors);
    if now != before {
        validate_rest(now, before, errors);
    }
}

/// Rejects changes of annotations that can only be set on creation.
pub(super) fn validate_annotations(new: &Value, old: &Value, errors: &mut Errors) {
    let at = Path::Root("metadata.annotations");
    let (now, before) = (&new["metadata"]["annotations"], &old["metadata"]["annotations"]);
    let guarded = |key: &str| {
        if key.starts_with(APP_ARMOR) {
            Some("AppArmor annotations")
        } else {
            (key == MIRROR).then_some("mirror pod annotation")
        }
    };
    for (key, value) in old["metadata"].entries("annotations") {
        if now.opt_text(key) != Some(value)
            && let Some(what) = guarded(key)
        {
            errors.forbidden(&at.key(key), &format!("may not remove or update {what}"));
        }
    }
    for (key, _) in new["metadata"].entries("annotations") {
        if !before.has(key)
            && let Some(what) = guarded(key)
        {
            errors.forbidden(&at.key(key), &format!("may not add {what}"));
        }
    }
}

/// Validates that the deadline is only set or shortened. False if validation ends here.
fn validate_deadline(now: &Value, before: &Value, errors: &mut Errors) -> bool {
    let at = Path::Root("spec.activeDeadlineSeconds");
    let most = i64::from(i32::MAX);
    match (now.opt_int("activeDeadlineSeconds"), before.opt_int("activeDeadlineSeconds")) {
        (Some(now), _) if !(0..=most).contains(&now) => {
            errors.invalid(&at, &now, &range(0, most));
            false
        }
        (Some(now), Some(before)) if before < now => {
            errors.invalid(&at, &now, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            errors.invalid(&at, &Value::Null, why);
            true
        }
        _ => true,
    }
}

fn validate_added_tolerations(now: &Value, before: &Value, errors: &mut Errors) {
    let at = Path::Root("spec.tolerations");
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration.drop_field("tolerationSeconds");
        toleration
    };
    if now.list("tolerations") == before.list("tolerations") {
        return;
    }
    let kept: Vec<Value> = now.list("tolerations").iter().map(without_seconds).collect();
    if before.list("tolerations").iter().any(|t| !kept.contains(&without_seconds(t))) {
        errors.forbidden(&at, "existing toleration can not be modified except its tolerationSeconds");
        return;
    }
    validate_tolerations(now.list("tolerations"), &at, errors);
}

fn validate_removed_gates(now: &Value, before: &Value, errors: &mut Errors) {
    let known: Vec<&str> = before.list("schedulingGates").iter().map(|g| g.text("name")).collect();
    for (index, gate) in now.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !known.contains(&name) {
            let at = Path::Root("spec.schedulingGates");
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&at.index(index).child("name"), &why);
        }
    }
}

/// Validates that all other fields are unchanged.
fn validate_rest(now: &Value, before: &Value, errors: &mut Errors) {
    let mut rest = now.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in rest.items_mut(list).iter_mut().zip(before.list(list)) {
            container.copy("image", old);
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        rest.copy(field, before);
    }
    if before.int("terminationGracePeriodSeconds") < 0 && rest.int("terminationGracePeriodSeconds") == 1 {
        rest.copy("terminationGracePeriodSeconds", before);
    }
    if !before.list("schedulingGates").is_empty() && rest.get("nodeSelector") != before.get("nodeSelector") {
        // The node selector of a gated pod may be extended.
        if before.entries("nodeSelector").any(|(k, v)| rest["nodeSelector"].opt_text(k) != Some(v)) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.invalid(&Path::Root("spec.nodeSelector"), &rest["nodeSelector"], why);
        }
        rest.copy("nodeSelector", before);
    }
    if rest != *before {
        let why = format!(
            "pod updates may not change fields other than {UPDATABLE}\n{}",
            difference(before, &rest)
        );
        errors.forbidden(&Path::Root("spec"), &why);
    }
}

/// The fields that differ, one a line.
fn difference(before: &Value, now: &Value) -> String {
    let mut lines = Vec::new();
    let keys = [before, now].into_iter().filter_map(Value::as_object).flat_map(|o| o.keys());
    let keys: std::collections::BTreeSet<&String> = keys.collect();
    for key in keys {
        match (before.get(key), now.get(key)) {
            (was, is) if was == is => {}
            (was, is) => {
                for (sign, value) in [('-', was), ('+', is)] {
                    if let Some(value) = value {
                        lines.push(format!("{sign} {key}: {value}"));
                    }
                }
            }
        }
    }
    lines.join("\n")
}

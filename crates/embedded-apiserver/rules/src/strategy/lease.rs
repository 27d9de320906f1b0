//! Leases, after `pkg/registry/coordination/lease/strategy.go` and `pkg/apis/coordination/validation`.

use serde_json::Value;

use crate::validation::metadata::{self, NameRule};
use crate::validation::{Errors, Path};
use crate::value::{Fields, spec};

/// Drops the fields of coordinated leader election, which is off by default, unless the old lease has them.
pub(super) fn prepare(object: &mut Value, old: Option<&Value>) {
    let Some(now) = object.get_mut("spec") else { return };
    for field in ["strategy", "preferredHolder"] {
        if !old.is_some_and(|old| spec(old).has(field)) {
            now.drop_field(field);
        }
    }
}

pub(super) fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    match old {
        None => metadata::validate(&object["metadata"], true, NameRule::Subdomain, errors),
        Some(old) => metadata::validate_update(&object["metadata"], &old["metadata"], errors),
    }
    let at = Path::Root("spec");
    let spec = spec(object);
    if let Some(seconds) = spec.opt_int("leaseDurationSeconds").filter(|s| *s <= 0) {
        errors.invalid(&at.child("leaseDurationSeconds"), &seconds, "must be greater than 0");
    }
    if let Some(transitions) = spec.opt_int("leaseTransitions").filter(|t| *t < 0) {
        let why = "must be greater than or equal to 0";
        errors.invalid(&at.child("leaseTransitions"), &transitions, why);
    }
    if !spec.text("preferredHolder").is_empty() && spec.text("strategy").is_empty() {
        errors.forbidden(&at.child("preferredHolder"), "may only be specified if `strategy` is defined");
    }
}

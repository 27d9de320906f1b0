//! Leases, after `pkg/registry/coordination/lease/strategy.go` and
//! `pkg/apis/coordination/validation`.

use serde_json::Value;

use crate::validation::metadata::{self, NameRule};
use crate::validation::{Errors, Path};
use crate::value::{Fields, spec};

use super::Strategy;

/// The strategy of Leases.
pub(crate) struct LeaseStrategy;

impl Strategy for LeaseStrategy {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, object: &mut Value) {
        drop_disabled_fields(object, None);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        metadata::validate(&object["metadata"], true, NameRule::Subdomain, errors);
        validate_spec(spec(object), errors);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        drop_disabled_fields(new, Some(old));
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
        validate_spec(spec(new), errors);
    }
}

/// Drops the fields of coordinated leader election, which is off by default, unless the old lease
/// has them.
fn drop_disabled_fields(object: &mut Value, old: Option<&Value>) {
    let Some(now) = object.get_mut("spec") else { return };
    for field in ["strategy", "preferredHolder"] {
        if !old.is_some_and(|old| spec(old).has(field)) {
            now.drop_field(field);
        }
    }
}

fn validate_spec(spec: &Value, errors: &mut Errors) {
    let at = Path::Root("spec");
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

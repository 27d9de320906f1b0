//! Namespaces, after `pkg/registry/core/namespace/strategy.go`.

use serde_json::{Value, json};

use crate::validation::metadata::{self, NameRule};
use crate::validation::names::qualified_name;
use crate::validation::{Errors, Path};
use crate::value::{Fields, spec};

use super::Strategy;

const KUBERNETES: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The strategy of Namespaces.
pub(crate) struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    fn set_defaults(&self, object: &mut Value) {
        let name = object["metadata"].text("name").to_owned();
        if !name.is_empty() {
            object.child("metadata").child("labels").set(NAME_LABEL, name);
        }
        object.child("status").set_default("phase", "Active");
    }

    fn prepare_for_create(&self, object: &mut Value) {
        object.set("status", json!({"phase": "Active"}));
        let mut finalizers: Vec<String> =
            spec(object).texts("finalizers").into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|f| f == KUBERNETES) {
            finalizers.push(KUBERNETES.to_owned());
        }
        object.child("spec").set("finalizers", finalizers);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        metadata::validate(&object["metadata"], false, NameRule::Label, errors);
        let at = Path::Root("spec.finalizers");
        for finalizer in spec(object).texts("finalizers") {
            errors.invalid_each(&at, finalizer, qualified_name(finalizer));
            metadata::validate_finalizer_name(finalizer, &at, errors);
        }
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("status", old);
        new.child("spec").copy("finalizers", spec(old));
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        self.validate(new, errors);
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
    }
}

/// The strategy of the status of Namespaces.
pub(crate) struct NamespaceStatusStrategy;

impl Strategy for NamespaceStatusStrategy {
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("spec", old);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
        let (want, when) = if new["metadata"].has("deletionTimestamp") {
            ("Terminating", "not empty")
        } else {
            ("Active", "empty")
        };
        let phase = new["status"].text("phase");
        if phase != want {
            let why = format!("may only be '{want}' if `deletionTimestamp` is {when}");
            errors.invalid(&Path::Root("status.Phase"), phase, &why);
        }
    }
}

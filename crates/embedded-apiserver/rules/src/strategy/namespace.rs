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
            object.make("metadata");
            if let Some(labels) = object.get_mut("metadata").and_then(|m| m.make("labels")) {
                labels.insert(NAME_LABEL.to_owned(), name.into());
            }
        }
        if let Some(status) = object.make("status")
            && !status.contains_key("phase")
        {
            status.insert("phase".to_owned(), "Active".into());
        }
    }

    fn prepare_for_create(&self, object: &mut Value) {
        object.set("status", json!({"phase": "Active"}));
        let mut finalizers: Vec<String> =
            spec(object).texts("finalizers").into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|f| f == KUBERNETES) {
            finalizers.push(KUBERNETES.to_owned());
        }
        if let Some(spec) = object.make("spec") {
            spec.insert("finalizers".to_owned(), finalizers.into());
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        metadata::validate(&object["metadata"], false, NameRule::Label, errors);
        let at = Path::Root("spec.finalizers");
        for finalizer in spec(object).texts("finalizers") {
            errors.invalid_each(&at, finalizer, qualified_name(finalizer));
            if !finalizer.contains('/') && !matches!(finalizer, KUBERNETES | "orphan" | "foregroundDeletion")
            {
                let why = "name is neither a standard finalizer name nor is it fully qualified";
                errors.invalid(&at, finalizer, why);
            }
        }
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("status", old);
        new.make("spec");
        if let Some(now) = new.get_mut("spec") {
            now.copy("finalizers", spec(old));
        }
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

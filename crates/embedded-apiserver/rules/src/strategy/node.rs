//! Nodes, after `pkg/registry/core/node/strategy.go` and `ValidateNode` of
//! `pkg/apis/core/validation`. This validates only the metadata: endpoint controllers read only
//! labels and conditions.

use serde_json::Value;

use crate::validation::Errors;
use crate::validation::metadata::{self, NameRule};
use crate::value::Fields;

use super::Strategy;

/// The strategy of Nodes.
pub(crate) struct NodeStrategy;

impl Strategy for NodeStrategy {
    fn set_defaults(&self, object: &mut Value) {
        // This synchronizes podCIDR and podCIDRs. podCIDR wins, since older clients know only that.
        if let Some(spec) = object.get_mut("spec") {
            let single = spec.text("podCIDR").to_owned();
            let first = spec.texts("podCIDRs").first().map(|c| (*c).to_owned());
            match first {
                Some(first) if single.is_empty() => spec.set("podCIDR", first),
                first if !single.is_empty() && first.as_deref() != Some(single.as_str()) => {
                    spec.set("podCIDRs", vec![single]);
                }
                _ => {}
            }
        }
        if let Some(status) = object.get_mut("status")
            && !status.has("allocatable")
            && let Some(capacity) = status.get("capacity").cloned()
        {
            status.set("allocatable", capacity);
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        metadata::validate(&object["metadata"], false, NameRule::Subdomain, errors);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("status", old);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        self.validate(new, errors);
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
    }
}

/// The strategy of the status of Nodes.
pub(crate) struct NodeStatusStrategy;

impl Strategy for NodeStatusStrategy {
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("spec", old);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
    }
}

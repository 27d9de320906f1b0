//! Nodes, after `pkg/registry/core/node/strategy.go` and `ValidateNode` of `pkg/apis/core/validation`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::quantity::Quantity;
use crate::validation::metadata::{self, NameRule};
use crate::validation::names::{label_value, qualified_name};
use crate::validation::{Errors, Path, Raw, ip};
use crate::value::{Fields, spec};

use super::Strategy;

/// The strategy of Nodes.
pub(crate) struct NodeStrategy;

impl Strategy for NodeStrategy {
    fn set_defaults(&self, object: &mut Value) {
        // podCIDR and podCIDRs are synchronized; podCIDR wins, since older clients know only that.
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

    fn prepare_for_create(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            spec.drop_field("configSource");
        }
        if let Some(status) = object.get_mut("status") {
            status.drop_field("config");
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        metadata::validate(&object["metadata"], false, NameRule::Subdomain, errors);
        validate_taints(object, errors);
        validate_resources(object, errors);
        let at = Path::Root("spec.podCIDRs");
        let cidrs = spec(object).texts("podCIDRs");
        for (index, cidr) in cidrs.iter().enumerate() {
            ip::legacy_cidr(errors, &at.index(index), cidr, &[]);
        }
        if cidrs.len() > 1 && (cidrs.len() > 2 || !ip::is_dual_stack_cidrs(&cidrs)) {
            let why = "may specify no more than one CIDR for each IP family";
            errors.invalid(&at, cidrs.as_slice(), why);
        }
    }

    fn warnings_on_create(&self, object: &Value) -> Vec<String> {
        let spec = spec(object);
        let mut warnings = Vec::new();
        if spec.has("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.text("externalID").is_empty() {
            let text = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(text.to_owned());
        }
        for (index, cidr) in spec.texts("podCIDRs").iter().enumerate() {
            ip::cidr_warnings(&mut warnings, &Path::Root("spec.podCIDRs").index(index), cidr);
        }
        warnings
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("status", old);
        if !spec(old).has("configSource")
            && let Some(spec) = new.get_mut("spec")
        {
            spec.drop_field("configSource");
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        self.validate(new, errors);
        validate_change(new, old, errors);
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
    }

    fn warnings_on_update(&self, new: &Value) -> Vec<String> {
        self.warnings_on_create(new)
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
        validate_change(new, old, errors);
    }
}

/// Validates an update of a node or of its status.
fn validate_change(object: &Value, old: &Value, errors: &mut Errors) {
    validate_resources(object, errors);
    let mut seen = Vec::new();
    for (index, address) in object["status"].list("addresses").iter().enumerate() {
        if seen.contains(&address) {
            let (kind, value) = (json!(address.text("type")), json!(address.text("address")));
            let shown = format!("{{\"Type\":{kind},\"Address\":{value}}}");
            errors.duplicate(&Path::Root("status.addresses").index(index), &Raw(shown));
        }
        seen.push(address);
    }
    let (now, before) = (spec(object), spec(old));
    let only_from_empty =
        |field: &str| format!("node updates may not change {field} except from \"\" to valid");
    let cidrs = before.texts("podCIDRs");
    if !cidrs.is_empty() && cidrs != now.texts("podCIDRs") {
        errors.forbidden(&Path::Root("spec.podCIDRs"), &only_from_empty("podCIDR"));
    }
    let provider = before.text("providerID");
    if !provider.is_empty() && provider != now.text("providerID") {
        errors.forbidden(&Path::Root("spec.providerID"), &only_from_empty("providerID"));
    }
    validate_taints(object, errors);
    if now.text("externalID") != before.text("externalID") {
        errors.forbidden(&Path::Root("spec.externalID"), "may not be updated");
    }
}

fn validate_taints(object: &Value, errors: &mut Errors) {
    // Upstream reports taints under metadata.
    let at = Path::Root("metadata.taints");
    let mut seen = BTreeSet::new();
    for (index, taint) in spec(object).list("taints").iter().enumerate() {
        let at = at.index(index);
        let (key, effect) = (taint.text("key"), taint.text("effect"));
        errors.invalid_each(&at.child("key"), key, qualified_name(key));
        let value = label_value(taint.text("value"));
        if !value.is_empty() {
            errors.invalid(&at.child("value"), taint.text("value"), &value.join(";"));
        }
        const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            errors.required(&at.child("effect"), "");
        } else if !EFFECTS.contains(&effect) {
            errors.not_supported(&at.child("effect"), effect, &EFFECTS);
        }
        if !seen.insert((key, effect)) {
            // Upstream prints its internal type, whose fields have Go names.
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                json!(key),
                json!(taint.text("value")),
                json!(effect),
                taint["timeAdded"]
            );
            errors.duplicate_because(&at, &Raw(shown), "taints must be unique by key and effect pair");
        }
    }
}

fn validate_resources(object: &Value, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        let at = Path::Root("status").child(list).to_string();
        for (name, amount) in object["status"].entries(list) {
            let at = Path::Root(&at);
            let at = at.child(name);
            let Some(quantity) = Quantity::parse(amount) else { continue };
            if quantity.is_negative() {
                errors.invalid(&at, amount, "must be greater than or equal to 0");
            }
            if !quantity.is_whole() && matches!(name, "pods" | "services") {
                errors.invalid(&at, amount, "must be an integer");
            }
        }
    }
}

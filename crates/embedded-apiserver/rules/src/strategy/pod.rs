//! Pods: which fields are reset, kept and computed, after `pkg/registry/core/pod/strategy.go`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::quantity::Quantity;
use crate::validation::{Errors, Path, ip, metadata, pod, pod_change, pod_status};
use crate::value::{Fields, spec};

use super::Strategy;
use super::pod_defaults::{self, sync_pod_ips};

/// The strategy of Pods.
pub(crate) struct PodStrategy;

impl Strategy for PodStrategy {
    fn set_defaults(&self, object: &mut Value) {
        pod_defaults::set_defaults(object);
    }

    fn prepare_for_create(&self, object: &mut Value) {
        tolerate_for_a_while(object, AWAY.into_iter());
        if let Some(meta) = object.make("metadata") {
            meta.insert("generation".to_owned(), 1.into());
        }
        let mut status = json!({"phase": "Pending", "qosClass": qos_class(object)});
        if !spec(object).list("schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null,
                "lastTransitionTime": null,
            }]);
        }
        object.set("status", status);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        pod::validate_new(object, errors);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("status", old);
        // The plugin handles updates too. A pod that was loaded without these tolerations does not get them.
        tolerate_for_a_while(new, AWAY.into_iter().filter(|taint| tolerates(old, taint)));
        if spec(old) != spec(new) {
            let generation = old["metadata"].int("generation") + 1;
            if let Some(meta) = new.make("metadata") {
                meta.insert("generation".to_owned(), generation.into());
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        pod_change::validate(new, old, errors);
    }
}

/// The strategy of the status of Pods.
pub(crate) struct PodStatusStrategy;

impl Strategy for PodStatusStrategy {
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("spec", old);
        if let Some(meta) = new.get_mut("metadata") {
            // Old kubelets corrupt owner references.
            meta.copy("ownerReferences", &old["metadata"]);
            meta.copy("deletionTimestamp", &old["metadata"]);
        }
        new.make("status");
        let Some(status) = new.get_mut("status") else { return };
        let before = &old["status"];
        sync_pod_ips(status);
        for field in ["qosClass", "observedGeneration"] {
            if !status.has(field) {
                status.copy(field, before);
            }
        }
        let mut generations: BTreeMap<&str, std::collections::VecDeque<i64>> = BTreeMap::new();
        for condition in before.list("conditions") {
            generations
                .entry(condition.text("type"))
                .or_default()
                .push_back(condition.int("observedGeneration"));
        }
        for condition in status.items_mut("conditions") {
            let known = generations.get_mut(condition.text("type")).and_then(|g| g.pop_front()).unwrap_or(0);
            if known != 0 {
                condition.set_default("observedGeneration", known);
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
        pod_status::validate(new, old, errors);
    }

    fn warnings_on_update(&self, new: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        for list in ["podIPs", "hostIPs"] {
            let root = Path::Root("status");
            let at = root.child(list);
            for (index, item) in new["status"].list(list).iter().enumerate() {
                ip::warnings(&mut warnings, &at.index(index).child("ip"), item.text("ip"));
            }
        }
        warnings
    }
}

/// The taints of a node that is not ready or unreachable.
const AWAY: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

fn tolerates(object: &Value, taint: &str) -> bool {
    spec(object).list("tolerations").iter().any(|t| {
        (t.text("key").is_empty() || t.text("key") == taint) && matches!(t.text("effect"), "" | "NoExecute")
    })
}

/// Adds the tolerations of the admission plugin DefaultTolerationSeconds: a pod stays for five minutes on such a
/// node.
fn tolerate_for_a_while(object: &mut Value, taints: impl Iterator<Item = &'static str>) {
    let added: Vec<Value> = taints
        .filter(|taint| !tolerates(object, taint))
        .map(|taint| {
            json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
        })
        .collect();
    if added.is_empty() {
        return;
    }
    let all = [spec(object).list("tolerations"), &added].concat();
    if let Some(spec) = object.make("spec") {
        spec.insert("tolerations".to_owned(), all.into());
    }
}

/// The QoS class that follows from a pod's requests and limits of CPU and memory.
fn qos_class(object: &Value) -> &'static str {
    type Sums = BTreeMap<&'static str, i128>;
    fn add(sums: &mut Sums, list: &Value) -> usize {
        let mut found = 0;
        for name in ["cpu", "memory"] {
            let amount = list.opt_text(name).and_then(Quantity::parse).map_or(0, Quantity::amount);
            if amount > 0 {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(amount);
                found += 1;
            }
        }
        found
    }
    let spec = spec(object);
    let (mut requests, mut limits) = (Sums::new(), Sums::new());
    let mut guaranteed = true;
    if spec.has("resources") {
        add(&mut requests, &spec["resources"]["requests"]);
        guaranteed = add(&mut limits, &spec["resources"]["limits"]) == 2;
    } else {
        for container in ["initContainers", "containers"].iter().flat_map(|list| spec.list(list)) {
            add(&mut requests, &container["resources"]["requests"]);
            guaranteed &= add(&mut limits, &container["resources"]["limits"]) == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

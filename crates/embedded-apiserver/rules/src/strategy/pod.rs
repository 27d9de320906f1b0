//! Pods: resets, keeps and computes fields, after `pkg/registry/core/pod/strategy.go`.

use serde_json::{Value, json};

use crate::validation::{Errors, Path, ip, metadata, pod};
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
        tolerate_for_a_while(object);
        object.child("metadata").set("generation", 1);
        object.set("status", json!({"phase": "Pending", "qosClass": qos_class(object)}));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        pod::validate(object, errors);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("status", old);
        if spec(old) != spec(new) {
            let generation = old["metadata"].int("generation").wrapping_add(1);
            new.child("metadata").set("generation", generation);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        pod::validate_change(new, old, errors);
    }
}

/// The strategy of the status of Pods.
pub(crate) struct PodStatusStrategy;

impl Strategy for PodStatusStrategy {
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("spec", old);
        let meta = new.child("metadata");
        // Old kubelets corrupt owner references.
        meta.copy("ownerReferences", &old["metadata"]);
        meta.copy("deletionTimestamp", &old["metadata"]);
        let status = new.child("status");
        sync_pod_ips(status);
        for field in ["qosClass", "observedGeneration"] {
            if !status.has(field) {
                status.copy(field, &old["status"]);
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
        pod::validate_status(new, old, errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
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

/// Adds the tolerations of the admission plugin DefaultTolerationSeconds to a new pod: it stays for
/// five minutes on a node that is not ready or unreachable.
fn tolerate_for_a_while(object: &mut Value) {
    let mut tolerations = spec(object).list("tolerations").to_vec();
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|known| {
            (known.text("key").is_empty() || known.text("key") == taint)
                && matches!(known.text("effect"), "" | "NoExecute")
        });
        if !tolerated {
            tolerations.push(
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    object["spec"].set("tolerations", tolerations);
}

/// Returns the QoS class that follows from the requests and limits of CPU and memory. It compares
/// these as text.
fn qos_class(object: &Value) -> &'static str {
    const NAMES: [&str; 2] = ["cpu", "memory"];
    let lists = ["initContainers", "containers"].iter().flat_map(|list| spec(object).list(list));
    let resources: Vec<_> = lists.map(|c| (&c["resources"]["requests"], &c["resources"]["limits"])).collect();
    let is_fixed = |requests: &Value, limits: &Value| {
        NAMES.iter().all(|name| {
            limits.has(name) && requests.opt_text(name).is_none_or(|r| limits.opt_text(name) == Some(r))
        })
    };
    let is_given = |list: &Value| NAMES.iter().any(|name| list.has(name));
    if resources.iter().all(|(requests, limits)| is_fixed(requests, limits)) {
        "Guaranteed"
    } else if resources.iter().any(|(requests, limits)| is_given(requests) || is_given(limits)) {
        "Burstable"
    } else {
        "BestEffort"
    }
}

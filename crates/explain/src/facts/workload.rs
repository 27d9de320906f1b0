//! Workloads: the labels of the pods that they make, and why they make none.

use std::collections::BTreeMap;
use std::fmt;

use kube_endpoint_core_model::label_selector::LabelSelectorFields;
use kube_endpoint_core_model::{LabelSelector, ObjectKey, StringMap, Text, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::facts::json::{each, pairs, text, time};

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) kind: Text,
    pub(crate) key: ObjectKey,
    /// The labels of its pods.
    pub(crate) labels: StringMap,
    /// The labels by which it knows its pods, if its selector can be read.
    pub(crate) selector: Option<LabelSelector>,
    /// True if another workload made it.
    pub(crate) is_owned: bool,
    /// How a Deployment made it, if it is a ReplicaSet of one.
    pub(crate) rollout: Option<Rollout>,
    /// The reason why it makes no pods, if there is one.
    pub(crate) idle: Option<Idle>,
}

/// The creation of a ReplicaSet by its Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rollout {
    pub(crate) deployment: Text,
    /// The number that `kubectl rollout history` prints, or empty.
    pub(crate) revision: Text,
    pub(crate) at: Timestamp,
}

impl Rollout {
    fn read(object: &Value) -> Option<Self> {
        let metadata = &object["metadata"];
        Some(Self {
            deployment: maker_of(object).filter(|(kind, _)| *kind == "Deployment")?.1,
            revision: text(&metadata["annotations"]["deployment.kubernetes.io/revision"]).into(),
            at: time(&metadata["creationTimestamp"])?,
        })
    }
}

/// A workload that makes no pods. Prints as `Deployment web is scaled to zero`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleWorkload {
    pub kind: Text,
    pub name: Text,
    #[serde(flatten)]
    pub idle: Idle,
}

impl IdleWorkload {
    /// Reads a workload. Returns `None` if it makes pods, or its kind makes none.
    pub fn read(kind: &str, object: &Value) -> Option<Self> {
        Workload::read(kind, object)?.why_idle()
    }
}

impl fmt::Display for IdleWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, idle } = self;
        write!(f, "{kind} {name} ")?;
        match idle {
            Idle::NoReplicas { by: Some(by), at: Some(at) } => {
                write!(f, "is scaled to zero (by {by}, {at})")
            }
            Idle::NoReplicas { .. } => write!(f, "is scaled to zero"),
            Idle::Paused => write!(f, "is paused and makes no pods"),
            Idle::Unseen => write!(f, "makes no pods: no controller has looked at it yet"),
            Idle::Suspended => write!(f, "is suspended"),
            Idle::BetweenRuns { schedule } => {
                write!(f, "has pods only while one of its Jobs runs, by its schedule {schedule}")
            }
            Idle::Finished { as_failed: true, message } if !message.is_empty() => {
                write!(f, "has failed: {}", message.trim_end_matches('.'))
            }
            Idle::Finished { as_failed: true, .. } => write!(f, "has failed"),
            Idle::Finished { .. } => write!(f, "has completed"),
            Idle::NoNode { node_selector } if node_selector.is_empty() => write!(f, "matches no node"),
            Idle::NoNode { node_selector } => {
                write!(f, "matches no node: its nodeSelector is {node_selector}")
            }
            Idle::Refused { message } => {
                write!(f, "cannot create pods: {}", message.trim_end_matches('.'))
            }
            Idle::OtherLabels { selector } => {
                write!(f, "makes no pods: its template lacks the labels of its own selector, {selector}")
            }
        }
    }
}

impl IdleWorkload {
    /// Returns what makes the workload create pods, as a sentence without a full stop.
    pub(crate) fn advice(&self) -> String {
        let of = format!("{} {}", self.kind, self.name);
        match &self.idle {
            Idle::NoReplicas { .. } => format!("Scale {of} up, if clients should get an answer"),
            Idle::Paused => format!("Resume the rollout of {of}"),
            Idle::Unseen if *self.kind == *"Rollout" => {
                format!("Look at the controller of Argo Rollouts, which makes the pods of {of}")
            }
            Idle::Unseen => format!(
                "Look at kube-controller-manager, which makes the pods of {of}: it does not run, or may not write"
            ),
            Idle::Suspended => format!("Resume {of}"),
            Idle::BetweenRuns { .. } => format!(
                "Nothing, if clients need an answer only while a Job of {of} runs; else run the program in a Deployment"
            ),
            Idle::Finished { .. } => format!(
                "Start pods that keep running in place of {of}; if the work is done, delete the Service"
            ),
            Idle::NoNode { node_selector } if node_selector.is_empty() => {
                format!("Let {of} tolerate the taints of the nodes, or match their labels")
            }
            Idle::NoNode { node_selector } => {
                format!("Give the nodes of {of} the labels {node_selector}, or correct its nodeSelector")
            }
            Idle::Refused { .. } => {
                format!("Remove the cause that the message names; {of} then creates its pods")
            }
            Idle::OtherLabels { .. } => format!("Give {of} the same labels in its selector and its template"),
        }
    }
}

/// The reason why a workload makes no pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Idle {
    /// `spec.replicas` is 0.
    NoReplicas {
        /// The field manager that set it, such as `kubectl`, and when.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Text>,
        #[serde(skip_serializing_if = "Option::is_none")]
        at: Option<String>,
    },
    /// A paused Deployment makes no ReplicaSet for its template.
    Paused,
    /// No controller has written a status.
    Unseen,
    /// A suspended Job or CronJob.
    Suspended,
    /// A CronJob whose Jobs do not run now.
    BetweenRuns { schedule: Text },
    /// A Job that has completed, or failed.
    Finished { as_failed: bool, message: Text },
    /// No node matches the template of a DaemonSet.
    NoNode { node_selector: String },
    /// The API server refuses the pods. The message of the condition.
    Refused { message: Text },
    /// It would not know its pods: its selector asks for other labels than those of its template.
    OtherLabels {
        #[serde(skip)]
        selector: String,
    },
}

/// The kinds of workloads that make pods.
pub const WORKLOADS: [&str; 8] = [
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
    "Rollout",
];

/// The group of Argo Rollouts.
const ROLLOUTS: &str = "argoproj.io/";

impl Workload {
    /// Reads a workload. Returns `None` if the kind is another one.
    pub(crate) fn read(kind: &str, object: &Value) -> Option<Self> {
        let is_of_others = |version: &str| kind == "Rollout" && !version.starts_with(ROLLOUTS);
        if !WORKLOADS.contains(&kind) || object["apiVersion"].as_str().is_some_and(is_of_others) {
            return None;
        }
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        let of_pods = if kind == "CronJob" { &spec["jobTemplate"]["spec"] } else { spec };
        let labels = pairs(&of_pods["template"]["metadata"]["labels"]);
        let labels: StringMap = labels.map(|(key, value)| (key.clone(), text(value).to_owned())).collect();
        let key = ObjectKey::new(text(&metadata["namespace"]), text(&metadata["name"]));
        // A server has given each one a selector; manifests of Jobs have none, nor do CronJobs.
        let selector = Some(&spec["selector"]).filter(|selector| selector.is_object());
        let fields = selector.and_then(|selector| match kind {
            "ReplicationController" => {
                let match_labels = BTreeMap::deserialize(selector).ok()?;
                Some(LabelSelectorFields { match_labels, ..LabelSelectorFields::default() })
            }
            _ => LabelSelectorFields::deserialize(selector).ok(),
        });
        let selector = fields.and_then(|fields| LabelSelector::try_from(&fields).ok());
        let is_owned = owner(object).is_some_and(|owner| WORKLOADS.contains(&text(&owner["kind"])));
        let rollout = Some(object).filter(|_| kind == "ReplicaSet").and_then(Rollout::read);
        let misses = selector.as_ref().filter(|selector| !selector.matches(&labels));
        let other_labels = misses.map(|selector| Idle::OtherLabels { selector: selector.to_string() });
        Some(Self {
            idle: other_labels.or_else(|| Idle::read(kind, object)),
            kind: kind.into(),
            key,
            labels,
            selector,
            is_owned,
            rollout,
        })
    }

    /// Returns the reason why it makes no pods.
    pub(crate) fn why_idle(&self) -> Option<IdleWorkload> {
        let Self { kind, key, idle, .. } = self;
        Some(IdleWorkload { kind: kind.clone(), name: key.name.clone(), idle: idle.clone()? })
    }
}

/// Returns the reference to the controller that made an object.
fn owner(object: &Value) -> Option<&Value> {
    each(&object["metadata"]["ownerReferences"]).find(|owner| owner["controller"] == true)
}

/// Returns kind and name of the Deployment, or the Rollout, that made a ReplicaSet.
pub fn maker_of(replica_set: &Value) -> Option<(&'static str, Text)> {
    let owner = owner(replica_set)?;
    let kind = ["Deployment", "Rollout"].into_iter().find(|kind| owner["kind"] == *kind)?;
    Some((kind, owner["name"].as_str()?.into()))
}

impl Idle {
    fn read(kind: &str, object: &Value) -> Option<Self> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let condition =
            |name: &str| each(&status["conditions"]).find(|it| it["type"] == name && it["status"] == "True");
        let message = |condition: &Value| Text::from(text(&condition["message"]));
        match kind {
            "Job" | "CronJob" if spec["suspend"] == true => return Some(Self::Suspended),
            "CronJob" => {
                let waits = each(&object["status"]["active"]).next().is_none();
                return waits.then(|| Self::BetweenRuns { schedule: text(&spec["schedule"]).into() });
            }
            "Job" => {
                let ended = |name: &str, as_failed| {
                    Some(Self::Finished { as_failed, message: message(condition(name)?) })
                };
                return ended("Failed", true).or_else(|| ended("Complete", false));
            }
            "DaemonSet" => {
                let selector = pairs(&spec["template"]["spec"]["nodeSelector"]);
                let pairs = selector.map(|(key, value)| format!("{key}={}", text(value)));
                let node_selector = pairs.collect::<Vec<_>>().join(",");
                // A controller has looked at this version, and found no node for it.
                let is_seen = object["metadata"]["generation"] == status["observedGeneration"];
                let has_none = is_seen && status["desiredNumberScheduled"] == 0;
                return has_none.then_some(Self::NoNode { node_selector });
            }
            _ => {}
        }
        if spec["replicas"] == 0 {
            let (by, at) = last_scaled(&object["metadata"]).unzip();
            return Some(Self::NoReplicas { by, at });
        }
        if let Some(refused) = condition("ReplicaFailure") {
            return Some(Self::Refused { message: message(refused) });
        }
        if spec["paused"] == true {
            return Some(Self::Paused);
        }
        // A server counts the generations; a manifest has none.
        let is_stored = object["metadata"]["generation"].is_number();
        (is_stored && status["observedGeneration"].is_null()).then_some(Self::Unseen)
    }
}

/// Returns the field manager that set the number of replicas last, and when.
fn last_scaled(metadata: &Value) -> Option<(Text, String)> {
    let sets = |entry: &&Value| {
        let fields = &entry["fieldsV1"];
        !fields["f:spec"]["f:replicas"].is_null()
    };
    let entry = each(&metadata["managedFields"]).filter(sets).max_by_key(|entry| time(&entry["time"]))?;
    Some((text(&entry["manager"]).into(), text(&entry["time"]).to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reason_why_a_workload_makes_no_pods_is_read() {
        let check = |kind: &str, spec: Value, status: Value, want: Option<Idle>| {
            let object =
                json!({"metadata": {"name": "web", "generation": 2}, "spec": spec, "status": status});
            assert_eq!(Workload::read(kind, &object).unwrap().idle, want, "{kind}");
        };
        let seen = json!({"observedGeneration": 1});
        check("Deployment", json!({"replicas": 1}), seen.clone(), None);
        check("Deployment", json!({"replicas": 1}), json!({}), Some(Idle::Unseen));
        let manifest = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
        assert_eq!(Workload::read("Deployment", &manifest).unwrap().idle, None);
        check("Deployment", json!({"replicas": 0}), json!({}), Some(Idle::NoReplicas { by: None, at: None }));
        check("Deployment", json!({"replicas": 2, "paused": true}), seen, Some(Idle::Paused));
        let refused = json!({"observedGeneration": 2, "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]});
        check(
            "ReplicaSet",
            json!({"replicas": 1}),
            refused,
            Some(Idle::Refused { message: "exceeded quota".into() }),
        );
        check("Job", json!({"suspend": true}), json!({}), Some(Idle::Suspended));
        let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let ended = Idle::Finished { as_failed: false, message: "".into() };
        check("Job", json!({}), complete, Some(ended));
        let template = json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}});
        let no_node = Idle::NoNode { node_selector: "disk=ssd".into() };
        let none = json!({"desiredNumberScheduled": 0, "observedGeneration": 2});
        check("Rollout", json!({"replicas": 0}), json!({}), Some(Idle::NoReplicas { by: None, at: None }));
        let waits = Idle::BetweenRuns { schedule: "0 3 * * *".into() };
        check("CronJob", json!({"schedule": "0 3 * * *"}), json!({}), Some(waits));
        check("CronJob", json!({"suspend": true}), json!({}), Some(Idle::Suspended));
        check("CronJob", json!({}), json!({"active": [{"name": "web-1"}]}), None);
        check("DaemonSet", template.clone(), none, Some(no_node));
        let other = Idle::OtherLabels { selector: "app=web".to_owned() };
        let of = |label: &str| json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": label}}}});
        check("Deployment", of("wbe"), json!({"observedGeneration": 1}), Some(other));
        check("Deployment", of("web"), json!({"observedGeneration": 1}), None);
        let other = Idle::OtherLabels { selector: "app=web".to_owned() };
        let of = |label: &str| json!({"selector": {"app": "web"}, "template": {"metadata": {"labels": {"app": label}}}});
        check("ReplicationController", of("wbe"), json!({"observedGeneration": 1}), Some(other));
        check("DaemonSet", template, json!({"desiredNumberScheduled": 0, "observedGeneration": 1}), None);
    }

    #[test]
    fn who_scaled_a_workload_last_is_told() {
        let entry = |manager: &str, time: &str| json!({"manager": manager, "time": time, "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let metadata = json!({"name": "web", "managedFields": [
            entry("helm", "2026-01-01T00:00:00Z"), entry("kubectl", "2026-01-02T00:00:00Z"),
            {"manager": "other", "time": "2026-01-03T00:00:00Z", "fieldsV1": {"f:status": {}}}]});
        let read =
            Workload::read("Deployment", &json!({"metadata": metadata, "spec": {"replicas": 0}})).unwrap();
        let want =
            Idle::NoReplicas { by: Some("kubectl".into()), at: Some("2026-01-02T00:00:00Z".to_owned()) };
        assert_eq!(read.idle, Some(want));
    }

    /// An owned ReplicaSet is not the work of another workload.
    #[test]
    fn a_replica_set_of_a_deployment_is_owned() {
        for (kind, is_owned) in
            [("Deployment", true), ("Rollout", true), ("CronJob", true), ("Postgres", false)]
        {
            let owner = json!([{"kind": kind, "name": "web", "controller": true}]);
            let object =
                json!({"metadata": {"name": "web-1", "ownerReferences": owner}, "spec": {"replicas": 0}});
            assert_eq!(Workload::read("ReplicaSet", &object).unwrap().is_owned, is_owned, "{kind}");
            assert_eq!(maker_of(&object).is_some(), kind == "Deployment" || kind == "Rollout");
        }
        assert_eq!(Workload::read("Service", &json!({})), None);
        let rollout = |version: &str| json!({"apiVersion": version, "metadata": {"name": "web"}});
        assert!(Workload::read("Rollout", &rollout("argoproj.io/v1alpha1")).is_some());
        assert_eq!(Workload::read("Rollout", &rollout("example.com/v1")), None);
    }
}

//! The smallest clusters in which findings hold, and those that differ from them in one thing.

#[path = "../../tests/fault_manifests.rs"]
mod fault_manifests;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_testing::Cluster;
use serde_json::Value;
pub(super) use serde_json::json;

pub(super) use crate::answers::explain::explain;
pub(super) use crate::answers::lint::{LintOptions, lint};
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::facts::raw::PodOwner;
use crate::facts::remedy::{Remedy, Step};
pub(super) use crate::findings::Code;
use crate::findings::pod_reason::PodsOf;

/// A cluster in which the Service `web` of the namespace `default` may have findings.
#[derive(Clone)]
pub(super) struct Example {
    fault: fault_manifests::Fault,
}

/// Returns the cluster of a manifest of `integration-tests/faults`, without `.yaml`.
pub(super) fn example(name: &str) -> Example {
    Example { fault: fault_manifests::manifest(&format!("{name}.yaml")) }
}

fn is(object: &Value, kind_and_name: &str) -> bool {
    let name = object["metadata"]["name"].as_str();
    kind_and_name.split_once('/') == object["kind"].as_str().zip(name)
}

impl Example {
    /// Changes an object, such as `Pod/web-1`, by a merge patch. The controllers write after it.
    pub(super) fn with(mut self, object: &str, patch: Value) -> Self {
        let changed = self.fault.objects.iter_mut().find(|it| is(it, object));
        json_patch::merge(changed.unwrap_or_else(|| panic!("there is no {object}")), &patch);
        self
    }

    /// Returns an object.
    pub(super) fn object(&self, object: &str) -> Value {
        let mut all = self.fault.objects.iter();
        all.find(|it| is(it, object)).unwrap_or_else(|| panic!("there is no {object}")).clone()
    }

    /// Removes an object.
    pub(super) fn without(mut self, object: &str) -> Self {
        let before = self.fault.objects.len();
        self.fault.objects.retain(|it| !is(it, object));
        assert!(self.fault.objects.len() < before, "there is no {object}");
        self
    }

    /// Adds an object.
    pub(super) fn and(mut self, object: Value) -> Self {
        self.fault.objects.push(object);
        self
    }

    /// Lets the reader read all kinds.
    pub(super) fn readable(mut self) -> Self {
        self.fault.forbidden.clear();
        self
    }

    /// Lets all controllers run.
    pub(super) fn served(mut self) -> Self {
        self.fault.controllers = None;
        self
    }

    /// Returns true if the verdict of `explain` contains a text.
    pub(super) fn says(&self, text: &str) -> bool {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let options = self.fault.options();
        let objects = self.fault.readable(&self.fault.settled(now, &options));
        let web = ObjectKey::new("default", "web");
        let explained = explain(&objects, &web, &objects.topology(), now, None, &options);
        explained.is_some_and(|explained| explained.verdict.message.contains(text))
    }

    /// Returns true if `explain` or `lint` tells this code after the controllers have written.
    pub(super) fn finds(&self, code: Code) -> bool {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let options = self.fault.options();
        let objects = self.fault.readable(&self.fault.settled(now, &options));
        let options = options.with_known(self.fault.known());
        let web = ObjectKey::new("default", "web");
        let explained = explain(&objects, &web, &objects.topology(), now, None, &options);
        let all = LintOptions { include_info: true, ..LintOptions::default() };
        let linted = lint(&objects, now, &options, &all).with_root_cause(now);
        explained.is_some_and(|explained| explained.codes().contains(&code))
            || linted.problems.iter().any(|lint| lint.code == code)
    }
}

/// Returns the code of the only pod of a Service, changed by a merge patch.
pub(super) fn code_of(patch: Value) -> Code {
    let cluster = Cluster::new().node("a").service("web").pods("web", 1).select("Pod", "web-1");
    let cluster = cluster.change(|pod| json_patch::merge(pod, &patch));
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let (now, web) = ("2026-01-01T00:10:00Z".parse().unwrap(), ObjectKey::new("default", "web"));
    let options = Options::default();
    let reason = explain(&objects, &web, &objects.topology(), now, None, &options).unwrap().pods.remove(0);
    // Nobody writes slices here.
    Some(reason.code()).filter(|code| *code != Code::NotWritten).unwrap_or(Code::Published)
}

/// Returns a patch that gives a pod these conditions, and no others.
pub(super) fn with_conditions(conditions: &[(&str, &str)]) -> Value {
    let conditions: Vec<Value> =
        conditions.iter().map(|(name, status)| json!({"type": name, "status": status})).collect();
    json!({"status": {"conditions": conditions}})
}

/// Prints the remedies for pods of each owner. Nothing in them ends a pod, and one that nothing
/// makes again is saved first.
pub(super) fn of_each_owner(remedy: impl Fn(PodOwner, &PodsOf<'_>) -> Remedy) -> String {
    let service = ObjectKey::new("default", "web");
    let pods = PodsOf { service: &service, pod: "web-1", is_alone: false };
    let all = [PodOwner::Nobody, PodOwner::StatefulSet, PodOwner::DaemonSet, PodOwner::Node, PodOwner::Other];
    let texts = all.map(|owner| {
        let remedy = remedy(owner, &pods);
        assert!(!remedy.steps.iter().any(Step::changes), "{remedy:?}");
        let is_saved = remedy.commands().any(|command| command.ends_with("-o yaml"));
        assert_eq!(is_saved, owner == PodOwner::Nobody);
        format!("{owner:?}\n  {}", remedy.sentence)
    });
    texts.join("\n")
}

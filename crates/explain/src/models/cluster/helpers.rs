//! The pods of programs that each Service needs: kube-proxy and the DNS servers.

use kube_endpoint_core_model::{NodeLookup, ObjectKey, Pod, Text, Timestamp};
use serde::Serialize;

use crate::facts::age;
use crate::facts::lease::SYSTEM;
use crate::facts::objects::Objects;

/// A pod that is not ready for fewer seconds may only be starting.
const STARTS: i64 = 60;

/// A program that runs in kube-system under a label that kubeadm and others give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Helper {
    KubeProxy,
    Dns,
}

impl Helper {
    /// Returns the value of the label `k8s-app` of its pods.
    pub fn label(self) -> &'static str {
        match self {
            Self::KubeProxy => "kube-proxy",
            Self::Dns => "kube-dns",
        }
    }
}

/// The pods of such a program that are not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NotReadyPods {
    pub program: Helper,
    pub pods: Vec<Text>,
    /// Their nodes.
    pub nodes: Vec<Text>,
    /// The number of all of its pods.
    pub of: usize,
}

impl NotReadyPods {
    /// Returns the pods of a program that are not ready for some time, on nodes that are ready.
    pub(crate) fn of(objects: &Objects, program: Helper, now: Timestamp) -> Option<Self> {
        let selector = [("k8s-app", program.label())].into_iter().collect();
        let all = objects.selected(&SYSTEM.into(), &selector);
        let all: Vec<&Pod> =
            all.iter().map(|pod| &**pod).filter(|pod| !pod.is_terminal() && !pod.is_terminating()).collect();
        let failing: Vec<&&Pod> = all.iter().filter(|pod| is_failing(objects, pod, now)).collect();
        let pods: Vec<Text> = failing.iter().map(|pod| pod.key.name.clone()).collect();
        let mut nodes: Vec<Text> = failing.iter().filter_map(|pod| pod.node_name.clone()).collect();
        nodes.sort();
        nodes.dedup();
        (!pods.is_empty()).then(|| Self { program, pods, nodes, of: all.len() })
    }

    /// Returns the name under which `lint` lists it.
    pub(crate) fn object(&self) -> ObjectKey {
        ObjectKey::new(SYSTEM, self.program.label())
    }
}

fn is_failing(objects: &Objects, pod: &Pod, now: Timestamp) -> bool {
    let Some(details) = objects.pod_details.get(&pod.key).filter(|_| !pod.is_ready()) else { return false };
    // A node that is not ready is the cause.
    let node = pod.node_name.as_deref().and_then(|name| objects.nodes.node(name));
    let since = details.condition("Ready").and_then(|ready| ready.last_transition_time).or(details.created);
    node.is_none_or(|node| node.ready) && since.is_some_and(|since| age::since(since, now) >= STARTS)
}

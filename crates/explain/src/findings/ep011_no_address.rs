//! The pod has no IP address yet.

use kube_endpoint_core_model::LeftOut;

use crate::facts::age;
use crate::facts::details::write_optional_time;
use crate::findings::pod_reason::{common, distinct, first_few, reported};
use crate::findings::prelude::*;

about! {
    /// The scheduler has bound the pod to a node, and its status has no address. Usually the
    /// network plugin has not finished, or a container that must run first does not (EP020). If the
    /// node is not ready, the message has what the node says about that. Otherwise it has the last
    /// warning about the pod, such as `FailedAttachVolume` or `FailedMount`, if the events of the
    /// pod are among the objects. A `postStart` hook that does not return has the same effect,
    /// because the kubelet reports on the pod only after it. Five minutes after the creation of the
    /// pod the advice is no longer to wait.
    EP011 "no-address" Warning
    "The pod has no IP address yet."
}

/// The age in seconds from which on a pod without an address waits for something that does not
/// come: images are pulled later.
const LONG: i64 = 300;

/// The known facts about a pod that is on a node and has no address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoAddress {
    /// Time of the pod's creation.
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The age of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    pub node: Text,
    /// The message of the node's Ready condition, or empty, if the node is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent: Option<Text>,
    /// The first container with a `postStart` hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<Text>,
    /// The reason of the last warning about the pod, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: Text,
    /// The message of that warning.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Text,
}

/// Reasons of warnings, words of their messages, and what to do. The first that fits counts.
const WARNINGS: [(&str, &str, Person, &str); 6] = [
    (
        "FailedAttachVolume",
        "Multi-Attach",
        ClusterAdministrator,
        "Look at the pod that had the volume before, and at its node: the volume is free once that pod has ended; detach it by force only if that machine is surely off, because two writers destroy its data",
    ),
    (
        "FailedAttachVolume",
        "",
        ClusterAdministrator,
        "Look at the volume and at its CSI driver, which cannot attach it",
    ),
    (
        "FailedMount",
        "",
        PodOwner,
        "Look at the volume that cannot be mounted: a Secret or ConfigMap that does not exist, or its CSI driver",
    ),
    ("FailedCreatePodSandBox", "", ClusterAdministrator, NETWORK),
    ("NetworkNotReady", "", ClusterAdministrator, NETWORK),
    ("FailedPostStartHook", "", PodOwner, "Correct the postStart hook of the container"),
];

const NETWORK: &str = "Look at the network plugin of its node, often a pod of a DaemonSet in kube-system";

impl PodFinding for NoAddress {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let LeftOut::NoAddress = pod.left_out()? else { return None };
        let since = pod.details.and_then(|details| details.created);
        let mut containers = pod.details.into_iter().flat_map(|details| &details.containers);
        let last = pod.last_warning();
        Some(Self {
            since,
            seconds: since.map(|since| age::since(since, pod.now)),
            node: pod.pod.node_name.clone().unwrap_or_default(),
            silent: pod.node.filter(|node| !node.ready).map(|_| pod.node_message()),
            hook: containers.find(|one| one.has_post_start_hook).map(|one| one.name.clone()),
            why: last.map(|event| event.reason.clone()).unwrap_or_default(),
            message: last.map(|event| event.message.clone()).unwrap_or_default(),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let nodes = first_few(&distinct(all.iter().map(|one| &one.node)));
        let why = match &first.silent {
            Some(message) => format!("; its node is not ready ({nodes}){}", reported("", message)),
            None => reported(&first.why, common(all, |one| &one.message)),
        };
        format!("the pod has no IP address yet{why}")
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        std::iter::once(pod.addresses()).chain(pod.containers()).collect()
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        all.first().map(|first| first.look_at(pods.describe())).unwrap_or_default()
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        let is_late = self.seconds.is_some_and(|age| age >= LONG);
        Some(format!("{:?} {:?} {} {is_late}", self.silent, self.hook, self.why))
    }
}

impl NoAddress {
    fn look_at(&self, describe: Step) -> Remedy {
        if let Some(message) = &self.silent {
            let lacks_network = ["cni", "network plugin", "NetworkPluginNotReady"];
            let what = match lacks_network.iter().any(|words| message.contains(words)) {
                true => {
                    format!("network plugin of node {}, often a pod of a DaemonSet in kube-system", self.node)
                }
                false => format!("kubelet of node {}", self.node),
            };
            return Remedy::ask(ClusterAdministrator, format!("Look at the {what}"))
                .shown_by([Step::kubectl(["describe", "node", &self.node])]);
        }
        let told =
            WARNINGS.iter().find(|(reason, words, ..)| *self.why == **reason && self.message.contains(words));
        if let Some((_, _, person, advice)) = told {
            return Remedy::ask(*person, *advice).shown_by([describe]);
        }
        let hook = match &self.hook {
            Some(container) => format!(
                ", or the postStart hook of container {container}, before whose end the kubelet reports nothing"
            ),
            None => String::new(),
        };
        let causes = format!("a volume that cannot be mounted, or the network plugin{hook}");
        match self.seconds {
            Some(age) if age >= LONG => {
                let sentence =
                    format!("Look at the pod's events, because it is {} old: {causes}", age::seconds(age));
                Remedy::ask(ClusterAdministrator, sentence).shown_by([describe])
            }
            _ => Remedy::new(format!("Look at the pod's events, if it lasts: {causes}")).shown_by([describe]),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::ObjectKey;

    use super::*;
    use crate::findings::testing::*;

    #[test]
    fn a_pod_on_a_node_may_wait_for_its_address() {
        let without = json!({"status": {"podIP": null, "podIPs": null}});
        assert_eq!(code_of(without), Code::NoAddress);
        let nowhere = json!({"spec": {"nodeName": null}, "status": {"podIP": null, "podIPs": null}});
        assert_eq!(code_of(nowhere), Code::NotScheduled);
    }

    #[test]
    fn what_keeps_a_pod_from_its_address_is_told_with_what_to_do() {
        let pod = || NoAddress { node: "a".into(), seconds: Some(2280), ..NoAddress::default() };
        let warned =
            |why: &str, message: &str| NoAddress { why: why.into(), message: message.into(), ..pod() };
        let silent = |message: &str| NoAddress { silent: Some(message.into()), ..pod() };
        let all = [
            NoAddress { seconds: Some(20), ..pod() },
            NoAddress { seconds: None, ..pod() },
            pod(),
            NoAddress { hook: Some("app".into()), ..pod() },
            silent(""),
            silent(
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
            ),
            silent("Kubelet stopped posting node status."),
            warned(
                "FailedAttachVolume",
                "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) web-0",
            ),
            warned("FailedAttachVolume", "AttachVolume.Attach failed for volume \"pvc-1\": timed out"),
            warned("FailedMount", "MountVolume.SetUp failed for volume \"tls\" : secret \"tls\" not found"),
            warned(
                "FailedCreatePodSandBox",
                "Failed to create pod sandbox: plugin type=\"calico\" failed (add)",
            ),
            warned("BackOff", "Back-off pulling image \"web\""),
        ];
        let service = ObjectKey::new("default", "web");
        let pods = PodsOf { service: &service, pod: "web-1", is_alone: false };
        let texts = all.map(|it| {
            let remedy = NoAddress::remedy(&[&it], &pods);
            let commands: Vec<String> = remedy.commands().collect();
            format!("{}\n  {}\n  {}", NoAddress::message(&[&it]), remedy.sentence, commands.join("\n  "))
        });
        insta::assert_snapshot!(texts.join("\n"));
    }
}

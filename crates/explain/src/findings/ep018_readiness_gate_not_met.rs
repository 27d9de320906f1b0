//! A readiness gate of the pod is not met.

use crate::facts::details::write_optional_time;
use crate::findings::pod_reason::{common, reported};
use crate::findings::prelude::*;

about! {
    /// A pod with readiness gates is ready only if the condition of each gate is true. A controller
    /// outside the kubelet sets these conditions. The message has the reason and the message of the
    /// condition. For well-known gates, such as that of the AWS Load Balancer Controller, the
    /// advice names where to look.
    EP018 "readiness-gate-not-met" Warning
    "A readiness gate of the pod is not met."
}

/// A readiness gate whose condition is not true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessGateNotMet {
    /// Type of the condition that the gate asks for.
    pub gate: Text,
    /// Status of that condition, or `None` if the pod has no such condition.
    pub status: Option<Text>,
    /// The condition's reason, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: Text,
    /// The condition's message, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Text,
    /// Time of the last change of the condition.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

/// A well-known readiness gate.
struct Gate {
    /// The start of the condition's type.
    prefix: &'static str,
    /// The program that sets the condition.
    program: &'static str,
    /// Where to look if the condition is false.
    look: &'static str,
    /// The kind of the object that tells more. Its name is the end of the condition's type if that
    /// has one, otherwise all of the namespace are shown.
    kind: &'static str,
}

const GATES: [Gate; 5] = [
    Gate {
        prefix: "target-health.elbv2.k8s.aws/",
        program: "the AWS Load Balancer Controller",
        look: "the security groups between the load balancer and the pods, and the health check path and port of the target group",
        kind: "targetgroupbinding",
    },
    Gate {
        prefix: "target-health.alb.ingress.k8s.aws/",
        program: "the AWS ALB Ingress Controller",
        look: "the security groups between the load balancer and the pods, and the health check path and port of the target group",
        kind: "ingress",
    },
    Gate {
        prefix: "cloud.google.com/load-balancer-neg-ready",
        program: "the NEG controller of GKE",
        look: "the firewall rules for health checks of the load balancer, and its health check path and port",
        kind: "servicenetworkendpointgroup",
    },
    Gate {
        prefix: "cloud.google.com/pod-ready-to-serve",
        program: "the NEG controller of GKE",
        look: "the firewall rules for health checks of the load balancer, and its health check path and port",
        kind: "servicenetworkendpointgroup",
    },
    Gate {
        prefix: "InPlaceUpdateReady",
        program: "OpenKruise",
        look: "its update of the pod in place, which has not ended",
        kind: "cloneset",
    },
];

impl PodFinding for ReadinessGateNotMet {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let gates = &pod.details.filter(|_| pod.is_unready() && pod.pod.ready.is_some())?.readiness_gates;
        let gate = gates.iter().find(|gate| !pod.is_true(gate))?;
        let condition = pod.condition(gate);
        Some(Self {
            gate: gate.clone(),
            status: condition.map(|condition| condition.status.clone()),
            why: condition.map(|condition| condition.reason.clone()).unwrap_or_default(),
            message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
            since: condition.and_then(|condition| condition.last_transition_time),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [Self { gate, status, why, .. }, ..] = all else { return String::new() };
        match status {
            None => format!("readiness gate {gate} has no condition: nobody has reported on it"),
            Some(status) => {
                let message = common(all, |one| &one.message);
                format!("readiness gate {gate} is {status}{}", reported(why, message))
            }
        }
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.condition(&self.gate)]
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [Self { gate, status, .. }, ..] = all else { return Remedy::default() };
        let is_reported = status.is_some();
        let known = GATES.iter().find(|known| gate.starts_with(known.prefix));
        let program = known.map_or("the controller", |known| known.program);
        let often = if known.is_none() { ", often that of a load balancer" } else { "" };
        let shows = known.map(|known| {
            let name = gate
                .strip_prefix(known.prefix)
                .filter(|name| !name.is_empty() && known.kind == "targetgroupbinding");
            Step::kubectl_in(&pods.service.namespace, ["describe", known.kind].into_iter().chain(name))
        });
        let sentence = match (is_reported, known) {
            (false, _) => format!(
                "Start {program} that sets the condition {gate}{often}; if it is gone for good, make the pods anew without this readiness gate"
            ),
            (true, Some(known)) => format!("Look at {}; {program} sets the condition", known.look),
            (true, None) => {
                format!("Look at what the condition {gate} says, and at the controller that sets it{often}")
            }
        };
        let describe = is_reported.then(|| pods.describe());
        Remedy::ask(ClusterAdministrator, sentence).shown_by(describe.into_iter().chain(shows))
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        Some(format!("{} {:?} {}", self.gate, self.status, self.why))
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::ObjectKey;

    use super::*;
    use crate::findings::testing::*;

    #[test]
    fn a_gate_is_met_once_its_condition_is_true() {
        let pod = |gate: &str| {
            json!({"spec": {"readinessGates": [{"conditionType": "lb"}]},
                "status": with_conditions(&[("Ready", "False"), ("lb", gate)])["status"]})
        };
        assert_eq!(code_of(pod("False")), Code::ReadinessGateNotMet);
        assert_eq!(code_of(pod("True")), Code::NotReady);
    }

    #[test]
    fn a_well_known_gate_is_told_with_where_to_look() {
        let service = ObjectKey::new("default", "web");
        let pods = PodsOf { service: &service, pod: "web-1", is_alone: false };
        let gates = [
            "target-health.elbv2.k8s.aws/k8s-default-web-4f1a",
            "target-health.alb.ingress.k8s.aws/web_web_80",
            "cloud.google.com/load-balancer-neg-ready",
            "InPlaceUpdateReady",
            "example.com/drained",
        ];
        let texts = gates.map(|gate| {
            let texts = [true, false].map(|is_reported| {
                let status = is_reported.then(|| "False".into());
                let (why, message, since) = Default::default();
                let gate = ReadinessGateNotMet { gate: gate.into(), status, why, message, since };
                let remedy = ReadinessGateNotMet::remedy(&[&gate], &pods);
                let commands: Vec<String> = remedy.commands().collect();
                format!("  {}\n    {}", remedy.sentence, commands.join("\n    "))
            });
            format!("{gate}\n{}", texts.join("\n"))
        });
        insta::assert_snapshot!(texts.join("\n"));
    }
}

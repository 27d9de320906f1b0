//! The remedy for readiness gates: the programs behind well-known ones, as data.

use kube_endpoint_core_model::ObjectKey;

use crate::facts::remedy::Person::ClusterAdministrator;
use crate::facts::remedy::{Remedy, Step};

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

/// Returns the remedy for a readiness gate that is not met. `is_reported` is true if the pod has
/// its condition.
pub(in crate::findings) fn remedy(
    gate: &str,
    is_reported: bool,
    service: &ObjectKey,
    describe: Step,
) -> Remedy {
    let known = GATES.iter().find(|known| gate.starts_with(known.prefix));
    let program = known.map_or("the controller", |known| known.program);
    let often = if known.is_none() { ", often that of a load balancer" } else { "" };
    let shows = known.map(|known| {
        let name = gate
            .strip_prefix(known.prefix)
            .filter(|name| !name.is_empty() && known.kind == "targetgroupbinding");
        Step::kubectl_in(&service.namespace, ["describe", known.kind].into_iter().chain(name))
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
    let describe = Some(describe).filter(|_| is_reported);
    Remedy::ask(ClusterAdministrator, sentence).shown_by(describe.into_iter().chain(shows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_known_gate_is_told_with_where_to_look() {
        let service = ObjectKey::new("default", "web");
        let describe = || Step::kubectl_in("default", ["describe", "pod", "web-1"]);
        let gates = [
            "target-health.elbv2.k8s.aws/k8s-default-web-4f1a",
            "target-health.alb.ingress.k8s.aws/web_web_80",
            "cloud.google.com/load-balancer-neg-ready",
            "InPlaceUpdateReady",
            "example.com/drained",
        ];
        let texts = gates.map(|gate| {
            let texts = [true, false].map(|is_reported| {
                let remedy = remedy(gate, is_reported, &service, describe());
                let commands: Vec<String> = remedy.commands().collect();
                format!("  {}\n    {}", remedy.sentence, commands.join("\n    "))
            });
            format!("{gate}\n{}", texts.join("\n"))
        });
        insta::assert_snapshot!(texts.join("\n"));
    }
}

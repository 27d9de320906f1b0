//! The Service has no ports.

use crate::findings::prelude::*;
use crate::models::traffic::ServedBy;

about! {
    /// A Service that is not headless needs ports: kube-proxy makes rules for ports.
    EP035 "no-service-ports" Error
    "The Service has no ports."
}

/// A Service without ports that is not headless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoServicePorts {}

impl Finding for NoServicePorts {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let is_found = inputs.service.ports.is_empty() && inputs.served.by == ServedBy::KubeProxy;
        is_found.then_some(Self {}).into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.ports()]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(ServiceOwner, "Add a port to spec.ports")
    }
}

impl fmt::Display for NoServicePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Service has no ports, so no client is sent to its endpoints")
    }
}

impl PodFinding for NoServicePorts {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let lacks = pod.service.ports.is_empty() && !pod.service.is_headless();
        (lacks && pod.left_out().is_none()).then_some(Self {})
    }

    /// The finding about the Service says more.
    fn message(_: &[&Self]) -> String {
        "the Service has no ports".to_owned()
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.ports()]
    }

    fn remedy(_: &[&Self], _: &PodsOf<'_>) -> Remedy {
        Remedy::ask(ServiceOwner, "Add a port to spec.ports of the Service")
    }

    fn is_consequence(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_headless_service_needs_no_ports() {
        let without = example("ep035-no-service-ports");
        assert!(without.finds(Code::NoServicePorts));
        let headless = without.with("Service/web", json!({"spec": {"clusterIP": "None"}}));
        assert!(!headless.finds(Code::NoServicePorts));
    }
}

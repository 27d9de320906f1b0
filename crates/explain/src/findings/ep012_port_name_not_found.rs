//! The pod has no container port with a name that the Service asks for.

use kube_endpoint_core_model::{LeftOut, Service};

use crate::findings::pod::ports_of;
use crate::findings::pod_reason::{NamedPort, name_port, not_found, patch_ports};
use crate::findings::prelude::*;

about! {
    /// The Service's targetPort is a name, and no container port of the pod has this name. The
    /// EndpointSlice controller still lists the pod, in a slice without ports, which kube-proxy
    /// ignores. DNS lists the pod of a headless Service, without the port, so the severity is
    /// warning there. The Endpoints object leaves it out.
    ///
    /// If other pods of the Service have the name, the remedy does not change the Service: with
    /// another name or a number they would lose their clients, or this pod would get clients that
    /// it does not serve.
    EP012 "port-name-not-found" Error
    "The pod has no container port with a name that the Service asks for."
}

/// A pod that has none of the ports that the Service asks for by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortNameNotFound {
    /// The ports that the Service asks for by name.
    pub wanted: Vec<NamedPort>,
    /// The named ports that the pod has.
    pub has: Vec<NamedPort>,
    /// True if other pods of the Service have one of the wanted ports.
    pub elsewhere: bool,
    /// True if the Service is headless: DNS lists the pod, whatever its ports are.
    pub only_dns: bool,
}

impl PodFinding for PortNameNotFound {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let wanted = match pod.left_out() {
            Some(LeftOut::NoPort { .. }) => pod.wanted(|_| true),
            _ => pod.lacks_all_ports()?,
        };
        Some(Self {
            elsewhere: pod.others_have(&wanted),
            has: ports_of(pod.pod),
            only_dns: pod.service.is_headless(),
            wanted,
        })
    }

    fn message(all: &[&Self]) -> String {
        let [Self { wanted, has, elsewhere, only_dns }, ..] = all else { return String::new() };
        let only_dns = if *only_dns { "; DNS answers with its address, without this port" } else { "" };
        not_found(wanted, has, *elsewhere) + only_dns
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.ports(), pod.ports()]
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let [Self { wanted, has, elsewhere, .. }, ..] = all else { return Remedy::default() };
        Remedy::ask(ServiceOwner, name_port(wanted, has, *elsewhere, None))
    }

    /// DNS has the pod's address, and only questions for the port go without an answer.
    fn severity(&self) -> Option<Severity> {
        self.only_dns.then_some(Severity::Warning)
    }

    fn patch(&self, service: &Service) -> Option<Step> {
        patch_ports(service, &self.wanted, &self.has)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_target_port_by_number_is_no_name() {
        let named = example("ep012-port-name-not-found");
        assert!(named.finds(Code::PortNameNotFound));
        let number = json!({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}});
        assert!(!named.with("Service/web", number).finds(Code::PortNameNotFound));
    }
}

//! The pod has a container port of that name, but with another protocol.

use crate::findings::pod::ports_of;
use crate::findings::pod_reason::NamedPort;
use crate::findings::prelude::*;

about! {
    /// A container port has the name that the Service asks for. The controllers look a port up by
    /// name and protocol, so it does not count.
    EP024 "port-protocol-differs" Error
    "The pod has a container port of that name, but with another protocol."
}

/// A container port with the name and another protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortProtocolDiffers {
    /// The port that the Service asks for.
    pub wanted: NamedPort,
    /// The port of that name that the pod has.
    pub has: NamedPort,
}

impl PodFinding for PortProtocolDiffers {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let has = ports_of(pod.pod);
        pod.lacks_all_ports()?.into_iter().find_map(|wanted| {
            let same_name = has.iter().find(|port| port.name == wanted.name)?;
            Some(Self { has: same_name.clone(), wanted })
        })
    }

    fn message(all: &[&Self]) -> String {
        let [Self { wanted, has }, ..] = all else { return String::new() };
        format!(
            "the container port {} is {}, and the Service asks for {}",
            wanted.name, has.protocol, wanted.protocol
        )
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.ports(), pod.ports()]
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let [Self { wanted, has }, ..] = all else { return Remedy::default() };
        let sentence = format!(
            "Set the protocol of the Service's port to {}, or that of the container port {:?} to {}",
            has.protocol, wanted.name, wanted.protocol
        );
        Remedy::ask(ServiceOwner, sentence)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_port_of_the_name_with_another_protocol_does_not_count() {
        let differs = example("ep024-port-protocol-differs");
        assert!(differs.finds(Code::PortProtocolDiffers));
        let ports = json!({"spec": {"ports": [{"port": 80, "targetPort": "other"}]}});
        assert!(!differs.with("Service/web", ports).finds(Code::PortProtocolDiffers));
    }
}

//! The Service is headless, and its endpoints listen on another port than the Service's.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::Pod;
use kube_endpoint_core_model::port::find_port;
use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::well_known::CLUSTER_IP_NONE;

use crate::findings::evidence;
use crate::findings::pod::Publication;
use crate::findings::prelude::*;
use crate::models::consumers::kube_proxy::number_for;
use crate::models::traffic::{ServedBy, has_ready};

about! {
    /// DNS answers with the addresses of the pods of a headless Service. Its clients connect to
    /// them, and no proxy translates the port of the Service to the targetPort. The SRV record of a
    /// named port has the number of the targetPort (a port without a name has no such record), and
    /// so have the slices, which ingress controllers and meshes read: their clients are not
    /// affected. If pods have a hostname, as those of a StatefulSet, clients use the names of pods
    /// and know their ports, so the severity is info. It is no finding if each pod declares the
    /// port of the Service as a container port, too. The overview of the status page does not know
    /// all container ports, and leaves the finding out for Services that select pods.
    EP066 "headless-port" Warning
    "The Service is headless, and its endpoints listen on another port than the Service's."
}

/// A port of a headless Service that its endpoints do not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadlessPort {
    /// The port of the Service.
    pub port: i32,
    /// Its name, or empty.
    pub name: Text,
    pub protocol: Text,
    /// The ports on which its endpoints listen, sorted.
    pub targets: Vec<u16>,
    /// True if pods have DNS names of their own, which their clients use in place of the
    /// Service's.
    pub has_pod_names: bool,
}

impl Finding for HeadlessPort {
    /// The slices have the ports of the endpoints, also if the target port is a name. If there are
    /// none yet, the ready pods tell the ports that they will have.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let known = inputs.options.known;
        let selects_pods = inputs.selection.selects_pods();
        let is_planned = selects_pods && inputs.options.are_from_files();
        let is_open = selects_pods && !known.pods || !known.slices && !is_planned;
        if inputs.served.by != ServedBy::Dns || is_open {
            return Vec::new();
        }
        let has_pod_names = inputs.pods.iter().any(|pod| pod.hostname.is_some());
        let declared = declared_by_all(inputs.pods);
        let slices = || inputs.slices().iter().filter(|slice| has_ready(slice));
        let ready = inputs.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let ready: BTreeSet<&Text> = ready.map(|pod| &pod.name).collect();
        let numbers = |port: &ServicePort| -> BTreeSet<u16> {
            if !inputs.slices().is_empty() {
                let held = slices().flat_map(|slice| slice.ports.iter());
                return held.filter_map(|held| number_for(held, port)).collect();
            }
            let ready = inputs.pods.iter().filter(|pod| ready.contains(&pod.key.name));
            ready.filter_map(|pod| u16::try_from(find_port(pod, port)?).ok()).collect()
        };
        let differs = |port: &ServicePort| {
            let mut targets = numbers(port);
            targets.retain(|number| i32::from(*number) != port.port);
            let is_found = !targets.is_empty() && !declared.contains(&port.port);
            is_found.then(|| Self {
                port: port.port,
                name: port.name.clone(),
                protocol: port.protocol.clone(),
                targets: targets.iter().copied().collect(),
                has_pod_names,
            })
        };
        inputs.service.ports.iter().filter_map(differs).collect()
    }

    /// Clients of a pod's own name rarely use the port of the Service.
    fn severity(&self) -> Option<Severity> {
        self.has_pod_names.then_some(Severity::Info)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        std::iter::once(read.service(".spec.clusterIP", CLUSTER_IP_NONE))
            .chain([read.service(evidence::item(".spec.ports", "port", self.port, ".port"), self.port)])
            .chain(read.ports_of_slices())
            .collect()
    }

    /// The SRV record of a port has its number; a port without a name has none.
    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let Self { port, name, protocol, .. } = self;
        let ObjectKey { namespace, name: of } = service;
        let srv = match &**name {
            "" => ", or name the port, so that DNS has an SRV record with it".to_owned(),
            name => format!(
                ", or ask DNS for the SRV record _{name}._{}.{of}.{namespace}.svc, which has it",
                protocol.to_lowercase()
            ),
        };
        let targets = self.targets();
        let sentence = format!(
            "Let clients use port {targets}{srv}; if nobody relies on the number {port}, set the port of the Service to {targets}; if clients need it, create the Service anew with a cluster IP"
        );
        Remedy::ask(ServiceOwner, sentence)
    }
}

impl fmt::Display for HeadlessPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, targets) = (self.port, self.targets());
        let name = if self.name.is_empty() { String::new() } else { format!(" ({})", self.name) };
        write!(
            f,
            "no proxy translates the port {port}{name} of a headless Service to {targets}, on which its endpoints listen, so clients have to use {targets}"
        )?;
        match &*self.name {
            "" => f.write_str("; no SRV record tells it, because the port has no name"),
            _ => Ok(()),
        }
    }
}

impl HeadlessPort {
    fn targets(&self) -> String {
        self.targets.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ")
    }
}

/// Returns the ports that all pods declare: they may listen there.
fn declared_by_all(pods: &[Arc<Pod>]) -> BTreeSet<i32> {
    let of = |pod: &Arc<Pod>| pod.ports.iter().map(|port| port.container_port).collect::<BTreeSet<i32>>();
    let mut pods = pods.iter().filter(|pod| !pod.is_terminal());
    let first = pods.next().map(of).unwrap_or_default();
    pods.fold(first, |common, pod| &common & &of(pod))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn clients_of_a_port_on_which_pods_listen_reach_them() {
        let other = example("ep066-headless-port");
        assert!(other.finds(Code::HeadlessPort));
        let ports = json!([{"name": "http", "port": 8080, "targetPort": "http"}]);
        let same = other.clone().with("Service/web", json!({"spec": {"ports": ports}}));
        assert!(!same.finds(Code::HeadlessPort));
        let proxied = other.with("Service/web", json!({"spec": {"clusterIP": "10.96.0.10"}}));
        assert!(!proxied.finds(Code::HeadlessPort));
    }
}

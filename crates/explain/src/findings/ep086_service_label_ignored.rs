//! kube-proxy before Kubernetes 1.36 ignores the Service because of a label for headless Services.

use kube_endpoint_core_model::well_known::LABEL_HEADLESS;

use crate::findings::prelude::*;
use crate::models::traffic::ServedBy;

about! {
    /// The label `service.kubernetes.io/headless` belongs on slices and Endpoints, where the
    /// controllers set it. Before Kubernetes 1.36 kube-proxy ignores Services that have it, too.
    /// This is a warning if nodes that were read are older, and an info if their versions are not
    /// known.
    EP086 "service-label-ignored" Warning
    "kube-proxy before Kubernetes 1.36 ignores the Service because of a label for headless Services."
}

/// A label for slices of headless Services on a Service with a cluster IP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceLabelIgnored {
    /// The number of nodes whose version of Kubernetes is known, and is older than 1.36.
    pub old: usize,
    /// The number of nodes whose version is known.
    pub known: usize,
}

/// The first minor version whose kube-proxy uses a Service with the label of headless slices.
const USES_LABELLED_SERVICES: u32 = 36;

impl Finding for ServiceLabelIgnored {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let is_labelled = inputs.service.labels.contains_key(LABEL_HEADLESS);
        if !is_labelled || inputs.served.by != ServedBy::KubeProxy {
            return Vec::new();
        }
        let nodes = inputs.objects.raw.nodes.values();
        let kubelets: Vec<u32> = nodes.filter_map(|node| node.kubelet).collect();
        let old = kubelets.iter().filter(|minor| **minor < USES_LABELLED_SERVICES).count();
        let is_found = old > 0 || kubelets.is_empty();
        is_found.then_some(Self { old, known: kubelets.len() }).into_iter().collect()
    }

    fn severity(&self) -> Option<Severity> {
        (self.known == 0).then_some(Severity::Info)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.label(LABEL_HEADLESS)]
    }

    /// The controllers set this label where it belongs: on slices and Endpoints.
    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let label = format!("{LABEL_HEADLESS}-");
        let remove = Step::kubectl_in(&service.namespace, ["label", "service", &service.name, &label]);
        Remedy::new("Remove the label from the Service, which has a cluster IP").then([remove])
    }

    fn traffic_lost(&self) -> TrafficLost {
        if self.known > 0 { TrafficLost::Some } else { TrafficLost::None }
    }
}

impl fmt::Display for ServiceLabelIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { old, known } = self;
        if *known == 0 {
            return write!(
                f,
                "kube-proxy before Kubernetes 1.36 ignores the Service, which has a cluster IP and the label {LABEL_HEADLESS}"
            );
        }
        let (nodes, have) = if *old == 1 { ("node", "has") } else { ("nodes", "have") };
        write!(
            f,
            "kube-proxy of {old} {nodes}, which {have} a Kubernetes before 1.36, ignores the Service, because it has a cluster IP and the label {LABEL_HEADLESS}: clients there get no answer"
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn newer_nodes_and_clients_of_headless_services_do_not_look_at_the_label() {
        let ignored = example("ep086-service-label-ignored");
        assert!(ignored.finds(Code::ServiceLabelIgnored));
        let newer = json!({"status": {"nodeInfo": {"kubeletVersion": "v1.36.0"}}});
        assert!(!ignored.clone().with("Node/node-a", newer).finds(Code::ServiceLabelIgnored));
        let headless = ignored.with("Service/web", json!({"spec": {"clusterIP": "None"}}));
        assert!(!headless.finds(Code::ServiceLabelIgnored));
    }
}

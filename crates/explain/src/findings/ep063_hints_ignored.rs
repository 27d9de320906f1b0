//! kube-proxy ignores the hints of the Service, because some ready endpoints have none.

use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, address};

use crate::findings::prelude::*;
use crate::models::traffic::ServedBy;

about! {
    /// kube-proxy follows the hints of a port only if each ready endpoint has one for a zone, or
    /// each has one for a node. Here some endpoints have hints and others do not, so clients are
    /// sent to all zones. If the reason is a node without a zone, [EP037](#ep037-no-zones) says so
    /// instead. Without permission to read nodes, that may be the reason, so this is information,
    /// too.
    EP063 "hints-ignored" Warning
    "kube-proxy ignores the hints of the Service, because some ready endpoints have none."
}

/// Ready endpoints without hints, beside others with hints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HintsIgnored {
    /// The addresses of ready endpoints that have no hint.
    pub addresses: Vec<Text>,
    /// The slices that hold them.
    pub slices: Vec<Text>,
    /// The annotation or the field of the Service that asks for hints, or `None` if nothing does.
    pub asked_by: Option<&'static str>,
    /// True if it is known that the reason is no node without a zone.
    #[serde(skip)]
    pub(crate) knows_zones: bool,
}

impl Finding for HintsIgnored {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let without = &inputs.served.without_hints;
        let is_due = inputs.planned.slice_writes().any(|writes| !writes.is_empty());
        let is_judged = inputs.served.by == ServedBy::KubeProxy && inputs.options.known.slices;
        if without.is_empty() || is_due || !is_judged {
            return Vec::new();
        }
        let holds = |slice: &&Arc<EndpointSlice>| {
            let addresses = slice.endpoints.iter().filter_map(|endpoint| endpoint.addresses.first());
            addresses.filter_map(|text| address::parse_sloppy(text)).any(|ip| without.contains(&ip))
        };
        vec![Self {
            addresses: without.iter().map(IpAddr::to_string).map(Text::from).collect(),
            slices: inputs.slices().iter().filter(holds).map(|slice| slice.metadata.name.clone()).collect(),
            asked_by: inputs.asks_for_hints(),
            knows_zones: inputs.options.known.nodes,
        }]
    }

    fn severity(&self) -> Option<Severity> {
        (!self.knows_zones).then_some(Severity::Info)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        read.slices_named(&self.slices)
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let otherwise = match self.asked_by {
            Some(asked_by) => format!("unset {asked_by} of the Service"),
            None => "let nobody set hints, for which the Service does not ask".to_owned(),
        };
        let writers = names(&self.slices);
        let sentence = format!("Let whoever writes {writers} set hints, too, or {otherwise}");
        Remedy::ask(EndpointsWriter, sentence)
    }
}

impl fmt::Display for HintsIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (endpoints, have) =
            if self.addresses.len() == 1 { ("endpoint", "has") } else { ("endpoints", "have") };
        let slices = if self.slices.len() == 1 { "slice" } else { "slices" };
        write!(
            f,
            "kube-proxy ignores the hints of all endpoints, because the ready {endpoints} {} of {slices} {} {have} none",
            names(&self.addresses),
            names(&self.slices)
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn hints_are_used_if_all_endpoints_or_none_have_some() {
        let some = example("ep063-hints-ignored");
        assert!(some.finds(Code::HintsIgnored));
        let hinted = json!({"addresses": ["10.9.0.1"], "hints": {"forZones": [{"name": "eu-a"}]}});
        let all = some.clone().with("EndpointSlice/web-outside", json!({"endpoints": [hinted]}));
        assert!(!all.finds(Code::HintsIgnored));
        let none = some.with("Service/web", json!({"spec": {"trafficDistribution": null}}));
        assert!(!none.finds(Code::HintsIgnored));
    }

    #[test]
    fn a_node_without_a_zone_is_told_instead() {
        let zoned = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-b", "labels": {"topology.kubernetes.io/zone": "eu-b"}},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web-2", "labels": {"app": "web"}},
            "spec": {
                "nodeName": "node-b",
                "containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 8080}]}],
            },
            "status": {
                "phase": "Running",
                "podIPs": [{"ip": "10.1.0.2"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let cluster = example("ep037-no-zones").and(zoned).and(pod);
        assert!(cluster.finds(Code::NoZones) && !cluster.finds(Code::HintsIgnored));
    }
}

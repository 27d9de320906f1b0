//! A slice of the Service names no controller.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kube_endpoint_core_model::well_known::LABEL_MANAGED_BY;
use kube_endpoint_core_model::{EndpointSlice, address};

use crate::findings::prelude::*;
use crate::models::consumers::kube_proxy::numbers_used;
use crate::models::selection::Selection;

about! {
    /// The slice carries the Service's name but no `endpointslice.kubernetes.io/managed-by`. No
    /// controller updates it, and clients use its endpoints. The label is no cure: it changes
    /// nothing for clients.
    EP053 "unmanaged-slice" Warning
    "A slice of the Service names no controller."
}

/// A slice without the label that names its controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnmanagedSlice {
    pub slice: Text,
    /// The addresses to which it sends clients and that no pod of the Service has, with the port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Text>,
    /// True if pods receive traffic, too.
    pub besides_pods: bool,
}

impl Finding for UnmanagedSlice {
    /// The writer of the endpoints of a Service without a selector need not name itself as manager:
    /// the API server does not, for the Service `kubernetes`.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if !inputs.options.known.slices || matches!(inputs.selection, Selection::None) {
            return Vec::new();
        }
        let is_unmanaged =
            |slice: &&Arc<EndpointSlice>| !slice.metadata.labels.contains_key(LABEL_MANAGED_BY);
        let found = inputs.slices().iter().filter(is_unmanaged).map(|slice| Self {
            slice: slice.metadata.name.clone(),
            addresses: addresses_besides_pods(inputs, slice),
            besides_pods: inputs.counts.receiving.is_some_and(|pods| pods > 0),
        });
        found.collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.label_of_slice(&self.slice, LABEL_MANAGED_BY), read.slice(&self.slice)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let sentence = match self.addresses.as_slice() {
            [] => "Find out who writes the slice, and delete it if nobody does".to_owned(),
            addresses => format!(
                "Find out if clients should still reach {}, and who writes the slice; if they should not, delete it",
                names(addresses)
            ),
        };
        let words = ["get", "endpointslice", &self.slice, "-o", "yaml", "--show-managed-fields"];
        Remedy::ask(EndpointsWriter, sentence).shown_by([Step::kubectl_in(&service.namespace, words)])
    }
}

impl fmt::Display for UnmanagedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slice, addresses, besides_pods } = self;
        if addresses.is_empty() {
            return write!(f, "no controller keeps slice {slice}, which has no label {LABEL_MANAGED_BY}");
        }
        let (also, addresses) = (if *besides_pods { "also " } else { "" }, names(addresses));
        write!(f, "clients are {also}sent to {addresses} by slice {slice}, which no controller keeps")
    }
}

/// Returns the addresses to which a slice sends clients and that belong to no pod of the Service.
fn addresses_besides_pods(inputs: &FaultInputs<'_>, slice: &EndpointSlice) -> Vec<Text> {
    let own: BTreeSet<IpAddr> = inputs.pods.iter().flat_map(|pod| pod.pod_ips.iter().copied()).collect();
    let addresses_sent = inputs.served.endpoints_of(slice);
    let number = numbers_used(inputs.service, slice).into_iter().next();
    let sent = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
    let sent = sent.flat_map(|endpoint| endpoint.addresses.iter().take(addresses_sent(endpoint)));
    let others = sent.filter_map(|text| match address::parse_sloppy(text) {
        Some(ip) if own.contains(&ip) => None,
        Some(ip) => {
            Some(number.map_or_else(|| text.clone(), |port| SocketAddr::new(ip, port).to_string().into()))
        }
        None => Some(text.clone()),
    });
    others.collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn the_writer_of_the_endpoints_of_a_service_without_a_selector_need_not_name_itself() {
        let beside_pods = example("ep053-unmanaged-slice");
        assert!(beside_pods.finds(Code::UnmanagedSlice));
        let alone = beside_pods.with("Service/web", json!({"spec": {"selector": null}}));
        assert!(!alone.finds(Code::UnmanagedSlice));
    }
}

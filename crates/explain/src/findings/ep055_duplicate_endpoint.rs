//! Several slices hold the same endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::well_known::{LABEL_MANAGED_BY, LABEL_SKIP_MIRROR};
use kube_endpoint_core_model::{Endpoint, EndpointSlice, address};

use super::words::each;
use crate::findings::inputs::is_mirrored;
use crate::findings::prelude::*;

about! {
    /// Two entries are the same endpoint if they have the same address and the same pod, or if one
    /// names no pod. Pods in the network of one node have one address and are different endpoints.
    ///
    /// Some clients send such an endpoint twice its share of the traffic; kube-proxy does not. The
    /// slices may hold it with different conditions or hints, or with different nodes while a
    /// traffic policy is `Local`. Then a terminating entry loses, and kube-proxy takes any of the
    /// others, so one node may send clients to an endpoint that another node leaves out.
    ///
    /// If somebody writes Endpoints and slices with the same addresses, the controller mirrors the
    /// Endpoints, and makes the mirrored slice again when it is deleted. The label
    /// `endpointslice.kubernetes.io/skip-mirror` of the Endpoints ends that.
    EP055 "duplicate-endpoint" Warning
    "Several slices hold the same endpoint."
}

/// Endpoints that several slices hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DuplicateEndpoint {
    /// The endpoints, as addresses.
    pub addresses: Vec<Text>,
    /// Slices that hold the first of them.
    pub slices: Vec<Text>,
    /// The endpoints that the slices hold with different conditions or hints, or, if a traffic
    /// policy is `Local`, on different nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undefined: Vec<Text>,
    /// The slice with which the controller mirrors Endpoints, if it holds the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirrored: Option<Text>,
}

impl Finding for DuplicateEndpoint {
    /// During a hand-over both controllers publish the same pods.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if !inputs.options.known.slices {
            return Vec::new();
        }
        let hand_over = &inputs.planned.hand_over;
        let lasts = |slice: &&Arc<EndpointSlice>| {
            let mut leaving = hand_over.slices.delete.iter().chain(&hand_over.held);
            !leaving.any(|leaving| leaving.metadata.name == slice.metadata.name)
                // Another finding tells of these.
                && !inputs.is_kept(slice)
        };
        let lasting = inputs.slices().iter().filter(lasts).map(|slice| &**slice);
        let found = duplicates(lasting, &inputs.served.undefined).map(|found| {
            let holds = |slice: &&Arc<EndpointSlice>| found.slices.contains(&slice.metadata.name);
            let mirrored = inputs.slices().iter().filter(holds).find(|slice| is_mirrored(slice));
            Self { mirrored: mirrored.map(|slice| slice.metadata.name.clone()), ..found }
        });
        found.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        read.slices_named(&self.slices)
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let managers = each(&self.slices, |names| {
            let show = [&["get", "endpointslice"], names, &["-L", LABEL_MANAGED_BY]].concat();
            Step::kubectl_in(&service.namespace, show)
        });
        let sentence = match &self.mirrored {
            Some(mirrored) => format!(
                "Label the Endpoints {LABEL_SKIP_MIRROR}=true, if the other slices hold all addresses that are meant; the controller then deletes {mirrored}, which it would make again"
            ),
            None => "Find out who writes these slices (label managed-by), and delete those that no controller keeps"
                .to_owned(),
        };
        Remedy::ask(EndpointsWriter, sentence).shown_by(managers)
    }
}

impl fmt::Display for DuplicateEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { addresses, slices, undefined, .. } = self;
        let several = if addresses.len() == 1 { "is" } else { "are" };
        write!(f, "{} {several} in several slices: {}", names(addresses), names(slices))?;
        let what = match undefined.as_slice() {
            [] => return Ok(()),
            [_] if addresses.len() == 1 => "its conditions, hints or node".to_owned(),
            some => format!("the conditions, hints or nodes of {}", names(some)),
        };
        write!(f, "; the slices differ in {what}, and kube-proxy takes those of any of them")
    }
}

/// The object behind an endpoint: kind, namespace and name. It is `None` if the endpoint names
/// none.
type Target<'a> = Option<(&'a str, &'a str, &'a str)>;

/// The entries of an address: the slice, and the object behind the endpoint.
type Holders<'a> = Vec<(&'a Text, Target<'a>)>;

/// Returns the endpoints that several slices with the same ports hold. `undefined` are those for
/// which kube-proxy may choose between different entries.
fn duplicates<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    undefined: &BTreeSet<IpAddr>,
) -> Option<DuplicateEndpoint> {
    let mut holders: BTreeMap<(Text, Option<PortSet>), Holders<'_>> = BTreeMap::new();
    for slice in slices.filter(|slice| slice.metadata.deletion_timestamp.is_none()) {
        let ports = PortSet::new(&slice.ports);
        for endpoint in &slice.endpoints {
            for address in &endpoint.addresses {
                let is_undefined = !undefined.is_empty()
                    && address::parse_sloppy(address).is_some_and(|ip| undefined.contains(&ip));
                // kube-proxy looks at each port.
                let of = (address.clone(), (!is_undefined).then(|| ports.clone()));
                holders.entry(of).or_default().push((&slice.metadata.name, target(endpoint)));
            }
        }
    }
    let several = || holders.iter().filter(|(_, holders)| hold_the_same(holders));
    let (_, first) = several().next()?;
    let mut slices: Vec<Text> = first.iter().map(|(slice, _)| (*slice).clone()).collect();
    slices.dedup();
    let mut addresses: Vec<Text> = several().map(|((address, _), _)| address.clone()).collect();
    addresses.dedup();
    let undefined = several().filter(|((_, ports), _)| ports.is_none());
    let undefined = undefined.map(|((address, _), _)| address.clone()).collect();
    Some(DuplicateEndpoint { addresses, slices, undefined, mirrored: None })
}

fn target(endpoint: &Endpoint) -> Target<'_> {
    let target = endpoint.target_ref.as_ref()?;
    Some((&target.kind, &target.namespace, &target.name))
}

/// Returns true if two slices hold the same endpoint. One without an object may be that of any.
fn hold_the_same(holders: &Holders<'_>) -> bool {
    let is_same = |(slice, target): &(&Text, Target<'_>), (other_slice, other): &(&Text, Target<'_>)| {
        slice != other_slice && (target == other || target.is_none() || other.is_none())
    };
    holders.iter().enumerate().any(|(at, one)| holders.iter().take(at).any(|other| is_same(one, other)))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn pods_in_the_network_of_one_node_are_different_endpoints() {
        let same = example("ep055-duplicate-endpoint");
        assert!(same.finds(Code::DuplicateEndpoint));
        let neighbour = json!({
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-2"},
            "nodeName": "node-a",
            "zone": "eu-a",
        });
        let neighbours = same.with("EndpointSlice/web-second", json!({"endpoints": [neighbour]}));
        assert!(!neighbours.finds(Code::DuplicateEndpoint));
    }

    #[test]
    fn a_slice_that_a_take_over_keeps_is_told_once() {
        let kept = example("ep100-slice-kept");
        assert!(kept.finds(Code::SliceKept) && !kept.finds(Code::DuplicateEndpoint));
    }
}

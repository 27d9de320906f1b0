//! Messages and remedies for addresses that lead elsewhere than to one pod of the Service.

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;
use kube_endpoint_core_model::{ObjectKey, Text};

use super::ServiceIp;
use super::text::names;
use crate::remedy::Person::{ClusterAdministrator, EndpointsWriter};
use crate::{Remedy, Step};

/// The maximum number of Services whose endpoints a command shows.
const SHOWN: usize = 3;

/// Says whose cluster IPs the endpoints are.
pub(super) fn cluster_ips(endpoints: &[ServiceIp]) -> String {
    let of = |one: &ServiceIp| Text::from(format!("{} (Service {})", one.address, one.service));
    let all: Vec<Text> = endpoints.iter().map(of).collect();
    let are = match all.len() {
        1 => "an endpoint is the cluster IP of a Service",
        _ => "endpoints are cluster IPs of Services",
    };
    format!("{are}, from which kube-proxy does not send clients on: {}", names(&all))
}

/// Says what to write in place of cluster IPs. `service` is the Service with these endpoints.
pub(super) fn cluster_ips_remedy(endpoints: &[ServiceIp], service: &ObjectKey) -> Remedy {
    let others: Vec<&ObjectKey> =
        endpoints.iter().map(|one| &one.service).filter(|other| *other != service).collect();
    let Some(first) = others.first() else {
        return Remedy::ask(EndpointsWriter, "Write the addresses of the programs that should answer");
    };
    let ObjectKey { namespace, name } = first;
    let ask = format!(
        "Let clients use the Service {first} itself, write the addresses of its endpoints in place of its cluster IP, or make this Service its alias: type ExternalName, with externalName {name}.{namespace}.svc.cluster.local if the domain of the cluster is cluster.local"
    );
    let show = |other: &&ObjectKey| {
        let label = format!("{LABEL_SERVICE_NAME}={}", other.name);
        Step::kubectl_in(&other.namespace, ["get", "endpointslice", "-l", &label])
    };
    Remedy::ask(EndpointsWriter, ask).shown_by(others.iter().take(SHOWN).map(show))
}

/// Says which pods have one address.
pub(super) fn shared(address: &Text, pods: &[ObjectKey], count: usize, more: usize) -> String {
    let mut names: Vec<String> = pods.iter().take(3).map(ToString::to_string).collect();
    let rest = count.saturating_sub(names.len());
    if rest > 0 {
        names.push(format!("{rest} more"));
    }
    let last = names.pop().unwrap_or_default();
    let others = match more {
        0 => String::new(),
        1 => "; one more address belongs to several pods".to_owned(),
        more => format!("; {more} more addresses belong to several pods"),
    };
    format!(
        "pods {} and {last} have the same address {address}, so one may get what is for another{others}",
        names.join(", ")
    )
}

/// Says what to look at if pods have one address.
pub(super) fn shared_remedy(address: &Text) -> Remedy {
    let selector = format!("status.podIP={address}");
    let pods = Step::kubectl(["get", "pods", "-A", "-o", "wide", "--field-selector", &selector]);
    Remedy::ask(
        ClusterAdministrator,
        "Look at the network plugin, which assigns the addresses (CNI, IPAM): do two nodes have the same range of addresses, or was an address assigned that a pod still had? Then delete all of these pods but one, so that they get others",
    )
    .shown_by([pods])
}

//! An endpoint of the Service is the cluster IP of a Service.

use std::net::IpAddr;

use kube_endpoint_core_model::address;
use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;
use serde_json::json;

use crate::findings::evidence::OBJECTS;
use crate::findings::pod::PodExplanation;
use crate::findings::prelude::*;
use crate::models::traffic::ServedBy;

about! {
    /// kube-proxy translates the address of a connection once. So an endpoint that is the cluster
    /// IP of a Service leads nowhere on most clusters; some replacements of kube-proxy translate it
    /// again. The API does not forbid it. The finding looks at ready endpoints that name no pod:
    /// those of slices that somebody wrote, or that mirror Endpoints. If other endpoints are ready,
    /// the severity is warning. The endpoints of a headless Service may be cluster IPs, because its
    /// clients connect to them directly. `explain` asks the server for Services with these cluster
    /// IPs, at most 20, in all namespaces if you may, else in that of the Service; servers find
    /// only the first cluster IP of a Service of two families. `lint` and the status page compare
    /// with all cluster IPs that they read; the page looks at Services of the same namespace.
    EP065 "service-ip-as-endpoint" Error
    "An endpoint of the Service is the cluster IP of a Service."
}

/// The maximum number of Services whose endpoints a command shows.
const SHOWN: usize = 3;

/// Ready endpoints that are cluster IPs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceIpAsEndpoint {
    /// The ready endpoints that are cluster IPs, sorted by address.
    pub endpoints: Vec<ServiceIp>,
    /// True if no other endpoint is ready.
    pub none_is_left: bool,
}

/// An endpoint that is the cluster IP of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceIp {
    pub address: Text,
    /// The Service with this cluster IP.
    pub service: ObjectKey,
}

impl Finding for ServiceIpAsEndpoint {
    /// DNS may answer with a cluster IP: its client connects to that, as to that of any Service.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let key = &inputs.service.key;
        if inputs.served.by != ServedBy::KubeProxy || !inputs.options.known.slices {
            return Vec::new();
        }
        let written = inputs.objects.written_addresses(key);
        let service_ip = |ip: &IpAddr| {
            let service = inputs.across.service_at(*ip, key)?.clone();
            Some(ServiceIp { address: address::to_text(ip), service })
        };
        let endpoints: Vec<ServiceIp> = written.iter().filter_map(service_ip).collect();
        let of_pods = || inputs.explained.iter().any(PodExplanation::is_sent_traffic);
        let none_is_left = endpoints.len() == written.len() && !of_pods();
        if endpoints.is_empty() { Vec::new() } else { vec![Self { endpoints, none_is_left }] }
    }

    fn severity(&self) -> Option<Severity> {
        (!self.none_is_left).then_some(Severity::Warning)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let ip =
            |it: &ServiceIp| Evidence::new("Service", &it.service, ".spec.clusterIP", &json!(it.address));
        let ips = self.endpoints.iter().take(OBJECTS).map(ip);
        ips.chain(read.slices()).collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let others: Vec<&ObjectKey> =
            self.endpoints.iter().map(|one| &one.service).filter(|other| *other != service).collect();
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

    fn traffic_lost(&self) -> TrafficLost {
        if self.none_is_left { TrafficLost::All } else { TrafficLost::Some }
    }
}

impl fmt::Display for ServiceIpAsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &*self.endpoints {
            let ServiceIp { address, service } = one;
            return write!(
                f,
                "{address} is the cluster IP of Service {service}, from which kube-proxy sends no client on"
            );
        }
        let of = |one: &ServiceIp| Text::from(format!("{} (Service {})", one.address, one.service));
        let all: Vec<Text> = self.endpoints.iter().map(of).collect();
        write!(f, "endpoints are cluster IPs, from which kube-proxy sends no client on: {}", names(&all))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn clients_of_a_headless_service_may_connect_to_a_cluster_ip() {
        let proxied = example("ep065-service-ip-as-endpoint");
        assert!(proxied.finds(Code::ServiceIpAsEndpoint));
        let headless = proxied.with("Service/web", json!({"spec": {"clusterIP": "None"}}));
        assert!(!headless.finds(Code::ServiceIpAsEndpoint));
    }
}

//! CoreDNS's answers to questions about a Service.
//!
//! ```
//! use kube_endpoint_core_model::{EndpointSlice, Service};
//! use kube_endpoint_explain::consumers::core_dns::{CoreDns, Question};
//! use serde_json::{from_value, json};
//!
//! let service: Service = from_value(json!({
//!     "metadata": {"name": "db", "namespace": "shop"}, "spec": {"clusterIP": "None"},
//! }))?;
//! let slice: EndpointSlice = from_value(json!({
//!     "metadata": {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
//!     "addressType": "IPv4",
//!     "endpoints": [
//!         {"addresses": ["10.0.0.1"], "hostname": "db-0", "conditions": {"ready": true}},
//!         {"addresses": ["10.0.0.2"], "hostname": "db-1", "conditions": {"ready": false}},
//!     ],
//! }))?;
//! let dns = CoreDns::default();
//! let answer = dns.resolve(&service, [&slice], &Question::Service);
//! assert_eq!(answer[0].host, "10.0.0.1");
//! assert_eq!(answer[0].name.as_deref(), Some("db-0"));
//! assert!(dns.resolve(&service, [&slice], &Question::Endpoint("db-1".into())).is_empty());
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! The source is `plugin/kubernetes` of CoreDNS 1.14 (`findServices`, `endpointHostname`,
//! `EndpointSliceToEndpoints`). CoreDNS reads EndpointSlices since 1.8.3; before, it reads
//! Endpoints.

use std::net::IpAddr;

use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_core_model::slice::Endpoint;
use kube_endpoint_core_model::well_known::{CLUSTER_IP_NONE, LABEL_SERVICE_NAME};
use kube_endpoint_core_model::{EndpointSlice, Service, Text};

/// CoreDNS ignores names of pods that are longer than a DNS label.
const LONGEST_LABEL: usize = 63;

/// The options of CoreDNS's plugin `kubernetes` that change answers about Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreDns {
    /// `endpoint_pod_names`: an endpoint without a hostname has the name of its pod.
    pub endpoint_pod_names: bool,
    /// `ignore empty_service`: a Service with a cluster IP and without a ready endpoint has no
    /// name.
    pub ignore_empty_service: bool,
}

/// A question about a Service, without its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// `SERVICE.NAMESPACE.svc`: A and AAAA records.
    Service,
    /// `ENDPOINT.SERVICE.NAMESPACE.svc`: A and AAAA records of one endpoint.
    Endpoint(Text),
    /// `_PORT._PROTOCOL.SERVICE.NAMESPACE.svc`: SRV records.
    Port {
        port: Text,
        /// The protocol, in upper or lower case.
        protocol: Text,
    },
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// An IP address, or the domain name of an endpoint of type FQDN.
    pub host: Text,
    /// The endpoint's own name under the Service, or `None` for a cluster IP.
    pub name: Option<Text>,
    /// The port of an SRV record, or `None` in other records.
    pub port: Option<i32>,
}

impl CoreDns {
    /// Returns the records of an answer, sorted, each once. An empty answer means that the name
    /// does not exist, or has no addresses. `slices` are those of the Service's namespace, of any
    /// manager. This knows only the first of two cluster IPs.
    pub fn resolve<'a>(
        &self,
        service: &Service,
        slices: impl IntoIterator<Item = &'a EndpointSlice>,
        question: &Question,
    ) -> Vec<Record> {
        // The answer is an alias, whatever the slices hold.
        if service.service_type == ServiceType::ExternalName {
            return Vec::new();
        }
        let names_service = |slice: &&EndpointSlice| {
            slice.metadata.labels.get(LABEL_SERVICE_NAME).is_some_and(|name| *name == service.key.name)
        };
        let slices: Vec<&EndpointSlice> = slices.into_iter().filter(names_service).collect();
        let is_headless = *service.cluster_ip == *CLUSTER_IP_NONE;
        let mut records = if is_headless || matches!(question, Question::Endpoint(_)) {
            self.endpoints(&slices, question)
        } else if self.ignore_empty_service
            && !slices.iter().any(|slice| slice.endpoints.iter().any(is_ready))
        {
            Vec::new()
        } else {
            cluster_ip(service, question)
        };
        records.sort_unstable();
        records.dedup();
        records
    }

    fn endpoints(&self, slices: &[&EndpointSlice], question: &Question) -> Vec<Record> {
        let mut records = Vec::new();
        for slice in slices {
            let ports = ports_of(slice, question);
            for endpoint in slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
                for address in &endpoint.addresses {
                    // CoreDNS makes no SRV records for domain names.
                    if matches!(question, Question::Port { .. }) && address.parse::<IpAddr>().is_err() {
                        continue;
                    }
                    let name = self.name_of(endpoint, address);
                    if matches!(question, Question::Endpoint(asked) if !asked.eq_ignore_ascii_case(&name)) {
                        continue;
                    }
                    records.extend(ports.iter().map(|port| Record {
                        host: address.clone(),
                        name: Some(name.clone()),
                        port: *port,
                    }));
                }
            }
        }
        records
    }

    /// Returns the name of an endpoint (upstream `endpointHostname`).
    fn name_of(&self, endpoint: &Endpoint, address: &str) -> Text {
        if let Some(hostname) = endpoint.hostname.as_ref().filter(|hostname| !hostname.is_empty()) {
            return hostname.clone();
        }
        let pod = endpoint.target_ref.as_ref().map(|target| &target.name);
        if let Some(pod) = pod.filter(|pod| !pod.is_empty() && pod.len() <= LONGEST_LABEL)
            && self.endpoint_pod_names
        {
            return pod.clone();
        }
        let dashed = address.replace(['.', ':'], "-");
        if address.contains(':') && dashed.ends_with('-') {
            format!("{dashed}0").into()
        } else {
            dashed.into()
        }
    }
}

/// Returns true if CoreDNS lists an endpoint: unless its condition `ready` is false. CoreDNS does
/// not look at `serving`.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready != Some(false)
}

/// Returns the ports of a slice for a question, one for each record. The list is empty if the slice
/// lacks the port or its number.
fn ports_of(slice: &EndpointSlice, question: &Question) -> Vec<Option<i32>> {
    match question {
        Question::Service | Question::Endpoint(_) => vec![None],
        Question::Port { port, protocol } => slice
            .ports
            .iter()
            .filter(|held| {
                held.name.as_deref().unwrap_or_default().eq_ignore_ascii_case(port)
                    && held.protocol.as_deref().unwrap_or_default().eq_ignore_ascii_case(protocol)
            })
            .map(|held| held.port)
            .filter(Option::is_some)
            .collect(),
    }
}

fn cluster_ip(service: &Service, question: &Question) -> Vec<Record> {
    let record = |port| Record { host: service.cluster_ip.clone(), name: None, port };
    match question {
        _ if service.cluster_ip.is_empty() => Vec::new(),
        Question::Endpoint(_) => Vec::new(),
        Question::Service => vec![record(None)],
        Question::Port { port, protocol } => service
            .ports
            .iter()
            .filter(|held| {
                held.name.eq_ignore_ascii_case(port) && held.protocol.eq_ignore_ascii_case(protocol)
            })
            .map(|held| record(Some(held.port)))
            .collect(),
    }
}

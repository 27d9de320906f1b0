//! Looks for addresses that lead elsewhere than to one pod of the Service.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_endpoint_core_model::{ObjectKey, address};

use super::Looked;
use crate::fault::ServiceIp;
use crate::traffic::ServedBy;
use crate::{Fault, PodExplanation};

/// The maximum number of pods in a fault.
const PODS: usize = 20;

impl Looked<'_> {
    /// Looks for endpoints that are cluster IPs. DNS may answer with one: its client connects to
    /// the cluster IP then, as to that of any Service.
    pub(super) fn cluster_ips(&self) -> Option<Fault> {
        let key = &self.service.key;
        if self.served.by != ServedBy::KubeProxy {
            return None;
        }
        let written = self.objects.written_addresses(key);
        let service_ip = |ip: &IpAddr| {
            let service = self.across.service_at(*ip, key)?.clone();
            Some(ServiceIp { address: address::to_text(ip), service })
        };
        let endpoints: Vec<ServiceIp> = written.iter().filter_map(service_ip).collect();
        let of_pods = || self.explained.iter().any(PodExplanation::is_sent_traffic);
        let none_is_left = endpoints.len() == written.len() && !of_pods();
        (!endpoints.is_empty()).then_some(Fault::ServiceIpAsEndpoint { endpoints, none_is_left })
    }

    /// Looks for addresses of the Service's pods that other pods have, too.
    pub(super) fn shared_addresses(&self) -> Option<Fault> {
        let is_own = |pod: &ObjectKey| {
            pod.namespace == self.service.key.namespace
                && self.pods.binary_search_by(|own| own.key.name.cmp(&pod.name)).is_ok()
        };
        let addresses: BTreeSet<IpAddr> =
            self.pods.iter().flat_map(|pod| pod.pod_ips.iter().copied()).collect();
        let mut shared: Vec<(IpAddr, &[ObjectKey])> =
            addresses.into_iter().filter_map(|ip| Some((ip, self.across.pods_at(ip)?))).collect();
        // A pod that has ended may have had the address of two pods of others.
        shared.retain(|(_, pods)| pods.iter().any(is_own));
        let (ip, pods) = shared.first()?;
        Some(Fault::SharedPodIp {
            address: address::to_text(ip),
            pods: pods.iter().take(PODS).cloned().collect(),
            count: pods.len(),
            more: shared.len() - 1,
            with_others: shared.iter().flat_map(|(_, pods)| *pods).any(|pod| !is_own(pod)),
        })
    }
}

//! No pod of the Service gets the DNS name that its subdomain asks for.

use std::sync::Arc;

use kube_endpoint_core_model::Pod;
use kube_endpoint_core_model::service::ServiceType;

use crate::facts::objects::Objects;
use crate::facts::raw::{self, Serving};
use crate::findings::prelude::*;

about! {
    /// DNS has a name for each pod that has a hostname and a subdomain, from the headless Service
    /// of that name, if it selects the pod. No Service gives the pods a name here. Several headless
    /// Services may select the same pods, and one gives them their names: the others are no
    /// finding. A Service with a cluster IP gives no names, so it is a finding, too, if a
    /// StatefulSet of several pods has it as `serviceName`. Neither the subdomain of a pod, nor the
    /// `serviceName` of a StatefulSet, nor the cluster IP can be changed.
    EP036 "headless-without-names" Warning
    "No pod of the Service gets a DNS name of its own."
}

/// Pods that have a hostname and no DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadlessWithoutNames {
    /// The subdomain of the pods, or empty if they have only a hostname.
    pub subdomain: Text,
    pub service: Text,
    pub governing: Governing,
    /// The hostname of one of the pods.
    pub hostname: Text,
}

/// The reason why pods get no names from the Service that their subdomain names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Governing {
    /// They have a hostname, and no subdomain.
    NotNamed,
    /// No such Service exists.
    Missing,
    /// It is not headless.
    NotHeadless,
    /// It does not select these pods.
    SelectsOthers,
    /// It is this Service, which has a cluster IP.
    HasClusterIp,
}

impl Governing {
    /// Returns why a pod gets no name from the Service that its subdomain names, or `None` if it
    /// gets one.
    fn of(pod: &Pod, objects: &Objects) -> Option<Self> {
        let Some(subdomain) = pod.subdomain.as_ref().filter(|it| !it.is_empty()) else {
            return Some(Self::NotNamed);
        };
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: subdomain.clone() };
        let Some(other) = objects.service(&key) else { return Some(Self::Missing) };
        // Without a selector, somebody writes its endpoints, and may name the pods.
        let selects = other.selector.as_ref().is_none_or(|selector| selector.selects(&pod.labels));
        match (other.is_headless(), selects) {
            (false, _) => Some(Self::NotHeadless),
            (true, false) => Some(Self::SelectsOthers),
            (true, true) => None,
        }
    }
}

/// Returns the finding about the pods of a StatefulSet whose `serviceName` is a Service with a
/// cluster IP. A lone pod has no peers that ask for its name.
fn behind_a_cluster_ip(inputs: &FaultInputs<'_>, named: &[&Arc<Pod>]) -> Option<HeadlessWithoutNames> {
    let service = inputs.service;
    let name = &service.key.name;
    let owner = |pod: &Pod| inputs.objects.raw.serving(&pod.key).map(Serving::owner_kind);
    let is_of_it = |pod: &&&Arc<Pod>| {
        owner(pod) == Some(raw::PodOwner::StatefulSet) && pod.subdomain.as_ref() == Some(name)
    };
    let is_alias = service.service_type == ServiceType::ExternalName;
    let mut peers = named.iter().filter(is_of_it).filter_map(|pod| pod.hostname.as_ref());
    let (hostname, _) = peers.next().zip(peers.next()).filter(|_| !is_alias)?;
    Some(HeadlessWithoutNames {
        subdomain: name.clone(),
        service: name.clone(),
        governing: Governing::HasClusterIp,
        hostname: hostname.clone(),
    })
}

impl Finding for HeadlessWithoutNames {
    /// Pods get DNS names from the headless Service whose name is their subdomain. If no pod has a
    /// hostname, nobody expects such names.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let service = inputs.service;
        let named: Vec<&Arc<Pod>> = inputs.pods.iter().filter(|pod| pod.hostname.is_some()).collect();
        if !service.is_headless() {
            return behind_a_cluster_ip(inputs, &named).into_iter().collect();
        }
        if named.iter().any(|pod| pod.hostname_for(service).is_some()) {
            return Vec::new();
        }
        let without = named.into_iter().filter_map(|pod| Some((pod, Governing::of(pod, inputs.objects)?)));
        let first = without.min_by_key(|(_, governing)| *governing == Governing::NotNamed);
        let found = first.map(|(pod, governing)| Self {
            subdomain: pod.subdomain.clone().unwrap_or_default(),
            service: service.key.name.clone(),
            governing,
            hostname: pod.hostname.clone().unwrap_or_default(),
        });
        found.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.cluster_ip_of(&self.service)]
    }

    /// `spec.subdomain` of a pod and `spec.serviceName` of a StatefulSet never change.
    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let Self { subdomain, service, governing, .. } = self;
        match governing {
            Governing::NotNamed => Remedy::ask(
                PodOwner,
                format!(
                    "Write the subdomain {service:?} into the pod template, and start the pods again; the subdomain of a running pod cannot be changed"
                ),
            ),
            Governing::Missing => Remedy::ask(
                ServiceOwner,
                format!(
                    "Create a headless Service {subdomain:?} with the same selector and ports; or create the StatefulSet again with the serviceName {service:?}, which cannot be changed"
                ),
            ),
            Governing::HasClusterIp => Remedy::ask(
                ServiceOwner,
                "Create the Service again with spec.clusterIP None, which cannot be changed, and a second one with another name for clients that need a cluster IP",
            ),
            Governing::NotHeadless | Governing::SelectsOthers => Remedy::ask(
                PodOwner,
                format!(
                    "Create the StatefulSet, or the pods, again with the serviceName or subdomain {service:?}; neither can be changed"
                ),
            ),
        }
    }
}

impl fmt::Display for HeadlessWithoutNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subdomain, service, governing, hostname } = self;
        let why = match governing {
            Governing::NotNamed => {
                return write!(
                    f,
                    "the pods have a hostname but no subdomain, so DNS has no names for them; they need the subdomain {service:?}"
                );
            }
            Governing::HasClusterIp => {
                return write!(
                    f,
                    "the Service is the serviceName of a StatefulSet and has a cluster IP, so DNS has no names for the pods, such as {hostname}.{service}"
                );
            }
            Governing::Missing => "no Service of this name exists",
            Governing::NotHeadless => "the Service of this name is not headless",
            Governing::SelectsOthers => "the Service of this name does not select them",
        };
        write!(f, "the pods have the subdomain {subdomain:?}, and {why}, so DNS has no names for them")
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn another_headless_service_may_name_the_pods() {
        let without = example("ep036-headless-without-names");
        assert!(without.finds(Code::HeadlessWithoutNames));
        let governing = json!({
            "kind": "Service", "apiVersion": "v1",
            "metadata": {"name": "web-old"},
            "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 8080}]},
        });
        assert!(!without.and(governing).finds(Code::HeadlessWithoutNames));
    }

    #[test]
    fn a_service_with_a_cluster_ip_gives_no_names() {
        let pods = json!({"metadata": {"ownerReferences": [{"kind": "StatefulSet", "name": "web", "controller": true}]},
            "spec": {"subdomain": "web"}});
        let service = json!({"spec": {"clusterIP": "10.96.0.10"}});
        let alone =
            example("ep036-headless-without-names").with("Pod/web-1", pods).with("Service/web", service);
        assert!(!alone.finds(Code::HeadlessWithoutNames), "a lone pod has no peers");
        let mut peer = alone.object("Pod/web-1");
        json_patch::merge(&mut peer, &json!({"metadata": {"name": "web-2"}, "spec": {"hostname": "web-2"}}));
        assert!(alone.and(peer).finds(Code::HeadlessWithoutNames));
    }

    #[test]
    fn nobody_expects_names_of_pods_without_a_hostname() {
        let pod = json!({"spec": {"hostname": null, "subdomain": null}});
        let unnamed = example("ep036-headless-without-names").with("Pod/web-1", pod);
        assert!(!unnamed.finds(Code::HeadlessWithoutNames));
    }
}

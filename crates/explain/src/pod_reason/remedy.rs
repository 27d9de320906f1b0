//! The remedy of each reason.

use std::net::IpAddr;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;

use super::PodReason;
use super::text::any_of;
use crate::remedy::Person::{ClusterAdministrator, PodOwner, ServiceOwner};
use crate::{Remedy, Step};

impl PodReason {
    /// Returns the remedy for the pod with this name, which the Service selects.
    pub fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        let in_namespace = |words: &[&str]| Step::kubectl_in(&service.namespace, words.iter().copied());
        let describe = || in_namespace(&["describe", "pod", pod]);
        match self {
            Self::PortNameNotFound { wanted, has } | Self::SomePortsNotFound { wanted, has } => {
                let names: Vec<String> = wanted.iter().map(|port| format!("{:?}", port.name)).collect();
                let choice: Vec<String> = has.iter().map(|port| format!("{:?}", port.name)).collect();
                let names = names.join(" and ");
                Remedy::ask(
                    ServiceOwner,
                    if choice.is_empty() {
                        format!(
                            "Give a container port the name {names}, or set the Service's targetPort to a number"
                        )
                    } else {
                        format!(
                            "Set the Service's targetPort to {} or a number, or give a container port the name {names}",
                            choice.join(" or ")
                        )
                    },
                )
            }
            Self::PortProtocolDiffers { wanted, has } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Set the protocol of the Service's port to {}, or that of the container port {:?} to {}",
                    has.protocol, wanted.name, wanted.protocol
                ),
            ),
            Self::NodeNotFound { node } => Remedy::ask(
                ClusterAdministrator,
                format!("Bring node {node:?} back, or delete the pod so that it is scheduled elsewhere"),
            ),
            Self::ReadinessGateNotMet { gate, .. } => Remedy::ask(
                ClusterAdministrator,
                format!(
                    "Look at the controller that sets the condition {gate}, often that of a load balancer"
                ),
            ),
            Self::ContainerNotRunning { container, why, .. } => match &**why {
                "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" => Remedy::ask(
                    PodOwner,
                    format!("Correct the image of container {container}, or the credentials to pull it"),
                )
                .shown_by([describe()]),
                _ => Remedy::ask(PodOwner, format!("Look at why container {container} ends"))
                    .shown_by([in_namespace(&["logs", "--previous", pod, "-c", container])]),
            },
            Self::ContainerNotReady { containers, .. } => {
                let container: Vec<&str> = containers.first().iter().flat_map(|name| ["-c", name]).collect();
                Remedy::ask(PodOwner, "Look at the readiness probe")
                    .shown_by([describe(), in_namespace(&[&["logs", pod], &*container].concat())])
            }
            Self::NodeNotReady { node, .. } => {
                Remedy::ask(ClusterAdministrator, format!("Look at the kubelet of node {node}"))
                    .shown_by([Step::kubectl(["describe", "node", node])])
            }
            Self::NoAddressOfFamily { family, .. } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Give pods {family:?} addresses (dual-stack network), or create the Service with a family that they have"
                ),
            ),
            // A single-stack Service keeps its first family.
            Self::SomeFamiliesMissing { missing, has } => {
                let has = if has.iter().any(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
                Remedy::ask(
                    ServiceOwner,
                    format!(
                        "Give all pods {} addresses, or make the Service single-stack if its first family is {has}",
                        any_of(missing)
                    ),
                )
            }
            Self::PodFinished => Remedy::ask(
                ServiceOwner,
                "Nothing, if it has done its work; a Service should select pods that keep running",
            ),
            Self::NoAddress => {
                Remedy::new("Wait for the network plugin; if it lasts, look at the pod's events")
                    .shown_by([describe()])
            }
            Self::PodTerminating { .. } => {
                Remedy::new("Nothing; if it lasts, look at the pod's finalizers and its node")
                    .shown_by([Step::finalizers(&service.namespace, "pod", pod)])
            }
            Self::InvalidAddress { .. } => Remedy::ask(
                ClusterAdministrator,
                "Correct what writes the pod's status: the kubelet or the network plugin",
            ),
            Self::NotReady { .. } => {
                Remedy::ask(PodOwner, "Look at the pod's conditions").shown_by([describe()])
            }
            Self::NotScheduled { .. } => {
                Remedy::ask(PodOwner, "Look at the scheduler's events").shown_by([describe()])
            }
            Self::OverCapacity => Remedy::ask(
                ServiceOwner,
                "Nothing, if clients read EndpointSlices, which hold all pods; Endpoints hold at most 1000",
            ),
            Self::NotWritten => {
                let selector = format!("{LABEL_SERVICE_NAME}={}", service.name);
                Remedy::new("Look at what the explanation says about the slices of the Service")
                    .shown_by([in_namespace(&["get", "endpointslices", "-l", &selector])])
            }
            Self::NoServicePorts => Remedy::ask(ServiceOwner, "Add a port to spec.ports of the Service"),
            Self::ReadinessUnknown => Remedy::ask(
                ClusterAdministrator,
                "Look at the kubelet of the pod's node, or at who writes the pod's status",
            ),
            Self::PublishedNotReady { .. } => Remedy::ask(
                ServiceOwner,
                "Nothing, if clients expect that; else unset publishNotReadyAddresses",
            ),
        }
    }
}

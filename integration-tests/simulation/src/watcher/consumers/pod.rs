//! The parts of a pod that clients notice.

use std::net::IpAddr;

use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use serde_json::Value;

use super::rules::State;
use crate::cluster::text;

/// A namespace, and the value of the only label in selectors.
pub(super) type App = (String, String);

/// A port of a container: name, protocol, number.
type ContainerPort = (String, String, u16);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) app: App,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) node: String,
    ports: Vec<ContainerPort>,
    /// The state, or `None` once the pod has ended.
    pub(super) state: Option<State>,
}

impl Pod {
    pub(super) fn of(pod: &Value) -> Self {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready =
            conditions.filter(|condition| condition["type"] == "Ready").any(|it| it["status"] == "True");
        let state = match (is_ready, pod["metadata"]["deletionTimestamp"].is_null()) {
            (true, true) => State::Ready,
            (true, false) => State::Serving,
            (false, _) => State::NotReady,
        };
        let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let port = |port: &Value| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            let number = port["containerPort"].as_u64().and_then(|number| number.try_into().ok())?;
            Some((text(port, "/name").to_owned(), protocol, number))
        };
        Self {
            app: (text(pod, "/metadata/namespace").to_owned(), text(pod, "/metadata/labels/app").to_owned()),
            addresses: addresses.filter_map(|it| text(it, "/ip").parse().ok()).collect(),
            node: text(pod, "/spec/nodeName").to_owned(),
            ports: containers
                .flat_map(|it| it["ports"].as_array().into_iter().flatten())
                .filter_map(port)
                .collect(),
            state: (!has_ended).then_some(state),
        }
    }

    /// Returns the number of the pod's port for a port of a Service.
    pub(super) fn number(&self, port: &ServicePort) -> Option<u16> {
        let number = match &port.target_port {
            TargetPort::Number(0) => port.port,
            TargetPort::Number(number) => *number,
            TargetPort::Name(name) => {
                let is_it =
                    |(held, protocol, _): &&ContainerPort| *held == **name && *protocol == *port.protocol;
                return self.ports.iter().find(is_it).map(|(_, _, number)| *number);
            }
        };
        number.try_into().ok()
    }
}

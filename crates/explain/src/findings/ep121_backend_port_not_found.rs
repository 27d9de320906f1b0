//! An Ingress, a route, an APIService or a webhook asks for a port that the Service does not have.

use kube_endpoint_core_model::service::{ServicePort, TargetPort};

use crate::facts::references::{AskedPort, Reference};
use crate::findings::prelude::*;

about! {
    /// Such objects name a port of the Service (`spec.ports[].port` or its name), not one of the
    /// pods. Clients of the object get an error, and other clients of the Service are served. An
    /// object that names no port is told, too: it needs one. A headless Service is left out,
    /// because proxies may use any port of its pods.
    EP121 "backend-port-not-found" Error
    "An Ingress, a route, an APIService or a webhook asks for a port that the Service does not have."
}

/// References to a port that the Service does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendPortNotFound {
    #[serde(flatten)]
    pub reference: Reference,
    /// The ports of the Service, such as `80 (http)`.
    pub has: Vec<String>,
    /// True if the object names the port of the pods.
    pub is_target: bool,
}

impl BackendPortNotFound {
    fn asked(&self) -> String {
        match &self.reference.port {
            Some(port) => format!("asks for port {port}"),
            None => "names no port".to_owned(),
        }
    }
}

impl Finding for BackendPortNotFound {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let service = inputs.service;
        if service.is_headless() || inputs.is_alias() {
            return Vec::new();
        }
        let name = |port: &ServicePort| match &*port.name {
            "" => port.port.to_string(),
            name => format!("{} ({name})", port.port),
        };
        let is_target = |reference: &Reference| {
            service.ports.iter().any(|port| match (&port.target_port, &reference.port) {
                (TargetPort::Number(target), Some(AskedPort::Number(asked))) => i64::from(*target) == *asked,
                (TargetPort::Name(target), Some(AskedPort::Name(asked))) => target == asked,
                _ => false,
            })
        };
        let of = inputs.objects.references_to(&service.key);
        let wrong = of.filter(|it| it.port.as_ref().is_none_or(|port| !port.is_of(service)));
        wrong
            .map(|reference| Self {
                reference: reference.clone(),
                has: service.ports.iter().map(name).collect(),
                is_target: is_target(reference),
            })
            .collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.ports()]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let from = &self.reference.from;
        let (kind, name) = (from.resource(), &*from.object.name);
        let show = match &*from.object.namespace {
            "" => Step::kubectl(["get", &kind, name, "-o", "yaml"]),
            namespace => Step::kubectl_in(namespace, ["get", &kind, name, "-o", "yaml"]),
        };
        Remedy::ask(ServiceOwner, format!("Name a port of the Service in {from}: {}", self.has.join(", ")))
            .shown_by([show])
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for BackendPortNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reference { from, route, .. } = &self.reference;
        let of = if route.is_empty() { String::new() } else { format!(" ({route})") };
        let has = self.has.join(", ");
        write!(f, "{from}{of} {}, and the Service has {has}", self.asked())?;
        match &self.reference.port {
            Some(port) if self.is_target => write!(f, "; {port} is the port of its pods"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn the_name_of_a_port_is_as_good_as_its_number() {
        let wrong = example("ep121-backend-port-not-found");
        assert!(wrong.finds(Code::BackendPortNotFound));
        for port in [json!({"name": "http"}), json!({"number": 80})] {
            let backend = json!({"service": {"name": "web", "port": port}});
            let rules = json!([{"http": {"paths": [{"path": "/", "backend": backend}]}}]);
            let right = wrong.clone().with("Ingress/front", json!({"spec": {"rules": rules}}));
            assert!(!right.finds(Code::BackendPortNotFound));
        }
    }
}

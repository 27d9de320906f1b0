//! Named ports of Services and pods: what a reason tells of them, and how they get the same name.

use std::fmt;

use kube_endpoint_core_model::service::TargetPort;
use kube_endpoint_core_model::{Service, Text};
use serde::Serialize;
use serde_json::json;

use crate::facts::remedy::{PatchForm, Step};
use crate::models::near::is_typo;

/// A port with a name. Prints as `name (TCP)`, with its number if it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedPort {
    pub name: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// The number, or `None` for a port that a Service asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// A port of a Service without any endpoint. Prints as `80 (http)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadPort {
    pub port: i32,
    /// Its name, or empty.
    pub name: Text,
    /// The name of the container port to which it leads.
    pub target: Text,
}

impl fmt::Display for NamedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}={port}/{}", self.name, self.protocol),
            None => write!(f, "{:?} ({})", self.name, self.protocol),
        }
    }
}

impl fmt::Display for DeadPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, name, .. } = self;
        if name.is_empty() { write!(f, "{port}") } else { write!(f, "{port} ({name})") }
    }
}

pub(in crate::findings) fn list(ports: &[NamedPort]) -> String {
    let texts: Vec<String> = ports.iter().map(NamedPort::to_string).collect();
    if texts.is_empty() { "no named ports".to_owned() } else { texts.join(", ") }
}

/// Says which ports a pod lacks. `elsewhere` is true if other pods have one of them.
pub(in crate::findings) fn not_found(wanted: &[NamedPort], has: &[NamedPort], elsewhere: bool) -> String {
    let others = if elsewhere { ", which other pods of the Service have" } else { "" };
    format!("no container port named {}{others}; the pod has {}", list(wanted), list(has))
}

/// Says how a Service and the container ports of a pod get the same name. If other pods have the
/// name, the Service has to keep it: with another name or a number they would get no traffic, or
/// this pod would get some that it does not serve. `free` are the names of ports of the pod to
/// which no port of the Service leads, if the Service has other ports that the pod has.
pub(in crate::findings) fn name_port(
    wanted: &[NamedPort],
    has: &[NamedPort],
    elsewhere: bool,
    free: Option<&Vec<Text>>,
) -> String {
    let names: Vec<String> = wanted.iter().map(|port| format!("{:?}", port.name)).collect();
    let names = names.join(" and ");
    if elsewhere {
        return format!(
            "Give the container port of this pod that serves clients the name {names}, or change its labels so that the Service does not select it"
        );
    }
    let choice = |ports: Vec<&NamedPort>| {
        ports.iter().map(|port| format!("{:?}", port.name)).collect::<Vec<_>>().join(" or ")
    };
    let typos = has.iter().filter(|port| wanted.iter().any(|wanted| is_typo(&wanted.name, &port.name)));
    let typos: Vec<&NamedPort> = typos.collect();
    match (typos.is_empty(), has) {
        (false, _) => format!(
            "Set the Service's targetPort to {}, or give that container port the name {names}",
            choice(typos)
        ),
        (true, _) if free.is_some() => {
            let free: Vec<String> = free.into_iter().flatten().map(|name| format!("{name:?}")).collect();
            let choice = free.join(" or ");
            let name = match &*choice {
                "" => format!("Give the container port that serves it the name {names}"),
                choice => format!(
                    "Set the targetPort to the name of the container port that serves it ({choice}), or give that container port the name {names}"
                ),
            };
            format!("{name}; remove the port from the Service only if no client uses it")
        }
        (true, []) => format!(
            "Give the container port that serves clients the name {names}, or set the Service's targetPort to its number"
        ),
        (true, has) => format!(
            "Set the Service's targetPort to the name of the container port that serves clients ({}), or give it the name {names}",
            choice(has.iter().collect())
        ),
    }
}

/// Returns the patch that corrects the target ports of a Service, if each missing name is likely a
/// typo of exactly one name that the pod has.
pub(in crate::findings) fn patch_ports(
    service: &Service,
    wanted: &[NamedPort],
    has: &[NamedPort],
) -> Option<Step> {
    let mut operations = Vec::new();
    for (at, port) in service.ports.iter().enumerate() {
        let TargetPort::Name(name) = &port.target_port else { continue };
        if !wanted.iter().any(|one| (&one.name, &one.protocol) == (name, &port.protocol)) {
            continue;
        }
        let mut similar = has.iter().filter(|one| one.protocol == port.protocol && is_typo(name, &one.name));
        let (Some(meant), None) = (similar.next(), similar.next()) else { return None };
        let path = format!("/spec/ports/{at}/targetPort");
        operations.push(json!({"op": "test", "path": path, "value": **name}));
        operations.push(json!({"op": "replace", "path": path, "value": *meant.name}));
    }
    (!operations.is_empty()).then(|| Step::Patch {
        kind: "service",
        object: service.key.clone(),
        form: PatchForm::Json,
        patch: operations.into(),
    })
}

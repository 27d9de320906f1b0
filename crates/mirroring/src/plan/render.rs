//! A plan as text, for people.

use std::fmt::{self, Display, Formatter};

use kube_endpoint_core_model::{Endpoint, EndpointPort, EndpointSlice, StringMap};

use super::Plan;

/// Prints a plan: what is written, in order, then events. Ends with a newline.
pub fn render(plan: &Plan) -> String {
    Rendered(plan).to_string()
}

struct Rendered<'a>(&'a Plan);

impl Display for Rendered<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(plan) = self;
        if let Some(reason) = plan.not_mirrored {
            writeln!(f, "not mirrored: {reason}")?;
        }
        if plan.is_empty() {
            writeln!(f, "nothing to write")?;
        }
        plan.create.iter().try_for_each(|each| slice(f, "create", each))?;
        plan.update.iter().try_for_each(|each| slice(f, "update", each))?;
        plan.delete.iter().try_for_each(|each| writeln!(f, "delete {}", each.key()))?;
        plan.events.iter().try_for_each(|event| writeln!(f, "event: {event}"))
    }
}

fn slice(f: &mut Formatter<'_>, verb: &str, slice: &EndpointSlice) -> fmt::Result {
    let metadata = &slice.metadata;
    if metadata.name.is_empty() {
        write!(f, "{verb} {}/{}*", metadata.namespace, metadata.generate_name)?;
    } else {
        write!(f, "{verb} {}", slice.key())?;
    }
    write!(f, " {}", slice.address_type.as_str())?;
    if slice.ports.is_empty() {
        write!(f, ", no ports")?;
    } else {
        write!(f, ", ports")?;
        slice.ports.iter().try_for_each(|each| port(f, each))?;
    }
    writeln!(f)?;
    for owner in &metadata.owner_references {
        writeln!(f, "  owner {} {} ({})", owner.kind, owner.name, owner.uid)?;
    }
    pairs(f, "label", &metadata.labels)?;
    pairs(f, "annotation", &metadata.annotations)?;
    slice.endpoints.iter().try_for_each(|each| endpoint(f, each))
}

fn pairs(f: &mut Formatter<'_>, what: &str, pairs: &StringMap) -> fmt::Result {
    pairs.iter().try_for_each(|(key, value)| writeln!(f, "  {what} {key}={value}"))
}

fn port(f: &mut Formatter<'_>, port: &EndpointPort) -> fmt::Result {
    write!(f, " ")?;
    if let Some(name) = port.name.as_ref().filter(|name| !name.is_empty()) {
        write!(f, "{name}=")?;
    }
    match port.port {
        Some(number) => write!(f, "{number}")?,
        None => write!(f, "any")?,
    }
    port.protocol.iter().try_for_each(|protocol| write!(f, "/{protocol}"))?;
    port.app_protocol.iter().try_for_each(|protocol| write!(f, "({protocol})"))
}

fn endpoint(f: &mut Formatter<'_>, endpoint: &Endpoint) -> fmt::Result {
    let state = if endpoint.conditions.ready.unwrap_or(true) { "ready" } else { "not ready" };
    write!(f, "  {state} {}", endpoint.addresses.join(" "))?;
    if let Some(hostname) = &endpoint.hostname {
        write!(f, " hostname {hostname}")?;
    }
    if let Some(target) = &endpoint.target_ref {
        write!(f, " of {} {}", target.kind, target.name)?;
    }
    if let Some(node) = &endpoint.node_name {
        write!(f, " on {node}")?;
    }
    writeln!(f)
}

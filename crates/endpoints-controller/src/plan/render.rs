//! A plan as text, for people.

use std::fmt::{self, Display, Formatter};

use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::{Endpoints, StringMap, Verdict};

use super::{Action, Plan};

/// Prints a plan: what is written, then what became of each pod, then warnings. Ends with a newline.
pub fn render(plan: &Plan) -> String {
    Rendered(plan).to_string()
}

struct Rendered<'a>(&'a Plan);

impl Display for Rendered<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(plan) = self;
        match &plan.action {
            Action::None => writeln!(f, "nothing to write")?,
            Action::Create(endpoints) => object(f, "create", endpoints)?,
            Action::Update(endpoints) => object(f, "update", endpoints)?,
        }
        for judged in &plan.verdicts {
            write!(f, "pod {}: ", judged.pod.name)?;
            verdict(f, &judged.verdict)?;
        }
        if let Some(warning) = &plan.warning {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}

fn object(f: &mut Formatter<'_>, verb: &str, endpoints: &Endpoints) -> fmt::Result {
    write!(f, "{verb} {}", endpoints.key())?;
    if !endpoints.metadata.resource_version.is_none() {
        write!(f, " at version {}", endpoints.metadata.resource_version)?;
    }
    writeln!(f)?;
    pairs(f, "label", &endpoints.metadata.labels)?;
    pairs(f, "annotation", &endpoints.metadata.annotations)?;
    endpoints.subsets.iter().try_for_each(|each| subset(f, each))
}

fn pairs(f: &mut Formatter<'_>, what: &str, pairs: &StringMap) -> fmt::Result {
    pairs.iter().try_for_each(|(key, value)| writeln!(f, "  {what} {key}={value}"))
}

fn subset(f: &mut Formatter<'_>, subset: &EndpointSubset) -> fmt::Result {
    if subset.ports.is_empty() {
        write!(f, "  no ports")?;
    } else {
        write!(f, "  ports")?;
        subset.ports.iter().try_for_each(|each| port(f, each))?;
    }
    writeln!(f)?;
    subset.addresses.iter().try_for_each(|each| address(f, "ready", each))?;
    subset.not_ready_addresses.iter().try_for_each(|each| address(f, "not ready", each))
}

fn port(f: &mut Formatter<'_>, port: &EndpointsPort) -> fmt::Result {
    write!(f, " ")?;
    if !port.name.is_empty() {
        write!(f, "{}=", port.name)?;
    }
    write!(f, "{}/{}", port.port, port.protocol)?;
    port.app_protocol.iter().try_for_each(|protocol| write!(f, "({protocol})"))
}

fn address(f: &mut Formatter<'_>, state: &str, address: &EndpointAddress) -> fmt::Result {
    write!(f, "    {state} {}", address.ip)?;
    if !address.hostname.is_empty() {
        write!(f, " hostname {}", address.hostname)?;
    }
    if let Some(target) = &address.target_ref {
        write!(f, " of {} {}", target.kind, target.name)?;
    }
    if let Some(node) = &address.node_name {
        write!(f, " on {node}")?;
    }
    writeln!(f)
}

fn verdict(f: &mut Formatter<'_>, verdict: &Verdict) -> fmt::Result {
    match verdict {
        Verdict::LeftOut(reason) => writeln!(f, "left out: {reason}"),
        Verdict::Published { ready, serving, terminating, missing_ports } => {
            write!(f, "published as {}", if *ready { "ready" } else { "not ready" })?;
            if ready != serving {
                write!(f, ", though not serving")?;
            }
            if *terminating {
                write!(f, ", being deleted")?;
            }
            if !missing_ports.is_empty() {
                write!(f, ", without port {}", missing_ports.join(", "))?;
            }
            writeln!(f)
        }
    }
}

//! A plan as text, for people: what is written, then events, what went wrong, and what became of each pod.

use std::fmt::{self, Display, Formatter};

use kube_endpoint_core_model::slice::Hint;
use kube_endpoint_core_model::well_known::{LABEL_MANAGED_BY, LABEL_SERVICE_NAME};
use kube_endpoint_core_model::{Endpoint, EndpointPort, EndpointSlice, StringMap, Text, Verdict};

use super::outcome::{AddressTypeStats, Plan};

impl Display for Plan {
    /// Ends with a newline.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.writes_nothing() {
            writeln!(f, "nothing to write")?;
        }
        for slice in &self.create {
            writeln!(f, "create {}*", slice.metadata.generate_name)?;
            body(f, slice)?;
        }
        for slice in &self.update {
            write!(f, "update {}", slice.metadata.name)?;
            if !slice.metadata.resource_version.is_none() {
                write!(f, " at version {}", slice.metadata.resource_version)?;
            }
            writeln!(f)?;
            body(f, slice)?;
        }
        for slice in &self.delete {
            writeln!(f, "delete {}", slice.metadata.name)?;
        }
        self.events.iter().try_for_each(|event| writeln!(f, "event {event}"))?;
        self.errors.iter().try_for_each(|error| writeln!(f, "retry: {error}"))?;
        for judged in &self.verdicts {
            write!(f, "pod {}: ", judged.pod.name)?;
            verdict(f, &judged.verdict)?;
        }
        self.stats.address_types.iter().try_for_each(|one| numbers(f, one))
    }
}

fn body(f: &mut Formatter<'_>, slice: &EndpointSlice) -> fmt::Result {
    write!(f, "  {}", slice.address_type.as_str())?;
    if slice.ports.is_empty() {
        write!(f, ", no ports")?;
    } else {
        write!(f, ", ports")?;
        slice.ports.iter().try_for_each(|each| port(f, each))?;
    }
    if slice.endpoints.is_empty() {
        write!(f, ", no endpoints")?;
    }
    writeln!(f)?;
    // Those two are on every slice, and say nothing that is not known.
    let labels = slice.metadata.labels.without(LABEL_SERVICE_NAME).without(LABEL_MANAGED_BY);
    pairs(f, "label", &labels)?;
    pairs(f, "annotation", &slice.metadata.annotations)?;
    slice.endpoints.iter().try_for_each(|each| endpoint(f, each))
}

fn pairs(f: &mut Formatter<'_>, what: &str, pairs: &StringMap) -> fmt::Result {
    pairs.iter().try_for_each(|(key, value)| writeln!(f, "  {what} {key}={value}"))
}

fn port(f: &mut Formatter<'_>, port: &EndpointPort) -> fmt::Result {
    write!(f, " ")?;
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
        write!(f, "{name}=")?;
    }
    match port.port {
        Some(number) => write!(f, "{number}")?,
        None => write!(f, "all")?,
    }
    write!(f, "/{}", port.protocol.as_deref().unwrap_or("TCP"))?;
    port.app_protocol.iter().try_for_each(|protocol| write!(f, "({protocol})"))
}

fn endpoint(f: &mut Formatter<'_>, endpoint: &Endpoint) -> fmt::Result {
    let conditions = endpoint.conditions;
    write!(f, "    {}", if conditions.ready == Some(false) { "not ready" } else { "ready" })?;
    if conditions.terminating == Some(true) {
        write!(
            f,
            ", {}",
            if conditions.serving == Some(true) { "serving until it is deleted" } else { "being deleted" }
        )?;
    }
    write!(f, ": {}", endpoint.addresses.join(" "))?;
    if let Some(hostname) = &endpoint.hostname {
        write!(f, " hostname {hostname}")?;
    }
    if let Some(target) = &endpoint.target_ref {
        write!(f, " of {} {}", target.kind, target.name)?;
    }
    if let Some(node) = &endpoint.node_name {
        write!(f, " on {node}")?;
    }
    if let Some(zone) = &endpoint.zone {
        write!(f, " in {zone}")?;
    }
    if let Some(hints) = &endpoint.hints {
        names(f, "zone", &hints.for_zones)?;
        names(f, "node", &hints.for_nodes)?;
    }
    writeln!(f)
}

fn names(f: &mut Formatter<'_>, what: &str, hints: &[Hint]) -> fmt::Result {
    if hints.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = hints.iter().map(|hint| &*hint.name).collect();
    write!(f, ", for {what} {}", names.join(" "))
}

fn verdict(f: &mut Formatter<'_>, verdict: &Verdict) -> fmt::Result {
    match verdict {
        Verdict::LeftOut(reason) => writeln!(f, "left out: {reason}"),
        Verdict::Published { ready, serving, terminating, missing_ports } => {
            write!(f, "published as {}", if *ready { "ready" } else { "not ready" })?;
            if ready != serving {
                write!(f, ", though {}", if *serving { "serving" } else { "not serving" })?;
            }
            if *terminating {
                write!(f, ", being deleted")?;
            }
            if !missing_ports.is_empty() {
                let named = |name: &Text| if name.is_empty() { "(unnamed)".into() } else { name.clone() };
                let names: Vec<Text> = missing_ports.iter().map(named).collect();
                write!(f, ", without port {}", names.join(", "))?;
            }
            writeln!(f)
        }
    }
}

fn numbers(f: &mut Formatter<'_>, stats: &AddressTypeStats) -> fmt::Result {
    writeln!(
        f,
        "{}: endpoints {} (came {}, went {}), slices {} (changed {})",
        stats.address_type.as_str(),
        stats.endpoints(),
        stats.endpoints_added,
        stats.endpoints_removed,
        stats.slices(),
        stats.slices_changed
    )
}

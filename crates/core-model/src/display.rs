//! Prints the objects that plans write: EndpointSlices and Endpoints have one layout, so that all
//! plans print alike.
//!
//! ```text
//! update ns/web-x7k2p at version 31: IPv4, ports http=8080/TCP
//!   owner Service web (uid)
//!   label team=shop
//!   annotation note=kept
//!   ready: 10.0.0.1 of Pod web-0 on node-a in zone-a, for zone zone-a
//! ```

use std::fmt::{self, Display, Formatter};

use crate::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use crate::slice::{EndpointConditions, Hint};
use crate::well_known::{LABEL_MANAGED_BY, LABEL_SERVICE_NAME};
use crate::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Endpoints, ObjectMeta, ObjectReference, StringMap,
    Writes,
};

/// An object that a plan writes, as [`Writes`] prints it.
pub trait PlannedObject {
    /// Returns the metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Writes the rest of the first line after the name, if any.
    ///
    /// # Errors
    ///
    /// Those of the formatter.
    fn fmt_heading(&self, f: &mut Formatter<'_>) -> fmt::Result;

    /// Writes the labels, annotations and content, one indented line each.
    ///
    /// # Errors
    ///
    /// Those of the formatter.
    fn fmt_body(&self, f: &mut Formatter<'_>) -> fmt::Result;
}

impl<T: PlannedObject> Display for Writes<T> {
    /// Prints all writes in order, or `nothing to write`. Ends with a newline.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            writeln!(f, "nothing to write")?;
        }
        self.create.iter().try_for_each(|object| written(f, "create", object))?;
        self.update.iter().try_for_each(|object| written(f, "update", object))?;
        self.delete.iter().try_for_each(|object| writeln!(f, "delete {}", object.metadata().key()))
    }
}

/// Writes one item a line, each after `prefix`.
///
/// # Errors
///
/// Those of the formatter.
pub fn fmt_lines<T: Display>(
    f: &mut Formatter<'_>,
    prefix: &str,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    items.into_iter().try_for_each(|item| writeln!(f, "{prefix}{item}"))
}

fn written(f: &mut Formatter<'_>, verb: &str, object: &impl PlannedObject) -> fmt::Result {
    let metadata = object.metadata();
    if metadata.name.is_empty() {
        write!(f, "{verb} {}/{}*", metadata.namespace, metadata.generate_name)?;
    } else {
        write!(f, "{verb} {}", metadata.key())?;
    }
    if !metadata.resource_version.is_none() {
        write!(f, " at version {}", metadata.resource_version)?;
    }
    object.fmt_heading(f)?;
    writeln!(f)?;
    object.fmt_body(f)
}

impl PlannedObject for EndpointSlice {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn fmt_heading(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ": {}, {}", self.address_type, Ports(&self.ports))?;
        if self.endpoints.is_empty() { write!(f, ", no endpoints") } else { Ok(()) }
    }

    fn fmt_body(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let metadata = &self.metadata;
        for owner in &metadata.owner_references {
            writeln!(f, "  owner {} {} ({})", owner.kind, owner.name, owner.uid)?;
        }
        // Each slice of a plan has the same values of these two labels.
        pairs(f, "label", &metadata.labels.without(LABEL_SERVICE_NAME).without(LABEL_MANAGED_BY))?;
        pairs(f, "annotation", &metadata.annotations)?;
        fmt_lines(f, "  ", &self.endpoints)
    }
}

impl PlannedObject for Endpoints {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn fmt_heading(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.subsets.is_empty() { write!(f, ": no addresses") } else { Ok(()) }
    }

    fn fmt_body(&self, f: &mut Formatter<'_>) -> fmt::Result {
        pairs(f, "label", &self.metadata.labels)?;
        pairs(f, "annotation", &self.metadata.annotations)?;
        for EndpointSubset { addresses, not_ready_addresses, ports } in
            self.subsets.listed().unwrap_or_default()
        {
            writeln!(f, "  {}", Ports(ports))?;
            fmt_lines(f, "    ready: ", addresses)?;
            fmt_lines(f, "    not ready: ", not_ready_addresses)?;
        }
        Ok(())
    }
}

fn pairs(f: &mut Formatter<'_>, what: &str, pairs: &StringMap) -> fmt::Result {
    pairs.iter().try_for_each(|(key, value)| writeln!(f, "  {what} {key}={value}"))
}

/// Prints ports as `ports http=80/TCP dns=53/UDP`, or `no ports`.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'a, P>(pub &'a [P]);

impl<P: Display> Display for Ports<'_, P> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no ports");
        }
        f.write_str("ports")?;
        self.0.iter().try_for_each(|port| write!(f, " {port}"))
    }
}

impl Display for AddressType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Display for EndpointPort {
    /// Prints `name=80/TCP(application protocol)`, without the name and the application protocol if
    /// they are not set.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name.as_deref().filter(|name| !name.is_empty()) {
            write!(f, "{name}=")?;
        }
        match self.port {
            Some(number) => write!(f, "{number}")?,
            None => f.write_str("all")?,
        }
        write!(f, "/{}", self.protocol.as_deref().unwrap_or("TCP"))?;
        self.app_protocol.iter().try_for_each(|protocol| write!(f, "({protocol})"))
    }
}

impl Display for EndpointsPort {
    /// Prints as an [`EndpointPort`] does.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}=", self.name)?;
        }
        write!(f, "{}/{}", self.port, if self.protocol.is_empty() { "TCP" } else { &self.protocol })?;
        self.app_protocol.iter().try_for_each(|protocol| write!(f, "({protocol})"))
    }
}

impl Display for Endpoint {
    /// Prints on one line the state, the addresses, and hostname, target, node, zone and hints if
    /// they are set.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.conditions, self.addresses.join(" "))?;
        if let Some(hostname) = &self.hostname {
            write!(f, " hostname {hostname}")?;
        }
        target(f, self.target_ref.as_ref())?;
        if let Some(node) = &self.node_name {
            write!(f, " on {node}")?;
        }
        if let Some(zone) = &self.zone {
            write!(f, " in {zone}")?;
        }
        if let Some(hints) = &self.hints {
            names(f, "zone", &hints.for_zones)?;
            names(f, "node", &hints.for_nodes)?;
        }
        Ok(())
    }
}

impl Display for EndpointConditions {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.ready == Some(false) { "not ready" } else { "ready" })?;
        match (self.terminating, self.serving) {
            (Some(true), Some(true)) => f.write_str(", serving until it is deleted"),
            (Some(true), _) => f.write_str(", being deleted"),
            _ => Ok(()),
        }
    }
}

impl Display for EndpointAddress {
    /// Prints on one line the IP, and hostname, target and node if they are set.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.ip)?;
        if !self.hostname.is_empty() {
            write!(f, " hostname {}", self.hostname)?;
        }
        target(f, self.target_ref.as_ref())?;
        if let Some(node) = &self.node_name {
            write!(f, " on {node}")?;
        }
        Ok(())
    }
}

fn target(f: &mut Formatter<'_>, target: Option<&ObjectReference>) -> fmt::Result {
    target.map_or(Ok(()), |target| write!(f, " of {} {}", target.kind, target.name))
}

fn names(f: &mut Formatter<'_>, what: &str, hints: &[Hint]) -> fmt::Result {
    if hints.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = hints.iter().map(|hint| &*hint.name).collect();
    write!(f, ", for {what} {}", names.join(" "))
}

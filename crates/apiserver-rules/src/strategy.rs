//! What happens to an object on its way into the store: decoding, defaults, preparation, validation, generation.

use jiff::Timestamp;
use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;

/// Which part of an object a write addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself; its status is kept.
    None,
    /// The status subresource; all but the status (and a few metadata fields) is kept.
    Status,
}

/// An object ready to be stored, and what to say to the client in `Warning` headers.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The object, canonical: only fields that the kind has, empty ones left out as the real server leaves them out.
    pub object: Value,
    /// Texts of warnings, without the `299 - ` frame.
    pub warnings: Vec<String>,
}

/// Decodes a request's object: fields that the kind does not have are dropped, wrong types are refused (400).
///
/// `body` has been parsed; a patch result comes through here as well.
pub fn decode(resource: &Resource, body: Value) -> Result<Decided, Status> {
    let _ = resource;
    Ok(Decided { object: body, warnings: Vec::new() })
}

/// Defaults, prepares and validates a decoded object that is to be created. The caller has set metadata.namespace,
/// metadata.name (made from generateName if need be), uid and creationTimestamp; cluster IPs are allocated after it.
pub fn create(resource: &Resource, object: Value, now: Timestamp) -> Result<Decided, Status> {
    let _ = (resource, now);
    Ok(Decided { object, warnings: Vec::new() })
}

/// Defaults, prepares and validates a decoded object that is to replace `old`; sets metadata.generation.
/// The caller has checked preconditions and filled in uid, creationTimestamp and resourceVersion.
pub fn update(
    resource: &Resource,
    old: &Value,
    new: Value,
    subresource: Subresource,
    now: Timestamp,
) -> Result<Decided, Status> {
    let _ = (resource, old, subresource, now);
    Ok(Decided { object: new, warnings: Vec::new() })
}

/// The cluster IPs in use. Allocation is deterministic: the next free one, counting up from the last given out.
#[derive(Debug)]
pub struct ClusterIps {}

impl ClusterIps {
    /// An allocator over one range for each family, the first being the primary one.
    pub fn new(ipv4_range: &str, ipv6_range: &str) -> Self {
        let _ = (ipv4_range, ipv6_range);
        Self {}
    }

    /// Fills in clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy of a Service that is to be stored (after
    /// [`create`] or [`update`]), taking addresses; what `old` had and `service` has not is given back.
    pub fn allocate(&mut self, old: Option<&Value>, service: &mut Value) -> Result<(), Status> {
        let _ = (old, service);
        Ok(())
    }

    /// Takes the addresses of a Service that is loaded as it stands.
    pub fn occupy(&mut self, service: &Value) {
        let _ = service;
    }

    /// Gives back the addresses of a Service that was deleted.
    pub fn release(&mut self, service: &Value) {
        let _ = service;
    }
}

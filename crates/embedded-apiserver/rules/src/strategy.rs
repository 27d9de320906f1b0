//! What happens to an object on its way into the store: decoding, defaults, preparation, validation, generation.
//!
//! The order is the real server's: a body is decoded; defaults are set; the strategy prepares it (status reset or
//! kept, generation); it is validated; warnings are collected. One module for each kind does what only that kind does.

mod cluster_ips;
mod decode;
mod endpoints;
mod endpointslice;
pub mod event;
mod lease;
mod namespace;
mod node;
mod pod;
mod pod_defaults;
mod ranges;
mod review;
mod service;
pub(crate) mod service_facts;
mod service_ips;

use jiff::Timestamp;
use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;
use crate::validation::{Errors, metadata};
use crate::value::Fields;

pub use cluster_ips::ClusterIps;
pub use ranges::RangeError;

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
/// `body` has been parsed; a patch result comes through here as well. An absent `apiVersion` or `kind` is filled in.
/// The warnings are `unknown field "spec.x"`, which a client that asked for strict validation gets as an error: see
/// [`strict_decoding_error`].
///
/// # Errors
/// 400 BadRequest for a wrong type of a field, another kind or another version.
pub fn decode(resource: &Resource, body: Value) -> Result<Decided, Status> {
    decode::decode(resource, body)
}

/// The error that `fieldValidation=Strict` makes of the warnings of [`decode`]; None if there are none.
pub fn strict_decoding_error(resource: &Resource, warnings: &[String]) -> Option<Status> {
    (!warnings.is_empty()).then(|| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            warnings.join(", ")
        ))
    })
}

/// The warning that every request to a deprecated resource gets, reads among them.
pub fn deprecation_warning(resource: &Resource) -> Option<&'static str> {
    (resource.group.is_empty() && resource.kind == "Endpoints")
        .then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
}

/// Whether PUT to a name that does not exist creates the object.
pub fn allows_create_on_update(resource: &Resource) -> bool {
    matches!(resource.kind, "Service" | "Endpoints" | "Event" | "Lease")
}

/// Whether an update without resourceVersion is taken. Where it is not, leaving the resourceVersion of `new` empty
/// in [`update`] gives the real server's error.
pub fn allows_unconditional_update(resource: &Resource) -> bool {
    resource.kind != "Lease"
}

/// Sets the defaults of a decoded object without any preparation or validation, as the real server does on reading.
/// What comes from a real cluster does not change.
pub fn set_defaults(resource: &Resource, object: &mut Value) {
    match (resource.group, resource.kind) {
        ("", "Namespace") => namespace::set_defaults(object),
        ("", "Node") => node::set_defaults(object),
        ("", "Pod") => pod_defaults::set_defaults(object),
        ("", "Service") => service::set_defaults(object),
        ("", "Endpoints") => endpoints::set_defaults(object),
        ("discovery.k8s.io", _) => endpointslice::set_defaults(object),
        _ => {}
    }
}

/// An object that was not written through [`create`], as the real server shows it: decoded, with defaults, and a Service
/// with the IP families that follow from its addresses. What cannot be decoded comes back as it is.
pub fn shown_on_reading(resource: &Resource, object: Value) -> Value {
    let Ok(decoded) = decode(resource, object.clone()) else { return object };
    let mut object = decoded.object;
    set_defaults(resource, &mut object);
    if resource.kind == "Service" {
        service_ips::default_on_read(&mut object);
    }
    object
}

/// Defaults, prepares and validates a decoded object that is to be created. The caller has set metadata.namespace,
/// metadata.name (made from generateName if need be), uid and creationTimestamp; cluster IPs are allocated after it.
///
/// A review, which is never stored, comes with empty metadata and is only validated.
///
/// # Errors
/// 422 Invalid with a cause for each field; 400 for a token review without a token.
pub fn create(resource: &Resource, object: Value, now: Timestamp) -> Result<Decided, Status> {
    if !resource.is_stored() {
        review::validate(resource, &object)?;
        return Ok(Decided { object, warnings: Vec::new() });
    }
    // Nothing that a strategy sets on creation depends on the time; the signature leaves room for kinds where it does.
    let _ = now;
    let mut object = object;
    set_defaults(resource, &mut object);
    match resource.kind {
        "Namespace" => namespace::prepare_for_create(&mut object),
        "Node" => node::prepare_for_create(&mut object),
        "Pod" => pod::prepare_for_create(&mut object),
        "Service" => service::prepare_for_create(&mut object),
        "EndpointSlice" => endpointslice::prepare_for_create(&mut object),
        "Lease" => lease::prepare(&mut object, None),
        _ => {}
    }
    let mut errors = Errors::default();
    if resource.kind == "Service" {
        service_ips::init_on_create(&mut object, &mut errors);
        refuse(resource, &object, std::mem::take(&mut errors))?;
    }
    validate(resource, &object, None, &mut errors);
    refuse(resource, &object, std::mem::take(&mut errors))?;
    let rule = metadata::NameRule::PathSegment;
    metadata::validate(&object["metadata"], resource.namespaced, rule, &mut errors);
    refuse(resource, &object, errors)?;
    let warnings = warnings_on_create(resource, &object);
    if resource.kind == "Namespace" {
        namespace::set_defaults(&mut object);
    }
    Ok(Decided { object, warnings })
}

/// Defaults, prepares and validates a decoded object that is to replace `old`; sets metadata.generation.
/// The caller has checked preconditions and filled in uid, creationTimestamp and resourceVersion.
///
/// Both objects are in the view of `resource`, which matters for events.
///
/// # Errors
/// 422 Invalid with a cause for each field.
pub fn update(
    resource: &Resource,
    old: &Value,
    new: Value,
    subresource: Subresource,
    now: Timestamp,
) -> Result<Decided, Status> {
    let _ = now;
    let mut new = new;
    set_defaults(resource, &mut new);
    let mut errors = Errors::default();
    let defaulted;
    let mut old = old;
    if resource.kind == "Service" {
        let mut copy = old.clone();
        service::set_defaults(&mut copy);
        service_ips::default_on_read(&mut copy);
        defaulted = copy;
        old = &defaulted;
        if subresource == Subresource::None {
            service_ips::init_on_update(&mut new, old, &mut errors);
            refuse(resource, &new, std::mem::take(&mut errors))?;
        }
    }
    keep_system_metadata(old, &mut new);
    prepare_for_update(resource, old, &mut new, subresource);
    let rule = metadata::NameRule::PathSegment;
    metadata::validate(&new["metadata"], resource.namespaced, rule, &mut errors);
    metadata::validate_update(&new["metadata"], &old["metadata"], &mut errors);
    match subresource {
        Subresource::None => validate(resource, &new, Some(old), &mut errors),
        Subresource::Status => validate_status(resource, &new, old, &mut errors),
    }
    refuse(resource, &new, errors)?;
    let warnings = warnings_on_update(resource, old, &new, subresource);
    Ok(Decided { object: new, warnings })
}

/// Raises the generation of an object that is being marked for deletion, if its kind has one.
pub fn generation_after_deletion_mark(resource: &Resource, object: &mut Value) {
    let _ = resource;
    let generation = object["metadata"].int("generation");
    if generation > 0
        && let Some(meta) = object.make("metadata")
    {
        meta.insert("generation".to_owned(), (generation + 1).into());
    }
}

/// What an update cannot change, whatever the client sends.
fn keep_system_metadata(old: &Value, new: &mut Value) {
    new.make("metadata");
    let Some(meta) = new.get_mut("metadata") else { return };
    let before = &old["metadata"];
    meta.copy("generation", before);
    meta.set_default("uid", before.text("uid"));
    if meta.text("uid").is_empty() {
        meta.drop_field("uid");
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if before.has(field) {
            meta.copy(field, before);
        }
    }
    if !meta.has("deletionGracePeriodSeconds") {
        meta.copy("deletionGracePeriodSeconds", before);
    }
}

fn prepare_for_update(resource: &Resource, old: &Value, new: &mut Value, subresource: Subresource) {
    match (resource.kind, subresource) {
        ("Namespace", Subresource::None) => namespace::prepare_for_update(old, new),
        ("Node", Subresource::None) => node::prepare_for_update(old, new),
        ("Pod", Subresource::None) => pod::prepare_for_update(old, new),
        ("Service", Subresource::None) => service::prepare_for_update(old, new),
        ("Pod", Subresource::Status) => pod::prepare_for_status_update(old, new),
        ("Namespace" | "Node" | "Service", Subresource::Status) => new.copy("spec", old),
        ("EndpointSlice", _) => endpointslice::prepare_for_update(old, new),
        ("Lease", _) => lease::prepare(new, Some(old)),
        _ => {}
    }
}

fn validate(resource: &Resource, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    match resource.kind {
        "Namespace" => namespace::validate(object, old, errors),
        "Node" => node::validate(object, old, errors),
        "Pod" => pod::validate(object, old, errors),
        "Service" => service::validate(object, old, errors),
        "Endpoints" => endpoints::validate(object, old, errors),
        "EndpointSlice" => endpointslice::validate(object, old, errors),
        "Event" => event::validate(resource, object, old, errors),
        "Lease" => lease::validate(object, old, errors),
        _ => {}
    }
}

fn validate_status(resource: &Resource, object: &Value, old: &Value, errors: &mut Errors) {
    metadata::validate_update(&object["metadata"], &old["metadata"], errors);
    match resource.kind {
        "Namespace" => namespace::validate_status(object, errors),
        "Node" => node::validate_change(object, old, errors),
        "Pod" => pod::validate_status(object, old, errors),
        "Service" => service::validate_status(object, old, errors),
        _ => {}
    }
}

fn warnings_on_create(resource: &Resource, object: &Value) -> Vec<String> {
    match resource.kind {
        "Node" => node::warnings(object),
        "Pod" => pod::warnings(object),
        "Service" => service::warnings(object),
        "Endpoints" => endpoints::warnings(object),
        "EndpointSlice" => endpointslice::warnings(object, true),
        _ => Vec::new(),
    }
}

fn warnings_on_update(
    resource: &Resource,
    _old: &Value,
    new: &Value,
    subresource: Subresource,
) -> Vec<String> {
    match (resource.kind, subresource) {
        ("Node", Subresource::None) => node::warnings(new),
        ("Service", Subresource::None) => service::warnings(new),
        ("Service", Subresource::Status) => service::status_warnings(new),
        ("Pod", Subresource::Status) => pod::status_warnings(new),
        ("Endpoints", _) => endpoints::warnings(new),
        ("EndpointSlice", _) => endpointslice::warnings(new, false),
        _ => Vec::new(),
    }
}

/// The error for what was found wrong, if anything was.
fn refuse(resource: &Resource, object: &Value, errors: Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    // Both views of an event are one kind inside of the server, and it names the first.
    let resource =
        crate::resource::by_kind("v1", "Event").filter(|e| e.kind == resource.kind).unwrap_or(resource);
    Err(Status::invalid(resource, object["metadata"].text("name"), errors.into_causes()))
}

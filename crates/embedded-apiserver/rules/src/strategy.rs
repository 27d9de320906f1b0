//! The steps an object takes on its way into the store: decoding, defaults, preparation,
//! validation, generation.
//!
//! The order is the real server's: decode the body; set defaults; prepare the object by the
//! resource's `Strategy` (reset or keep the status, set the generation); validate it; collect
//! warnings. Each resource has a strategy in a module of its own, and the resource table refers to
//! it.

mod cluster_ips;
mod decode;
pub(crate) mod endpoint_selector;
pub(crate) mod endpoints;
pub(crate) mod endpointslice;
pub(crate) mod event;
mod families;
pub(crate) mod lease;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod parse;
pub(crate) mod pod;
mod pod_defaults;
mod ranges;
pub(crate) mod review;
pub(crate) mod service;
mod service_ips;
pub(crate) mod service_util;
mod structural;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;
use crate::validation::{Errors, metadata};
use crate::value::Fields;

pub use cluster_ips::ClusterIps;
pub use families::Families;
pub use parse::Parsed;
pub use ranges::{Addresses, RangeError};

/// The particulars of one resource, after upstream's `RESTCreateStrategy`, `RESTUpdateStrategy` and
/// the hooks of its generic store. A status subresource has a strategy of its own; the server calls
/// only its methods for updates.
pub(crate) trait Strategy: Sync {
    /// Returns true if PUT to a name that does not exist creates the object.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Returns true if the server accepts an update without resourceVersion.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Returns the warning that every request to the resource gets.
    fn deprecation_warning(&self) -> Option<&'static str> {
        None
    }

    /// Removes the fields of a decoded object that its schema does not have, and returns a warning
    /// about each. Only custom resources have a schema beside their type.
    fn drop_unknown_fields(&self, _object: &mut Value) -> Vec<String> {
        Vec::new()
    }

    /// Sets the defaults of a decoded object.
    fn set_defaults(&self, _object: &mut Value) {}

    /// Completes an object that the server stored before a field existed.
    fn default_on_read(&self, _object: &mut Value, _families: Families) {}

    /// Infers fields of a new object that depend on one another, before the preparation. An error
    /// ends the request.
    fn begin_create(
        &self,
        _object: &mut Value,
        _families: Families,
        _errors: &mut Errors,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Resets the fields of a new object that a client cannot set.
    fn prepare_for_create(&self, _object: &mut Value) {}

    /// Validates a new object.
    fn validate(&self, _object: &Value, _errors: &mut Errors) {}

    /// Infers fields of an updated object that depend on one another, before the preparation.
    fn begin_update(&self, _new: &mut Value, _old: &Value, _families: Families, _errors: &mut Errors) {}

    /// Restores the fields that an update of this resource or subresource cannot change, and sets
    /// the generation.
    fn prepare_for_update(&self, _new: &mut Value, _old: &Value) {}

    /// Validates an update.
    fn validate_update(&self, _new: &Value, _old: &Value, _errors: &mut Errors) {}

    /// Returns the texts of the warnings for a valid object. `old` is the object that it replaces.
    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }
}

/// The part of an object that a write addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself. A write keeps its status.
    None,
    /// The status subresource. A write keeps everything but the status (and a few metadata fields).
    Status,
}

/// A decoded or validated object, with the texts of its `Warning` headers.
#[derive(Clone, Debug, PartialEq)]
pub struct WithWarnings {
    /// The object, canonical: only fields that the kind has, empty ones left out as the real server
    /// leaves them out.
    pub object: Value,
    /// Texts of warnings, without the `299 - ` frame.
    pub warnings: Vec<String>,
}

/// Decodes a request's object: drops fields that the kind does not have, and rejects wrong types
/// (400).
///
/// `body` is parsed JSON, or the result of a patch. This fills in an absent `apiVersion` or `kind`.
/// The warnings are `unknown field "spec.x"`; a client that asked for strict validation gets them
/// as an error, see [`cannot_be_handled`].
///
/// # Errors
/// 400 BadRequest for a wrong type of a field, another kind or another version.
pub fn decode(resource: &Resource, body: Value) -> Result<WithWarnings, Status> {
    decode::decode(resource, body)
}

/// Parses a JSON body of `resource`'s kind; the result is for [`decode`].
///
/// # Errors
/// If the text is not JSON, or if a known field nests deeper than 127 levels.
pub fn parse(resource: &Resource, text: &[u8]) -> serde_json::Result<Parsed> {
    parse::parse(parse::Guide::Struct(resource.go_type), text)
}

/// Returns 400 for a body that is no valid object of the kind.
pub fn cannot_be_handled(resource: &Resource, why: &str) -> Status {
    let (kind, version) = (resource.kind, resource.version);
    Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

/// Returns the warning that every request to a deprecated resource gets, including reads.
pub fn deprecation_warning(resource: &Resource) -> Option<&'static str> {
    resource.strategy.deprecation_warning()
}

/// Returns true if PUT to a name that does not exist creates the object.
pub fn allow_create_on_update(resource: &Resource) -> bool {
    resource.strategy.allow_create_on_update()
}

/// Returns true if the server accepts an update without resourceVersion. If it does not,
/// [`before_update`] rejects an empty resourceVersion with the real server's error.
pub fn allow_unconditional_update(resource: &Resource) -> bool {
    resource.strategy.allow_unconditional_update()
}

/// Sets the defaults of a decoded object without preparing or validating it. An object from a real
/// cluster does not change.
pub fn set_defaults(resource: &Resource, object: &mut Value) {
    resource.strategy.set_defaults(object);
}

/// Returns the object as the real server shows it to readers: decoded and with defaults, which for
/// a Service include the IP families that follow from its addresses. Returns an object unchanged if
/// it does not decode.
pub fn default_on_read(resource: &Resource, object: Value, families: Families) -> Value {
    let Ok(decoded) = decode(resource, object.clone()) else { return object };
    let mut object = decoded.object;
    set_defaults(resource, &mut object);
    resource.strategy.default_on_read(&mut object, families);
    object
}

/// Sets defaults, prepares and validates a decoded object for a create. The caller has set
/// metadata.namespace, metadata.name (made from generateName if necessary), uid and
/// creationTimestamp, and allocates cluster IPs afterwards. A review, which the server never
/// stores, comes with empty metadata; this only validates it. The cluster has both IP families.
///
/// # Errors
/// 422 Invalid with a cause for each field; 400 for a token review without a token.
pub fn before_create(resource: &Resource, object: Value) -> Result<WithWarnings, Status> {
    before_create_with(resource, object, Families::default())
}

/// As [`before_create`], in a cluster with these families.
///
/// # Errors
/// As [`before_create`].
pub fn before_create_with(
    resource: &Resource,
    mut object: Value,
    families: Families,
) -> Result<WithWarnings, Status> {
    let strategy = resource.strategy;
    let mut errors = Errors::default();
    strategy.set_defaults(&mut object);
    strategy.begin_create(&mut object, families, &mut errors)?;
    check(resource, &object, &mut errors)?;
    strategy.prepare_for_create(&mut object);
    strategy.validate(&object, &mut errors);
    validate_finalizer_names(resource, &object, &mut errors);
    check(resource, &object, &mut errors)?;
    if resource.is_stored() {
        let rule = metadata::NameRule::PathSegment;
        metadata::validate(&object["metadata"], resource.namespaced, rule, &mut errors);
        check(resource, &object, &mut errors)?;
    }
    let warnings = strategy.warnings(&object, None);
    Ok(WithWarnings { object, warnings })
}

/// Sets defaults, prepares and validates a decoded object that will replace `old`, and sets
/// metadata.generation. The caller has checked preconditions and filled in uid, creationTimestamp
/// and resourceVersion.
///
/// Both objects are in the version of `resource`; `old` has the defaults that every stored object
/// has. The cluster has both IP families.
///
/// # Errors
/// 422 Invalid with a cause for each field.
pub fn before_update(
    resource: &Resource,
    old: &Value,
    new: Value,
    subresource: Subresource,
) -> Result<WithWarnings, Status> {
    before_update_with(resource, old, new, subresource, Families::default())
}

/// As [`before_update`], in a cluster with these families.
///
/// # Errors
/// As [`before_update`].
pub fn before_update_with(
    resource: &Resource,
    old: &Value,
    mut new: Value,
    subresource: Subresource,
    families: Families,
) -> Result<WithWarnings, Status> {
    let strategy = match subresource {
        Subresource::None => resource.strategy,
        Subresource::Status => resource.status_strategy.unwrap_or(resource.strategy),
    };
    let mut errors = Errors::default();
    set_defaults(resource, &mut new);
    strategy.begin_update(&mut new, old, families, &mut errors);
    check(resource, &new, &mut errors)?;
    keep_system_metadata(&mut new, old);
    strategy.prepare_for_update(&mut new, old);
    let rule = metadata::NameRule::PathSegment;
    metadata::validate(&new["metadata"], resource.namespaced, rule, &mut errors);
    metadata::validate_update(&new["metadata"], &old["metadata"], &mut errors);
    validate_finalizer_names(resource, &new, &mut errors);
    strategy.validate_update(&new, old, &mut errors);
    check(resource, &new, &mut errors)?;
    let warnings = strategy.warnings(&new, Some(old));
    Ok(WithWarnings { object: new, warnings })
}

fn validate_finalizer_names(resource: &Resource, object: &Value, errors: &mut Errors) {
    if resource.is_stored() && resource.group != "coordination.k8s.io" {
        metadata::validate_finalizer_names(&object["metadata"], errors);
    }
}

/// Drops repeated entries of metadata.ownerReferences and returns their uids.
pub fn drop_duplicate_owners(object: &mut Value) -> Vec<String> {
    let mut duplicates = Vec::new();
    if let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
        let mut known = BTreeSet::new();
        owners.retain(|owner| {
            let is_new = known.insert(owner.to_string());
            if !is_new {
                duplicates.push(owner.text("uid").to_owned());
            }
            is_new
        });
    }
    duplicates
}

/// Increments the generation, if there is one, of an object that a write marks for deletion.
pub fn increment_generation_for_deletion(object: &mut Value) {
    let generation = object["metadata"].int("generation");
    if generation > 0 {
        object["metadata"].set("generation", generation.wrapping_add(1));
    }
}

/// Restores the metadata that no update can change.
fn keep_system_metadata(new: &mut Value, old: &Value) {
    let (meta, before) = (new.child("metadata"), &old["metadata"]);
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

/// Fails with 422 if there are errors, and takes them out of the list.
fn check(resource: &Resource, object: &Value, errors: &mut Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = if resource.is_stored() { object["metadata"].text("name") } else { "" };
    Err(Status::invalid(resource, name, std::mem::take(errors)))
}

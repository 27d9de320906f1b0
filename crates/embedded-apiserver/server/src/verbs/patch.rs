//! `patch`: applies a patch to the current state of the object, again on each attempt.

use kube_endpoint_apiserver_rules::patch::{self, PatchType};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy::Parsed;
use kube_endpoint_apiserver_rules::{Errors, Path};
use serde_json::Value;

use super::Call;
use super::create::check_namespace;
use super::update::{Update, check_name, subresource};
use crate::answer::Answer;
use crate::server::Inner;

impl Inner {
    /// Handles a PATCH request.
    pub(crate) fn patch(&self, call: &Call<'_>) -> Result<Answer, Status> {
        if call.content_type.starts_with("application/apply-patch+") {
            return Err(Status::new(
                415,
                "UnsupportedMediaType",
                "this server does not support server-side apply; send a JSON, merge or strategic merge patch",
            ));
        }
        let patch_type = PatchType::from_content_type(&call.content_type, call.resource)?;
        let name = &call.info.name;
        let manager = call.manager();
        let update = Update {
            resource: call.resource,
            manager: &manager,
            namespace: &call.info.namespace,
            name,
            subresource: subresource(call),
            dry_run: call.query.write_options("PatchOptions")?,
            may_create: false,
            uid_is_precondition: false,
        };
        let done = self.update(&update, |current| {
            // A patch never creates an object.
            let current = current.ok_or_else(|| Status::not_found(call.resource, name))?;
            let (patched, strict) = patch::apply(call.resource, current, patch_type, &call.body)?;
            let mut object = call.decode(Parsed { value: patched, strict }).map_err(|status| {
                // The error shows the result. This makes it again, instead of copying it for each
                // patch.
                match patch::apply(call.resource, current, patch_type, &call.body) {
                    Ok((patched, _)) => not_decodable(&patched, &status),
                    Err(status) => status,
                }
            })?;
            check_namespace(call.resource, &call.info.namespace, &mut object)?;
            check_name(&object, name)?;
            Ok(object)
        })?;
        Ok(call.done(done))
    }
}

/// Returns 422 for a patch whose result does not decode.
fn not_decodable(patched: &Value, status: &Status) -> Status {
    let why =
        status.message.split_once(" cannot be handled as a ").and_then(|(_, rest)| rest.split_once(": "));
    let why = why.map_or(status.message.as_str(), |(_, why)| why);
    let mut errors = Errors::default();
    errors.invalid(&Path::Root("patch"), &patched.to_string(), why);
    Status::invalid_object("", "", "", errors)
}

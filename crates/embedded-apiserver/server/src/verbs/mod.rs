//! The handlers of the verbs.

mod create;
mod delete;
mod deletion;
mod list;
mod patch;
mod read;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use kube_endpoint_apiserver_rules::resource::{NODES, PODS, Resource};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy::{self, Parsed, WithWarnings};
use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use deletion::{DeleteOptions, Propagation};

use crate::answer::{self, Answer};
use crate::connection::Closing;
use crate::faults::Fault;
use crate::form::Form;
use crate::metadata::unset;
use crate::protobuf;
use crate::query::Query;
use crate::request::RequestInfo;
use crate::store::Stored;
use crate::watch_cache::WatchCaches;
use crate::yaml;

/// One request, as the handlers of verbs get it.
pub(crate) struct Call<'a> {
    /// The attributes of the request.
    pub(crate) info: &'a RequestInfo,
    pub(crate) resource: &'static Resource,
    pub(crate) query: Query,
    /// The negotiated output.
    pub(crate) form: Form,
    pub(crate) body: Bytes,
    /// The request's content type without parameters, in lower case. Empty if there is none.
    pub(crate) content_type: String,
    /// Notified when the listener shuts down.
    pub(crate) closing: Option<Closing>,
    /// The watch caches of the server that got it.
    pub(crate) caches: &'a WatchCaches,
    pub(crate) faults: Vec<Fault>,
    /// Texts for `Warning` headers, also of responses that are errors.
    pub(crate) warnings: &'a Mutex<Vec<String>>,
}

/// The object that results from a write.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The object as it is stored or, after a deletion, as last stored.
    Stored(Arc<Stored>),
    /// The object of a dry run, or the last state of an object that the write removed.
    Shown(Value),
}

/// A successful write.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    /// True if the write created the object.
    pub(crate) created: bool,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl Call<'_> {
    /// Returns the field manager: the parameter of that name or, without it, the user agent up to
    /// its first slash.
    pub(crate) fn manager(&self) -> String {
        let agent = self.info.user_agent.split('/').next().unwrap_or_default();
        self.query.get("fieldManager").filter(|manager| !manager.is_empty()).unwrap_or(agent).to_owned()
    }

    /// Returns the body as a value, converted if it is protobuf or YAML.
    pub(crate) fn body(&self) -> Result<Parsed, Status> {
        match self.content_type.as_str() {
            protobuf::CONTENT_TYPE if !self.resource.is_custom() => {
                let value = protobuf::to_json(&self.body, self.resource)?;
                Ok(Parsed { value, strict: Vec::new() })
            }
            yaml::CONTENT_TYPE => yaml::parse(&self.body, self.resource.kind),
            "" | "application/json" | "text/json" => {
                strategy::parse(self.resource, &self.body).map_err(|error| {
                    let provided = format!(
                        "the object provided is unrecognized (must be of type {})",
                        self.resource.kind
                    );
                    Status::bad_request(format!("{provided}: {}", not_json(&error)))
                })
            }
            _ => Err(unsupported_media_type()),
        }
    }

    /// Returns the options in the body as a value, converted if they are protobuf or YAML.
    pub(crate) fn options(&self) -> Result<Value, Status> {
        match self.content_type.as_str() {
            "" | "application/json" | "text/json" => {
                serde_json::from_slice(&self.body).map_err(|error| Status::bad_request(not_json(&error)))
            }
            _ => self.body().map(|parsed| parsed.value),
        }
    }

    /// Decodes an object of the request's resource. It rejects, warns of or ignores unknown fields
    /// and keys that occur twice, as `fieldValidation` says.
    pub(crate) fn decode(&self, body: Parsed) -> Result<Value, Status> {
        let WithWarnings { mut object, mut warnings } = strategy::decode(self.resource, body.value)?;
        if self.info.subresource.is_empty() && [&PODS, &NODES].contains(&self.resource) {
            // Fields that the server stores as given must have the right types, too: typed clients
            // could otherwise decode no list with this object.
            protobuf::check_types(&object).map_err(|why| strategy::cannot_be_handled(self.resource, &why))?;
        }
        warnings.splice(..0, body.strict);
        match self.query.get("fieldValidation") {
            // Upstream does not look for unknown fields in protobuf.
            _ if self.content_type == protobuf::CONTENT_TYPE => warnings.clear(),
            Some("Ignore") => warnings.clear(),
            Some("Strict") if !warnings.is_empty() => {
                let why = format!("strict decoding error: {}", warnings.join(", "));
                return Err(strategy::cannot_be_handled(self.resource, &why));
            }
            _ => {}
        }
        let duplicates = strategy::drop_duplicate_owners(&mut object);
        if !duplicates.is_empty() {
            let (when, advice) = match self.info.verb {
                "patch" => (" after mutating admission happens", ""),
                _ => ("", " please fix your requests;"),
            };
            warnings.push(format!(
                ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in \
                 1.20+, and may reject such requests as early as 1.24;{advice} duplicate UID(s) observed: {}",
                duplicates.join(", ")
            ));
        }
        unset(&mut object, "selfLink");
        // The server decodes the result of a patch again on each attempt.
        *self.warnings.lock() = warnings;
        Ok(object)
    }

    /// Returns the key of the object in the path.
    pub(crate) fn key(&self) -> String {
        crate::server::key_of(self.resource, &self.info.namespace, &self.info.name)
    }

    /// Responds with the object of a write.
    pub(crate) fn done(&self, done: Done) -> Answer {
        self.warnings.lock().extend(done.warnings);
        let status = if done.created { StatusCode::CREATED } else { StatusCode::OK };
        match done.outcome {
            Outcome::Stored(stored) => self.object(status, &stored),
            Outcome::Shown(value) => self.value(status, value),
        }
    }

    /// Responds with a stored object.
    pub(crate) fn object(&self, status: StatusCode, stored: &Stored) -> Answer {
        match self.form.stored(self.resource, stored) {
            Ok(bytes) => answer::encoded(self.form.encoding, status, bytes),
            Err(failed) => answer::error(self.form.encoding, &failed),
        }
    }

    /// Responds with an object that is in the resource's version.
    pub(crate) fn value(&self, status: StatusCode, value: Value) -> Answer {
        answer::object(self.form.encoding, status, &self.form.of_object(self.resource, value, true))
    }
}

/// Returns the error of a body that is not JSON, in upstream's words.
fn not_json(error: &serde_json::Error) -> String {
    format!("couldn't get version/kind; json parse error: {error}")
}

/// Returns 415 with the accepted types.
fn unsupported_media_type() -> Status {
    let accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let format = "the body of the request was in an unknown format - accepted media types include";
    Status::new(415, "UnsupportedMediaType", format!("{format}: {accepted}"))
}

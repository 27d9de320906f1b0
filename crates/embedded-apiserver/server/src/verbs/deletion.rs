//! DeleteOptions and their effect on an object: grace period, finalizers, deletion timestamp.

use jiff::{SignedDuration, Timestamp};
use kube_endpoint_apiserver_rules::resource::{NAMESPACES, PODS, Resource};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy;
use kube_endpoint_apiserver_rules::{Errors, Path, json_type};
use serde_json::{Value, json};

use super::Call;
use crate::clock::rfc3339;
use crate::metadata::{FOREGROUND, ORPHAN, is_empty, list, set, set_list, text};
use crate::query::{Query, check_dry_run, check_options};

/// The propagation policy for the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// The garbage collector deletes them after it.
    Background,
    /// The garbage collector deletes them before it.
    Foreground,
    /// They stay and lose their reference to the owner.
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// The grace period in seconds, or `None` for that of the object.
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// Reads the options from the body or, if there is none, from the query. The second value is
    /// true for a dry run.
    pub(super) fn read(call: &Call<'_>) -> Result<(Self, bool), Status> {
        let given = if call.body.is_empty() { of_query(&call.query)? } else { call.options()? };
        check_types(&given)?;
        let text_of = |value: &Value| value.as_str().map(str::to_owned);
        let (policy, orphan) = (given["propagationPolicy"].as_str(), given["orphanDependents"].as_bool());
        let mut errors = Errors::default();
        let at = Path::Root("propagationPolicy");
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid(&at, policy, why);
        }
        let propagation = match (policy, orphan) {
            (None, None) => None,
            (None, Some(true)) | (Some("Orphan"), _) => Some(Propagation::Orphan),
            (None, Some(false)) | (Some("Background"), _) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some(other), _) => {
                errors.not_supported(&at, other, &["Foreground", "Background", "Orphan", "nil"]);
                None
            }
        };
        let dry_run = given["dryRun"].as_array().into_iter().flatten();
        let dry_run: Vec<&str> = dry_run.map(|value| value.as_str().unwrap_or_default()).collect();
        check_dry_run(&dry_run, &mut errors);
        check_options("DeleteOptions", errors)?;
        let options = Self {
            grace: given["gracePeriodSeconds"].as_i64(),
            uid: text_of(&given["preconditions"]["uid"]),
            version: text_of(&given["preconditions"]["resourceVersion"]),
            propagation,
        };
        Ok((options, !dry_run.is_empty()))
    }

    pub(super) fn check(&self, resource: &Resource, object: &Value) -> Result<(), Status> {
        let check = |what: &str, wanted: &Option<String>, field: &str, since: &str| match wanted {
            Some(wanted) if wanted != text(object, field) => {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({}). The object \
                     might have been {since}",
                    text(object, field)
                );
                let mut status = Status::conflict(resource, text(object, "name"), &why);
                // Upstream names the kind here, not the resource.
                status.message = status.message.replacen(resource.plural, resource.kind, 1);
                if let Some(details) = &mut status.details {
                    resource.kind.clone_into(&mut details.kind);
                }
                Err(status)
            }
            _ => Ok(()),
        };
        check("UID", &self.uid, "uid", "deleted and then recreated")?;
        check("ResourceVersion", &self.version, "resourceVersion", "modified")
    }
}

/// Returns the options in a query, as a body would have them.
fn of_query(query: &Query) -> Result<Value, Status> {
    let mut given = json!({"gracePeriodSeconds": query.number("gracePeriodSeconds")?});
    // An empty value is not absent: it is no valid policy.
    given["propagationPolicy"] = query.all("propagationPolicy").next().into();
    given["orphanDependents"] = query.optional_flag("orphanDependents").into();
    given["dryRun"] = query.all("dryRun").collect();
    Ok(given)
}

/// Rejects another kind, and fields of other types. The errors are Go's.
fn check_types(given: &Value) -> Result<(), Status> {
    let wrong = |value: &Value, of: &str| {
        Status::bad_request(format!("json: cannot unmarshal {} into Go struct field {of}", json_type(value)))
    };
    let no_kind = |mut status: Status| {
        status.message.insert_str(0, "couldn't get version/kind; json parse error: ");
        status
    };
    if !given.is_object() && !given.is_null() {
        let of = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let why = format!("json: cannot unmarshal {} into Go value of type {of}", json_type(given));
        return Err(no_kind(Status::bad_request(why)));
    }
    let version = &given["apiVersion"];
    if !version.is_null() && !version.is_string() {
        return Err(no_kind(wrong(version, ".apiVersion of type string")));
    }
    match &given["kind"] {
        Value::Null => {}
        Value::String(kind) if kind.is_empty() || kind == "DeleteOptions" => {}
        Value::String(kind) => {
            let version = version.as_str().unwrap_or_default();
            return Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \
                 \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
            )));
        }
        other => return Err(no_kind(wrong(other, ".kind of type string"))),
    }
    type Is = fn(&Value) -> bool;
    let fields: [(&str, &str, Is); 5] = [
        ("gracePeriodSeconds", "int64", Value::is_i64),
        ("orphanDependents", "bool", Value::is_boolean),
        ("propagationPolicy", "v1.DeletionPropagation", Value::is_string),
        ("preconditions", "v1.Preconditions", Value::is_object),
        ("dryRun", "[]string", Value::is_array),
    ];
    for (field, of, is) in fields {
        let value = &given[field];
        if !value.is_null() && !is(value) {
            return Err(wrong(value, &format!("DeleteOptions.{field} of type {of}")));
        }
    }
    // Ignoring one of these would delete objects that should stay.
    let dry_run = given["dryRun"].as_array().into_iter().flatten();
    let preconditions = &given["preconditions"];
    let texts = dry_run.map(|value| (value, "DeleteOptions.dryRun of type string")).chain([
        (&preconditions["uid"], "Preconditions.preconditions.uid of type types.UID"),
        (&preconditions["resourceVersion"], "Preconditions.preconditions.resourceVersion of type string"),
    ]);
    for (value, of) in texts {
        if !value.is_null() && !value.is_string() {
            return Err(wrong(value, of));
        }
    }
    Ok(())
}

/// The decision of a deletion about an object.
pub(super) enum Decision {
    /// Do nothing: the object is being deleted already, at least as fast as requested.
    Pending,
    /// Store it with a deletion timestamp.
    Mark(Value),
    /// Store it with a deletion timestamp and remove it right after, as upstream does with pods
    /// without a grace period.
    MarkAndRemove(Value),
    Remove,
}

/// Decides about an object for a deletion with `options`.
pub(super) fn decide(
    resource: &Resource,
    mut object: Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> Decision {
    if *resource == NAMESPACES {
        return decide_namespace(object, options, now);
    }
    let mut grace = None;
    if *resource == PODS {
        match pod_grace(&object, options, now) {
            Grace::Pending => return Decision::Pending,
            Grace::AlreadyOver => {}
            Grace::Until(time, seconds) => {
                mark(&mut object, &time, seconds);
                grace = Some(seconds);
            }
        }
    }
    // Events take no part in garbage collection, so the policy adds no finalizer to them.
    let propagation = options.propagation.filter(|_| resource.kind != "Event");
    let finalizers = set_gc_finalizers(&mut object, propagation);
    match (grace, finalizers) {
        (Some(0), false) => Decision::MarkAndRemove(object),
        (Some(_), _) => Decision::Mark(object),
        (None, false) => Decision::Remove,
        (None, true) => {
            let earlier =
                text(&object, "deletionTimestamp").parse::<Timestamp>().ok().filter(|time| *time <= now);
            mark(&mut object, &rfc3339(earlier.unwrap_or(now)), 0);
            Decision::Mark(object)
        }
    }
}

/// Sets deletionTimestamp and deletionGracePeriodSeconds. The first deletion increments the
/// generation.
fn mark(object: &mut Value, time: &str, seconds: i64) {
    if text(object, "deletionTimestamp").is_empty() {
        strategy::increment_generation_for_deletion(object);
    }
    set(object, "deletionTimestamp", time);
    set(object, "deletionGracePeriodSeconds", seconds);
}

/// The remaining grace period of a pod.
enum Grace {
    /// It is being deleted, at least as fast as requested.
    Pending,
    /// Its grace period is zero already.
    AlreadyOver,
    /// It ends at this time, and has this many seconds in total.
    Until(String, i64),
}

/// Returns the grace period of a pod, as upstream's BeforeDelete together with the pod strategy's
/// CheckGracefulDelete.
fn pod_grace(pod: &Value, options: &DeleteOptions, now: Timestamp) -> Grace {
    let asked = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let later = |time: Timestamp, seconds: i64| {
        time.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(time)
    };
    if let Ok(end) = text(pod, "deletionTimestamp").parse::<Timestamp>() {
        let granted = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
        return match asked {
            _ if granted == 0 => Grace::AlreadyOver,
            Some(seconds) if seconds < granted => {
                let end = later(end, seconds - granted);
                if end < now {
                    Grace::Until(rfc3339(now), seconds.min(1))
                } else {
                    Grace::Until(rfc3339(end), seconds)
                }
            }
            _ => Grace::Pending,
        };
    }
    let is_placed = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    let seconds = match asked.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()) {
        Some(seconds) if is_placed && !is_over => {
            if seconds < 0 {
                1
            } else {
                seconds
            }
        }
        _ => 0,
    };
    Grace::Until(rfc3339(later(now, seconds)), seconds)
}

/// Adds the finalizer of the propagation policy and removes the other one. Without a policy the
/// finalizers are unchanged. Returns true if there are finalizers.
fn set_gc_finalizers(object: &mut Value, propagation: Option<Propagation>) -> bool {
    let mut finalizers = list(object, "finalizers");
    if let Some(policy) = propagation {
        finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
        match policy {
            Propagation::Background => {}
            Propagation::Foreground => finalizers.push(FOREGROUND.into()),
            Propagation::Orphan => finalizers.push(ORPHAN.into()),
        }
    }
    set_list(object, "finalizers", finalizers)
}

/// Decides about a namespace: it only marks it, and the namespace controller empties and removes
/// it.
fn decide_namespace(mut object: Value, options: &DeleteOptions, now: Timestamp) -> Decision {
    if text(&object, "deletionTimestamp").is_empty() {
        set(&mut object, "deletionTimestamp", rfc3339(now));
        object["status"]["phase"] = "Terminating".into();
        set_gc_finalizers(&mut object, options.propagation);
        return Decision::Mark(object);
    }
    if is_empty(&object["spec"]["finalizers"]) && is_empty(&object["metadata"]["finalizers"]) {
        Decision::Remove
    } else {
        Decision::Pending
    }
}

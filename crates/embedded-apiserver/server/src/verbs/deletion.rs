//! DeleteOptions and their effect on an object: grace period, finalizers, deletion timestamp.

use jiff::{SignedDuration, Timestamp};
use kube_endpoint_apiserver_rules::resource::{NAMESPACES, PODS, Resource};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy;
use serde_json::{Value, json};

use super::Call;
use crate::clock::rfc3339;
use crate::metadata::{FOREGROUND, ORPHAN, is_empty, set, text, unset};

/// The propagation policy: what happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They are kept and lose their reference to the owner.
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// The grace period in seconds; `None` for that of the object.
    pub(crate) grace: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
}

impl DeleteOptions {
    /// Reads the options from the body if there is one, otherwise from the query.
    pub(super) fn read(call: &Call<'_>) -> Result<(Self, bool), Status> {
        let mut dry_run = call.query.dry_run()?;
        let body = if call.body.is_empty() { json!({}) } else { call.json()? };
        if body["dryRun"].as_array().is_some_and(|values| values.iter().any(|value| value == "All")) {
            dry_run = true;
        }
        let text_of = |value: &Value| value.as_str().map(str::to_owned);
        let policy = text_of(&body["propagationPolicy"])
            .or_else(|| call.query.get("propagationPolicy").map(str::to_owned));
        let propagation = match policy.as_deref() {
            None | Some("") => match body["orphanDependents"].as_bool() {
                Some(true) => Some(Propagation::Orphan),
                Some(false) => Some(Propagation::Background),
                None => None,
            },
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let message = format!(
                    "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {other:?}: \
                     supported values: \"Background\", \"Foreground\", \"Orphan\", \"nil\""
                );
                return Err(Status::new(422, "Invalid", message));
            }
        };
        let grace = match body["gracePeriodSeconds"].as_i64() {
            Some(seconds) => Some(seconds),
            None => call.query.number("gracePeriodSeconds")?,
        };
        let options = Self {
            grace,
            uid: text_of(&body["preconditions"]["uid"]),
            version: text_of(&body["preconditions"]["resourceVersion"]),
            propagation,
        };
        Ok((options, dry_run))
    }

    pub(super) fn check(&self, resource: &Resource, object: &Value) -> Result<(), Status> {
        let check = |what: &str, wanted: &Option<String>, field: &str, since: &str| match wanted {
            Some(wanted) if wanted != text(object, field) => {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({}). The object \
                     might have been {since}",
                    text(object, field)
                );
                Err(Status::conflict(resource, text(object, "name"), &why))
            }
            _ => Ok(()),
        };
        check("UID", &self.uid, "uid", "deleted and then recreated")?;
        check("ResourceVersion", &self.version, "resourceVersion", "modified")
    }
}

/// What a deletion does with an object.
pub(super) enum Decision {
    /// Nothing: it is being deleted already, at least as fast as requested.
    Pending,
    /// Store it with a deletion timestamp.
    Mark(Value),
    /// Store it with a deletion timestamp and remove it right after, as upstream does with pods without a grace
    /// period.
    MarkAndRemove(Value),
    /// Remove it.
    Remove,
}

/// Decides what a deletion with `options` does with an object.
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
    let finalizers = set_gc_finalizers(&mut object, options.propagation);
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

/// Sets deletionTimestamp and deletionGracePeriodSeconds. The first deletion increments the generation.
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
    /// Until this time, this many seconds in total.
    Until(String, i64),
}

/// Upstream's BeforeDelete combined with the pod strategy's CheckGracefulDelete.
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

/// Adds the finalizer of the propagation policy and removes the other one. Without a policy the finalizers are
/// unchanged. Returns whether there are any finalizers.
fn set_gc_finalizers(object: &mut Value, propagation: Option<Propagation>) -> bool {
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if let Some(policy) = propagation {
        finalizers.retain(|name| name != FOREGROUND && name != ORPHAN);
        match policy {
            Propagation::Background => {}
            Propagation::Foreground => finalizers.push(FOREGROUND.into()),
            Propagation::Orphan => finalizers.push(ORPHAN.into()),
        }
    }
    let any = !finalizers.is_empty();
    if any {
        set(object, "finalizers", finalizers);
    } else {
        unset(object, "finalizers");
    }
    any
}

/// A namespace is only marked; the namespace controller empties and removes it.
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

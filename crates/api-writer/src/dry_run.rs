//! Dry run: a controller records its writes and sends none, to compare them with the writes of
//! another controller.
//!
//! The other controller may make a planned write a moment later. So the dry run reports a
//! difference once every sync for [`REPORT_AFTER`] has planned the same kind of write of the same
//! object. It logs what differs, and counts the difference in the gauge `dry_run_differences` until
//! a sync no longer plans the write.

mod diff;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_core_model::{ObjectKey, Text};
use metrics::Gauge;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::tracked::Operation;
use crate::writable::Writable;

/// How long a difference lasts before it is reported.
pub const REPORT_AFTER: Duration = Duration::from_secs(30);

/// The time after which an owner with reported differences needs another sync, even if no change
/// starts one.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The recorded writes of one controller. Cloning it shares it.
///
/// It keeps the name of an object that differs and two marks of time, not its content.
#[derive(Clone)]
pub struct DryRun(Arc<Shared>);

struct Shared {
    controller: String,
    gauge: Gauge,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    owners: HashMap<ObjectKey, Owner>,
    /// How many differences are reported.
    reported: usize,
}

/// The writes that are planned for one owner, such as a Service.
#[derive(Default)]
struct Owner {
    writes: BTreeMap<Write, Difference>,
    /// How many creates without a name the current sync has planned.
    unnamed: usize,
}

/// A planned write. A number distinguishes the creates of objects without a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    operation: &'static str,
    name: Text,
    number: usize,
}

struct Difference {
    since: Instant,
    /// True if the current sync has planned the write too.
    planned: bool,
    reported: bool,
}

impl DryRun {
    /// Creates a dry run without records. `controller` and `kind` become labels of the gauge.
    pub fn new(controller: impl Into<String>, kind: &'static str) -> Self {
        let controller = controller.into();
        metrics::describe_gauge!(
            "dry_run_differences",
            "Number of objects that --dry-run would have written for at least 30 s, and that nobody else has."
        );
        let gauge =
            metrics::gauge!("dry_run_differences", "controller" => controller.clone(), "kind" => kind);
        gauge.set(0.0);
        Self(Arc::new(Shared { controller, gauge, state: Mutex::default() }))
    }

    /// Begins a sync of an owner.
    pub fn begin(&self, owner: &ObjectKey) {
        if let Some(owner) = self.0.state.lock().owners.get_mut(owner) {
            owner.unnamed = 0;
            for difference in owner.writes.values_mut() {
                difference.planned = false;
            }
        }
    }

    /// Records a write that the current sync of `owner` has planned. `before` is the cached object.
    pub fn record<T: Writable>(
        &self,
        owner: &ObjectKey,
        operation: Operation,
        object: &T,
        before: Option<&T>,
    ) {
        let metadata = object.metadata();
        let name = if metadata.name.is_empty() { &metadata.generate_name } else { &metadata.name };
        self.record_named(owner, operation, name, metadata.name.is_empty(), T::KIND, || match operation {
            Operation::Create => diff::between(None, Some(object)),
            Operation::Update => diff::between(before, Some(object)),
            Operation::Delete => diff::between(Some(object), None),
        });
    }

    /// Records a planned delete by the key of the object.
    pub fn record_delete<T: Writable>(&self, owner: &ObjectKey, object: &ObjectKey) {
        self.record_named(owner, Operation::Delete, &object.name, false, T::KIND, String::new);
    }

    fn record_named(
        &self,
        owner: &ObjectKey,
        operation: Operation,
        name: &Text,
        unnamed: bool,
        kind: &str,
        diff: impl FnOnce() -> String,
    ) {
        let now = Instant::now();
        let lasted = {
            let mut state = self.0.state.lock();
            let owner = state.owners.entry(owner.clone()).or_default();
            owner.unnamed += usize::from(unnamed);
            let number = if unnamed { owner.unnamed } else { 0 };
            let write = Write { operation: operation.as_str(), name: name.clone(), number };
            let difference = owner.writes.entry(write).or_insert(Difference {
                since: now,
                planned: true,
                reported: false,
            });
            difference.planned = true;
            let lasted = now - difference.since;
            if difference.reported || lasted < REPORT_AFTER {
                return;
            }
            difference.reported = true;
            state.reported += 1;
            self.0.gauge.set(state.reported as f64);
            lasted
        };
        let diff = diff();
        let diff = if diff.is_empty() { diff } else { format!(":\n{diff}") };
        let name = if unnamed { format!("{name}…") } else { name.to_string() };
        tracing::warn!(
            controller = %self.0.controller, ?lasted,
            "dry run: would {} {kind} {}/{name}{diff}", operation.as_str(), owner.namespace
        );
    }

    /// Ends a sync of an owner. If the sync is `complete`, forgets the writes that it has not
    /// planned. Returns the time after which the caller must sync the owner again, even if nothing
    /// changes.
    pub fn end(&self, owner: &ObjectKey, complete: bool) -> Option<Duration> {
        let now = Instant::now();
        let mut settled = Vec::new();
        let next = {
            let mut state = self.0.state.lock();
            let known = state.owners.get_mut(owner)?;
            if complete {
                known.writes.retain(|write, difference| {
                    if difference.reported && !difference.planned {
                        settled.push(write.clone());
                    }
                    difference.planned
                });
            }
            let until = |difference: &Difference| match difference.reported {
                true => LOOK_AGAIN_AFTER,
                false => REPORT_AFTER.saturating_sub(now - difference.since).max(Duration::from_millis(1)),
            };
            let next = known.writes.values().map(until).min();
            if next.is_none() {
                state.owners.remove(owner);
            }
            if !settled.is_empty() {
                state.reported -= settled.len();
                self.0.gauge.set(state.reported as f64);
            }
            next
        };
        for Write { operation, name, .. } in settled {
            tracing::info!(
                controller = %self.0.controller,
                "dry run: no difference any more; would have {operation}d {}/{name}", owner.namespace
            );
        }
        next
    }

    /// Returns how many owners have records.
    pub fn len(&self) -> usize {
        self.0.state.lock().owners.len()
    }

    /// Returns how many differences are reported: the value of the gauge.
    pub fn reported(&self) -> usize {
        self.0.state.lock().reported
    }

    /// Returns true if no owner has records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;

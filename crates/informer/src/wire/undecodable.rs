//! The objects of one kind that the reflector could not decode when it last received them.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use kube_endpoint_core_model::{Admission, LogLimit, ObjectKey};
use tokio::time::Instant;

use crate::Object;
use crate::error::message;
use crate::metrics::KindMetrics;
use crate::wire::decode::Undecodable;

/// Counts an undecodable object every time that the reflector receives it, and logs it the first
/// time, unless there are too many others.
pub(crate) struct UndecodableObjects<'a, T> {
    keys: BTreeSet<ObjectKey>,
    metrics: &'a KindMetrics,
    lines: LogLimit,
    kind: PhantomData<T>,
}

impl<'a, T: Object> UndecodableObjects<'a, T> {
    pub(crate) fn new(metrics: &'a KindMetrics) -> Self {
        Self { keys: BTreeSet::new(), metrics, lines: LogLimit::default(), kind: PhantomData }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Records that the reflector could not decode an object.
    pub(crate) fn report(&mut self, object: &Undecodable) {
        self.metrics.undecodable.increment(1);
        let before = self.keys.len();
        let is_known = object.key.as_ref().is_some_and(|key| !self.keys.insert(key.clone()));
        self.update_gauge(before);
        if !is_known && let Admission::Write { left_out } = self.lines.admit(Instant::now().into_std()) {
            let key = object.key.as_ref().map_or_else(|| "(no name)".to_owned(), ToString::to_string);
            tracing::warn!(
                resource = T::KIND.name(),
                key = %message(&key),
                version = %object.resource_version,
                error = object.error,
                left_out,
                "an object cannot be decoded; its last known state stays in use"
            );
        }
    }

    /// Records that the reflector decoded an object, or that it was deleted.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        let before = self.keys.len();
        self.keys.remove(key);
        self.update_gauge(before);
    }

    /// Replaces the objects by those that a complete list contains in undecodable form. Returns
    /// those before.
    pub(crate) fn replace(&mut self, listed: BTreeSet<ObjectKey>) -> BTreeSet<ObjectKey> {
        let before = std::mem::replace(&mut self.keys, listed);
        self.update_gauge(before.len());
        before
    }

    /// Changes the gauge by the difference, since the lists and watches of a kind share it.
    fn update_gauge(&self, before: usize) {
        let now = self.keys.len();
        if now != before {
            self.metrics.undecodable_objects.increment(now as f64 - before as f64);
        }
    }
}

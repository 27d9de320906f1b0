//! Warns about another controller that writes the same objects beside this one, such as the loops
//! of a kube-controller-manager that nobody has turned off.
//!
//! Two controllers of one kind mostly agree, so nothing comes back that this one has corrected, and
//! [`crate::foreign`] stays silent. But the informers show writes that are not its own. Once a
//! minute this asks the server who wrote the newest of these objects. `managedFields` tell, which
//! the informers leave out. Without writes of others this asks nothing.
//!
//! The warning has to be right, so these do not count:
//!
//! - A write under the name of this controller. It is an own write whose answer was lost, one of an
//!   earlier replica, or one that a webhook changed.
//! - A write from before the end of the hand-over. It is one of the controller that wrote before.
//!   Clocks differ, so this compares the server's times only.
//! - The write of a client that is no controller, such as `kubectl edit`.
//! - Endpoints of a Service without a selector.
//! - A single sighting.
//!
//! For the first reason this does not see a second kube-endpoint-manager that runs without this
//! one's Lease: both have the same name. `kubectl diagnose-svc doctor` sees two Leases that are
//! held.

use std::time::Duration;

use kube_endpoint_api_writer::Writable;
use kube_endpoint_core_model::maker::{Content, KUBE_ENDPOINT_MANAGER, LastWrite, Maker};
use kube_endpoint_core_model::{Admission, ObjectKey, Text, Timestamp};
use tokio::time::sleep;

use crate::log_lines::Line;
use crate::{Output, Reconciler, Runtime};

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(60);
/// The most objects that one look asks about.
const MOST_ASKED: usize = 3;
/// The server may still carry out writes of the controller that wrote before for this time after
/// the start of this one.
const HAND_OVER: Duration = Duration::from_secs(60);
/// The number of looks with a sighting after which this warns.
const SIGHTINGS: u32 = 2;
/// A sighting is forgotten after this time. As long as sightings follow one another, this does not
/// warn again.
const MEMORY: Duration = Duration::from_secs(3600);

/// A controller that writes the same objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherController {
    /// The field manager of its writes.
    pub name: Text,
    /// The object in which it was seen last.
    pub object: ObjectKey,
    /// The time of its last write that was seen, by the server's clock.
    pub at: Timestamp,
}

impl OtherController {
    /// Returns true if it may still run.
    pub(crate) fn is_recent(&self, now: Timestamp) -> bool {
        is_within(MEMORY, self.at, now)
    }
}

fn is_within(span: Duration, earlier: Timestamp, later: Timestamp) -> bool {
    earlier.saturating_add(span).is_ok_and(|end| later < end)
}

/// The sightings of other controllers.
#[derive(Debug, Default)]
struct Sightings {
    last: Option<Timestamp>,
    count: u32,
}

impl Sightings {
    /// Records a sighting in a look, and returns how many there have been in a row.
    fn seen(&mut self, now: Timestamp) -> u32 {
        let goes_on = self.last.is_some_and(|last| is_within(MEMORY, last, now));
        self.count = if goes_on { self.count.saturating_add(1) } else { 1 };
        self.last = Some(now);
        self.count
    }
}

/// Returns the controller that made a write beside this one, with the time of the write, or `None`
/// if the write proves nothing. `own` is the field manager of this controller. It already wrote at
/// the time `since` of the server.
fn judge(write: &LastWrite, own: &str, since: Timestamp) -> Option<(Text, Timestamp)> {
    let (Maker::Controller(name), Some(at)) = (&write.writer, write.at) else { return None };
    let is_own = **name == *own || **name == *KUBE_ENDPOINT_MANAGER;
    (!is_own && at >= since.saturating_add(HAND_OVER).ok()?).then(|| (name.clone(), at))
}

/// Looks for another controller as long as this one runs. A dry run does not: it is meant to run
/// beside another controller.
pub(crate) async fn look_for_other_controller<R: Reconciler>(runtime: &Runtime<R>) {
    let writer = runtime.writer.writer();
    if writer.dry_run().is_some() {
        return std::future::pending().await;
    }
    // Writes from before this one began are those of the controller before.
    runtime.recent_foreign_writes.to_ask(usize::MAX, |_| true);
    // The server's time of a write that the cache has shown since then.
    let mut since: Option<Timestamp> = None;
    let mut sightings = Sightings::default();
    loop {
        sleep(PERIOD).await;
        let (mut seen, mut newest) = (None, None);
        let objects =
            runtime.recent_foreign_writes.to_ask(MOST_ASKED, |object| is_own_output(runtime, object));
        for object in objects {
            // Without an answer, the next write of another client is asked about.
            let Ok(Some(found)) = writer.provenance::<R::Output>(&object).await else { continue };
            newest = newest.max(found.changed());
            let Some(write) = found.last_write(R::Output::CONTENT, &writer.controllers()) else { continue };
            if let Maker::Controller(name) | Maker::SomebodyElse(name) = &write.writer {
                runtime.recent_foreign_writes.written_by(&object, name.clone());
            }
            let other = since.and_then(|since| judge(&write, writer.field_manager(), since));
            seen = seen.or(other.map(|(name, at)| OtherController { name, object, at }));
        }
        since = since.or(newest);
        let Some(other) = seen else { continue };
        let count = sightings.seen(runtime.clock().now());
        if count == SIGHTINGS {
            warn(runtime, &other);
        }
        if count >= SIGHTINGS {
            *runtime.other_controller.lock() = Some(other);
        }
    }
}

/// Returns false for an object that was deleted, since the server cannot tell who did that, and for
/// Endpoints that are not made from pods, which anybody may write. The label of a slice says whose
/// it is.
fn is_own_output<R: Reconciler>(runtime: &Runtime<R>, object: &ObjectKey) -> bool {
    let cluster = runtime.cluster();
    let selects = || cluster.service(object).is_some_and(|service| service.selects_pods());
    R::Output::cached_version(cluster, object).is_some()
        && (R::Output::CONTENT != Content::Endpoints || selects())
}

fn warn<R: Reconciler>(runtime: &Runtime<R>, other: &OtherController) {
    let OtherController { name: manager, object, at } = other;
    if let Admission::Write { left_out } = runtime.admits(Line::OtherController) {
        tracing::warn!(
            queue = runtime.queue.name(), %manager, %object, kind = R::Output::KIND, %at, left_out,
            "another controller writes the same objects as this one: turn its loops off, or stop this program"
        );
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::maker::Provenance;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn judged(writer: Maker, second: i64) -> Option<(Text, Timestamp)> {
        // A library user may have another field manager.
        let entry = json!({"manager": "x", "time": at(second).to_string(), "fieldsV1": {"f:subsets": {}}});
        let provenance: Provenance = serde_json::from_value(json!({"managedFields": [entry]})).unwrap();
        let mut write = provenance.last_write(Content::Endpoints, &[]).unwrap();
        write.writer = writer;
        judge(&write, "my-manager", at(0))
    }

    #[test]
    fn only_a_write_of_another_controller_after_the_hand_over_counts() {
        let controller = |name: &str| Maker::Controller(name.into());
        let seen = |name: &str, second| Some((Text::from(name), at(second)));
        for name in ["kube-controller-manager", "k3s"] {
            assert_eq!(judged(controller(name), 60), seen(name, 60));
            // The object keeps the name of its last writer after a take-over, and the last writes
            // of the controller before may be late.
            for second in [-100_000, 0, 59] {
                assert_eq!(judged(controller(name), second), None);
            }
        }
        for own in ["my-manager", KUBE_ENDPOINT_MANAGER] {
            assert_eq!(judged(controller(own), 1000), None, "an earlier replica, or a lost answer");
        }
        assert_eq!(judged(Maker::SomebodyElse("kubectl-edit".into()), 1000), None);
    }

    #[test]
    fn sightings_count_until_an_hour_passes_without_one() {
        let mut sightings = Sightings::default();
        assert_eq!([0, 60, 3659, 7259, 7300].map(|second| sightings.seen(at(second))), [1, 2, 3, 1, 2]);
    }
}

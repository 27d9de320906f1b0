//! The writes that controllers still have to make, their age, and the reason why they are late.

use std::fmt;

use kube_endpoint_core_model::display::PlannedObject;
use kube_endpoint_core_model::{EndpointSlice, Text, Timestamp, Writes};
use serde::Serialize;

use super::FaultInputs;
use crate::facts::age;
use crate::facts::details::write_optional_time;
use crate::facts::output_kind::OutputKind;
use crate::facts::signs::by_controller;
use crate::findings::PodReason;
use crate::findings::code::Severity;
use crate::findings::pod::PodExplanation;
use crate::models::cluster::SILENCE;
use crate::models::refused::Refused;
use crate::models::selection::Selection;
use crate::models::unwritten::Unwritten;

/// The seconds after which a change is slow: writes of a controller that runs lag less than one,
/// and the clocks of the writer and the reader may differ.
const SLOW: i64 = 10;

/// The writes that the controllers still have to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// Number of due creates.
    pub create: usize,
    /// Number of due updates.
    pub update: usize,
    /// Number of due deletes.
    pub delete: usize,
    /// Time of the oldest unpublished change, or `None` if it is not known.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
    /// Age of that change in seconds, if it is known.
    pub seconds: Option<i64>,
    /// True if that is longer than a working controller takes, or the API server refuses the
    /// writes, or slices name a pod that does not exist any more.
    pub is_late: bool,
    /// The number of ready pods that no slice holds as ready.
    pub ready_pods: usize,
    /// True if no endpoint of the Service receives traffic, and some should.
    #[serde(skip)]
    pub(crate) is_down: bool,
    /// The reason why the last write failed, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// The seconds since a controller wrote such an object of another Service, if that is a short
    /// time ago: a controller runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_written_seconds: Option<i64>,
    /// The Lease that its controller may not read, as the status of the EndpointSelector shows.
    #[serde(skip)]
    pub(crate) unseen_lease: Option<Text>,
}

impl Behind {
    /// Returns the time of the oldest change that is not shown in time, if the reason is not known.
    /// The time may not be known.
    pub(crate) fn late(&self) -> Option<Option<Timestamp>> {
        (self.is_late && self.refused.is_none()).then_some(self.since)
    }

    /// Returns the due writes of a kind of object.
    pub(crate) fn of<T: PlannedObject>(writes: &kube_endpoint_core_model::Writes<T>) -> Self {
        Self {
            create: writes.create.len(),
            update: writes.update.len(),
            delete: writes.delete.len(),
            since: None,
            seconds: None,
            is_late: true,
            ready_pods: 0,
            is_down: false,
            refused: None,
            others_written_seconds: None,
            unseen_lease: None,
        }
    }

    /// Returns true if the API server refuses the writes as it should.
    pub(crate) fn is_meant(&self) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.refusal.is_meant())
    }

    /// Returns the severity of late slices, unless it is that of the code.
    pub(crate) fn severity(&self) -> Option<Severity> {
        let is_error = self.is_late || self.is_down;
        match self.is_meant() {
            false if is_error => None,
            false if !self.may_be_under_way() => Some(Severity::Warning),
            _ => Some(Severity::Info),
        }
    }

    /// Returns true if a working controller may be about to write.
    pub(crate) fn may_be_under_way(&self) -> bool {
        !self.is_late && self.seconds.is_none_or(|seconds| seconds <= SLOW)
    }

    /// Returns true if no write is due.
    pub fn is_empty(&self) -> bool {
        self.create + self.update + self.delete == 0
    }

    /// Prints the due writes, and the age of the oldest change.
    pub(crate) fn fmt(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        let due = [("create", self.create), ("update", self.update), ("delete", self.delete)];
        let due = due.iter().filter(|(_, count)| *count > 0);
        let due: Vec<String> = due.map(|(verb, count)| format!("{count} to {verb}")).collect();
        write!(f, "{what}: {}", due.join(", "))?;
        match self.ready_pods {
            0 => {}
            1 => f.write_str("; 1 ready pod gets no traffic yet")?,
            pods => write!(f, "; {pods} ready pods get no traffic yet")?,
        }
        if let Some(seconds) = self.seconds {
            write!(f, "; the oldest change is {} old", age::seconds(seconds))?;
        }
        if let Some(lease) = &self.unseen_lease {
            write!(f, "; the status of the EndpointSelector shows no holder of Lease {lease}")?;
        }
        match (&self.refused, self.others_written_seconds) {
            (Some(refused), _) => write!(f, "; {refused}"),
            (None, Some(seconds)) if self.is_late => {
                write!(f, "; a controller wrote for another Service {} ago", age::seconds(seconds))
            }
            (None, _) => Ok(()),
        }
    }
}

impl FaultInputs<'_> {
    /// Returns the due writes of slices, if these could be read.
    pub(crate) fn slices_behind(&self) -> Option<Behind> {
        if !self.options.known.slices {
            return None;
        }
        let hand_over = &self.planned.hand_over;
        // Other faults tell of these.
        let is_told = match self.selection {
            Selection::None => true,
            Selection::Own(_) => !hand_over.held.is_empty(),
            _ => false,
        };
        let writes = self.planned.slice_writes();
        let writes = writes.filter(|writes| !(is_told && std::ptr::eq(*writes, &hand_over.slices)));
        let due = writes.map(Behind::of).reduce(sum).unwrap_or_else(nothing);
        if due.is_empty() {
            return None;
        }
        let refused = self.refused(OutputKind::EndpointSlice, self.slices_written());
        let due = self.aged(due, self.changes.of_slices(self.planned), refused);
        let signs = self.cluster.signs;
        let sign = if self.selection.endpoint_selector().is_some() { signs.attached } else { signs.slices };
        let sign = sign.filter(|sign| Some(*sign) > self.slices_written());
        let seconds = sign.map(|sign| age::since(sign, self.now)).filter(|seconds| *seconds < SILENCE);
        let is_unwritten = |pod: &&PodExplanation| matches!(pod.reason, Some(PodReason::NotWritten(_)));
        let ready_pods = self.explained.iter().filter(is_unwritten).count();
        let is_down = ready_pods > 0 && self.counts.is_down();
        let leads = self.planned.leads.as_ref().filter(|leads| leads.is_unseen);
        let unseen_lease = leads.and_then(|leads| leads.lease().cloned());
        Some(Behind { ready_pods, is_down, unseen_lease, others_written_seconds: seconds, ..due })
    }

    /// Returns the EndpointSelector of the Service, if its status shows that no controller has seen
    /// it, which is why slices are behind; and true if a controller has seen an older version of
    /// it.
    pub(crate) fn unseen_selector(&self, behind: &Behind) -> Option<(&Text, bool)> {
        match self.selection {
            Selection::Attached { name, object, .. } => {
                let seen = object.status.observed_generation;
                let is_cause = behind.is_late && behind.refused.is_none();
                let is_unseen = is_cause && seen.is_none_or(|seen| seen < object.generation);
                is_unseen.then_some((name, seen.is_some()))
            }
            _ => None,
        }
    }

    /// Returns the due writes of slices, if no unseen EndpointSelector is the cause.
    pub(crate) fn slices_behind_without_cause(&self) -> Option<Behind> {
        self.slices_behind().filter(|behind| self.unseen_selector(behind).is_none())
    }

    /// Returns the last time at which a controller wrote a slice of the Service.
    pub(crate) fn slices_written(&self) -> Option<Timestamp> {
        let slices = self.objects.slices_of(&self.service.key).iter();
        let writes = slices.filter_map(|slice| self.objects.slice_writes.get(&slice.key()));
        writes.filter_map(by_controller).max()
    }

    /// Returns the last refusal, unless a controller has written such an object since then, or the
    /// one that the status of the EndpointSelector still tells.
    pub(crate) fn refused(&self, kind: OutputKind, written: Option<Timestamp>) -> Option<Refused> {
        let events = self.objects.events.get(&self.service.key).into_iter().flatten();
        let in_status = || match (kind, self.selection) {
            (OutputKind::EndpointSlice, Selection::Attached { object, .. }) => {
                Refused::in_status(object, &self.service.key)
            }
            _ => None,
        };
        Refused::last(events, kind, written, self.now).or_else(in_status)
    }

    /// Adds the age of the oldest change, and the reason of the last refusal.
    pub(crate) fn aged(&self, due: Behind, unwritten: Unwritten, refused: Option<Refused>) -> Behind {
        let since = unwritten.since;
        let seconds = since.map(|time| age::since(time, self.now));
        let is_old = seconds.map_or(!unwritten.just_gone, |seconds| seconds > self.options.late_after);
        let is_late = refused.is_some() || is_old || !unwritten.gone.is_empty();
        Behind { since, seconds, is_late, refused, ..due }
    }
}

fn nothing() -> Behind {
    Behind::of::<EndpointSlice>(&Writes::default())
}

fn sum(one: Behind, other: Behind) -> Behind {
    Behind {
        create: one.create + other.create,
        update: one.update + other.update,
        delete: one.delete + other.delete,
        ..one
    }
}

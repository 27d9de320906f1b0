//! Looks for outputs that differ from what they should be, and for the reason.

use kube_endpoint_core_model::{EndpointSlice, Timestamp, Writes};

use super::{Looked, versions};
use crate::cluster::{SILENCE, Waiting, by_controller};
use crate::fault::Behind;
use crate::leftovers::OutputKind;
use crate::refused::Refused;
use crate::selection::Selection;
use crate::{Fault, age};

impl Looked<'_> {
    /// Returns the due writes of slices.
    pub(super) fn slices_behind(&self) -> Option<Behind> {
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
        let due = self.aged(due, self.refused(OutputKind::EndpointSlice, self.slices_written()));
        let signs = self.cluster.signs;
        let sign = if self.selection.endpoint_selector().is_some() { signs.attached } else { signs.slices };
        let sign = sign.filter(|sign| Some(*sign) > self.slices_written());
        let seconds = sign.map(|sign| age::since(sign, self.now)).filter(|seconds| *seconds < SILENCE);
        Some(Behind { others_written_seconds: seconds, ..due })
    }

    pub(super) fn of_endpoints(&self, faults: &mut Vec<Fault>) {
        let (Some(plan), existing) = (&self.planned.endpoints, self.objects.endpoints_of(&self.service.key))
        else {
            return;
        };
        let writes = versions::content(&plan.writes, existing);
        let last = self.objects.endpoints_writes.get(&self.service.key);
        if let Some(existing) = existing.filter(|_| !writes.is_empty()) {
            let by = last.map(|write| &write.by);
            if versions::is_of_others(existing, by) {
                faults.push(self.endpoints_of_others(existing, by));
                return;
            }
        }
        if !writes.is_empty() {
            let written = last.and_then(by_controller);
            let behind = self.aged(Behind::of(&writes), self.refused(OutputKind::Endpoints, written));
            let is_alone = self.planned.slice_writes().all(Writes::is_empty);
            // If there are none at all, a flag may retire those of the namespace.
            let others_written = behind.is_late && existing.is_some() && self.others_are_written(written);
            faults.push(Fault::EndpointsBehind { behind, is_alone, others_written });
        }
        if plan.truncated {
            let (ready, not_ready) = existing.map_or((0, 0), |existing| existing.subsets.counts());
            let held = ready + not_ready;
            let over = |pod: &&kube_endpoint_core_model::PodVerdict| {
                use kube_endpoint_core_model::{LeftOut, Verdict};
                matches!(pod.verdict, Verdict::LeftOut(LeftOut::OverCapacity))
            };
            let wanted = plan.ready + plan.not_ready + plan.verdicts.iter().filter(over).count();
            faults.push(Fault::EndpointsTruncated { held, wanted });
        }
    }

    /// Replaces outputs that are behind by the root cause, if no controller serves the cluster. The
    /// Leases tell that to who looks at one Service, or other Services that have no slice.
    pub(super) fn of_cluster(&self, faults: &mut Vec<Fault>) {
        let mut waiting = Waiting::new(self.cluster.signs.slices, self.cluster.stale_leases.clone());
        let mut late = faults.iter().filter_map(Fault::late);
        let Some(since) = late.next().filter(|_| self.service.selects_pods()) else { return };
        waiting.count(&self.service.key, Some(since));
        let is_late = |created: Timestamp| age::since(created, self.now) > self.options.late_after;
        for (service, waits) in &self.objects.others {
            waiting.count(service, waits.filter(|created| created.is_none_or(is_late)));
        }
        let Some(unserved) = waiting.unserved(self.now) else { return };
        faults.retain(|fault| !matches!(fault, Fault::SlicesBehind(_) | Fault::EndpointsBehind { .. }));
        faults.push(Fault::ClusterUnserved(crate::Unserved { services: None, ..unserved }));
    }

    /// Returns the last time at which a controller wrote a slice of the Service.
    fn slices_written(&self) -> Option<Timestamp> {
        let slices = self.objects.slices_of(&self.service.key).iter();
        let writes = slices.filter_map(|slice| self.objects.slice_writes.get(&slice.key()));
        writes.filter_map(by_controller).max()
    }

    /// Returns true if a controller has written other Endpoints later than this Service changed.
    /// The last write of its slices, which show the change, tells when that was. `written` is the
    /// last write of its own Endpoints.
    fn others_are_written(&self, written: Option<Timestamp>) -> bool {
        let Some(changed) = self.slices_written().map(|slices| slices.max(self.newest.unwrap_or(slices)))
        else {
            return false;
        };
        let sign = self.cluster.signs.endpoints.filter(|sign| Some(*sign) > written);
        sign.is_some_and(|sign| age::since(changed, sign) > self.options.late_after)
    }

    /// Returns the last refusal, unless a controller has written such an object since then.
    fn refused(&self, kind: OutputKind, written: Option<Timestamp>) -> Option<Refused> {
        let events = self.objects.events.get(&self.service.key).into_iter().flatten();
        Refused::last(events, kind, written, self.now)
    }

    /// Adds the age of the newest change, and the reason of the last refusal.
    fn aged(&self, due: Behind, refused: Option<Refused>) -> Behind {
        let seconds = self.newest.map(|time| age::since(time, self.now));
        let is_late = refused.is_some() || seconds.is_none_or(|seconds| seconds > self.options.late_after);
        Behind { since: self.newest, seconds, is_late, refused, ..due }
    }
}

impl Fault {
    /// Returns the time of the newest change that the slices do not show in time, if the reason is
    /// not known. The time may not be known.
    pub(crate) fn late(&self) -> Option<Option<Timestamp>> {
        match self {
            Self::SlicesBehind(behind) if behind.is_late && behind.refused.is_none() => Some(behind.since),
            _ => None,
        }
    }

    /// Returns true if the API server refused a write of the Service's slices.
    pub(crate) fn refusal(&self) -> Option<&Refused> {
        match self {
            Self::SlicesBehind(behind) => behind.refused.as_ref(),
            _ => None,
        }
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

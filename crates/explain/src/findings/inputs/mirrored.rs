//! The endpoints that others wrote for a Service without a selector, and those that the mirroring
//! controller copies to slices.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::well_known::{ANNOTATION_LEADER, LABEL_SKIP_MIRROR};
use kube_endpoint_core_model::{EndpointSlice, Text, address};
use kube_endpoint_mirroring::{MirrorVerdict, NotMirrored, Plan, SkipReason};

use super::{FaultInputs, is_mirrored};

impl FaultInputs<'_> {
    /// Returns the cause why Endpoints with addresses are not mirrored.
    pub(crate) fn not_mirrored(&self) -> Option<NotMirrored> {
        let endpoints = self.objects.endpoints_of(&self.service.key)?;
        let cause = self.planned.mirroring.as_ref()?.not_mirrored;
        cause.filter(|_| !endpoints.subsets.is_empty())
    }

    /// Returns the cause and the label or annotation of the Endpoints, if that prevents mirroring.
    pub(crate) fn prevented_mirroring(&self) -> Option<(NotMirrored, &'static str)> {
        let cause = self.not_mirrored()?;
        let key = match cause {
            NotMirrored::SkipLabel => LABEL_SKIP_MIRROR,
            NotMirrored::LeaderElection => ANNOTATION_LEADER,
            _ => return None,
        };
        Some((cause, key))
    }

    /// Returns true if others write the endpoints of the Service and its slices are known, so that
    /// these show the endpoints. They do not if mirroring is prevented and nobody writes slices.
    pub(crate) fn shows_what_others_wrote(&self) -> bool {
        let is_seen = self.is_written_by_others() && self.options.known.slices;
        is_seen && (self.prevented_mirroring().is_none() || !self.slices().iter().all(|it| is_mirrored(it)))
    }

    /// Returns the addresses of the Endpoints that the controller does not mirror, by the reason.
    pub(crate) fn addresses_left_out(&self) -> BTreeMap<&SkipReason, Vec<Text>> {
        let mut left_out: BTreeMap<&SkipReason, Vec<Text>> = BTreeMap::new();
        if self.prevented_mirroring().is_some() {
            return left_out;
        }
        for one in self.planned.mirroring.iter().flat_map(|plan| &plan.verdicts) {
            if let MirrorVerdict::Skipped(reason) = &one.verdict {
                left_out.entry(reason).or_default().push(one.address.clone());
            }
        }
        for addresses in left_out.values_mut() {
            // In the order of texts, .10 would come before .2.
            addresses.sort_by_cached_key(|address| (address::parse_sloppy(address), address.clone()));
        }
        left_out
    }

    /// Returns the plan of the mirroring controller, if it is about to write.
    pub(crate) fn due_mirroring(&self) -> Option<&Plan> {
        self.planned.mirroring.as_ref().filter(|plan| !plan.writes.is_empty())
    }

    /// Returns the slices as they are after the controller has mirrored the present Endpoints, if
    /// it is about to write.
    pub(crate) fn slices_after_mirroring(&self) -> Option<Vec<Arc<EndpointSlice>>> {
        let writes = &self.due_mirroring()?.writes;
        let deleted = writes.delete.iter().map(|slice| &**slice);
        let replaced: Vec<&Text> =
            writes.update.iter().chain(deleted).map(|slice| &slice.metadata.name).collect();
        let kept = self.slices().iter().filter(|slice| !replaced.contains(&&slice.metadata.name)).cloned();
        let written = writes.create.iter().chain(&writes.update).cloned().map(Arc::new);
        Some(kept.chain(written).collect())
    }
}

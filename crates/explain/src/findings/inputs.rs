//! The inputs of the findings about one Service: what was read, and what the models say.

mod behind;
mod client;
mod hints;
mod left;
mod mirrored;
mod ready_pods;
mod selector;
mod unused;
mod versions;

use std::sync::Arc;

use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, Pod, Service, Text, Timestamp};

use crate::facts::across::Across;
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::findings::counts::Counts;
use crate::findings::pod::PodExplanation;
use crate::models::cluster::ClusterFacts;
use crate::models::consumers::kube_proxy::TrafficPolicies;
use crate::models::dead::DeadEndpoint;
use crate::models::hand_over::made_by_controller;
use crate::models::near::NearMatches;
use crate::models::planned::Planned;
use crate::models::selection::{SelectedBy, Selection};
use crate::models::traffic::Served;
use crate::models::unwritten::Changes;

pub use behind::Behind;
pub(crate) use ready_pods::ReadyPod;
pub(crate) use selector::Unselected;
pub(crate) use unused::{PortsOfFamily, asked_for, other_ports};

/// The facts and models of a Service. Findings are functions of it.
pub(crate) struct FaultInputs<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) service: &'a Service,
    pub(crate) selection: Selection<'a>,
    pub(crate) selected_by: Option<&'a SelectedBy>,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) planned: &'a Planned,
    pub(crate) served: &'a Served<'a>,
    pub(crate) policies: TrafficPolicies,
    pub(crate) explained: &'a [PodExplanation],
    /// The endpoints that answer nobody, in slices that the controller of the Service does not
    /// keep.
    pub(crate) dead: &'a [DeadEndpoint],
    pub(crate) nearly_matching: &'a NearMatches,
    pub(crate) across: &'a Across<'a>,
    pub(crate) counts: Counts,
    pub(crate) now: Timestamp,
    /// The changes that should be published, with their times.
    pub(crate) changes: Changes<'a>,
    pub(crate) options: &'a Options,
    pub(crate) cluster: &'a ClusterFacts,
}

impl FaultInputs<'_> {
    /// Returns the slices that name the Service.
    pub(crate) fn slices(&self) -> &[Arc<EndpointSlice>] {
        self.objects.slices_of(&self.service.key)
    }

    /// Returns true if the Service is of type ExternalName. It has no endpoints then.
    pub(crate) fn is_alias(&self) -> bool {
        self.service.service_type == ServiceType::ExternalName
    }

    /// Returns true if its own selector or that of an EndpointSelector selects pods.
    pub(crate) fn is_selecting(&self) -> bool {
        let selects = matches!(self.selection, Selection::Own(_) | Selection::Attached { .. });
        selects && !self.is_alias()
    }

    /// Returns true if somebody else writes its endpoints, because it has no selector.
    pub(crate) fn is_written_by_others(&self) -> bool {
        matches!(self.selection, Selection::None) && !self.is_alias()
    }

    /// Returns true if a controller is about to write or delete a slice.
    pub(crate) fn is_due(&self, slice: &Arc<EndpointSlice>) -> bool {
        let writes = || self.planned.slice_writes();
        writes().flat_map(|writes| &writes.update).any(|due| due.metadata.name == slice.metadata.name)
            || writes().flat_map(|writes| &writes.delete).any(|due| Arc::ptr_eq(due, slice))
    }

    /// Returns true if a controller keeps the slices of a manager of this Service, so that other
    /// findings are about them.
    pub(crate) fn is_of_controller(&self, manager: &Text) -> bool {
        let is = |other: &str| **manager == *other;
        match self.selection.endpoint_selector() {
            // Those of Endpoints that somebody wrote add to the pods.
            Some(_) if is(MIRRORING_CONTROLLER) => made_by_controller(self.objects, &self.service.key),
            Some(_) => is(SELECTOR_CONTROLLER) || is(ENDPOINTSLICE_CONTROLLER),
            None => {
                let own = &*self.options.slices.manager;
                let all = [own, MIRRORING_CONTROLLER, ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER];
                all.into_iter().any(is)
            }
        }
    }
}

/// Returns true if the mirroring controller made the slice.
pub(crate) fn is_mirrored(slice: &EndpointSlice) -> bool {
    slice.is_managed_by(MIRRORING_CONTROLLER)
}

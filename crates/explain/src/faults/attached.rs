//! Looks at the EndpointSelector that a Service names.

use std::sync::Arc;

use kube_endpoint_core_model::endpoint_selector::Condition;
use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSelector, EndpointSlice, LabelSelector, ObjectKey, StringMap, Text};

use super::Looked;
use crate::fault::{Behind, NoPods};
use crate::hand_over::made_by_controller;
use crate::leader::is_without_effect;
use crate::selection::{Selection, is_name};
use crate::{Fault, Rehearsal};

/// The maximum number of names of other EndpointSelectors in a message.
const OTHERS: usize = 3;

impl Looked<'_> {
    /// Adds what is wrong with the EndpointSelector that the Service names, and with the hand-over
    /// from and to the selector of the Service.
    pub(super) fn of_endpoint_selector(&self, faults: &mut Vec<Fault>) {
        let objects = self.objects;
        let names = |slices: &[Arc<EndpointSlice>]| -> Vec<Text> {
            slices.iter().map(|slice| slice.metadata.name.clone()).collect()
        };
        let held = &self.planned.hand_over.held;
        match self.selection {
            Selection::None | Selection::NotKnown { .. } => {}
            Selection::Own(_) => {
                if let Some(name) = self.service.rehearsed_selector() {
                    let rehearsal = Rehearsal::of(objects, self.service, name, self.now, self.options);
                    let endpoint_selector = name.clone();
                    faults.push(Fault::EndpointSelectorOverridden { endpoint_selector, rehearsal });
                }
                if !held.is_empty() {
                    faults.push(Fault::HandOverHeld { endpoint_selector: None, slices: names(held) });
                }
            }
            Selection::Unusable { name, object: Some(object) } => {
                let reason = object.selector.as_ref().err().map(ToString::to_string);
                faults.push(Fault::EndpointSelectorInvalid {
                    endpoint_selector: name.clone(),
                    reason: reason.unwrap_or_default(),
                });
            }
            Selection::Unusable { name, object: None } => {
                let key = ObjectKey { namespace: self.service.key.namespace.clone(), name: name.clone() };
                let elsewhere = self.options.other_namespaces.then(|| objects.namespaces_of_selector(&key));
                faults.push(Fault::EndpointSelectorNotFound {
                    endpoint_selector: name.clone(),
                    namespaces: elsewhere.unwrap_or_default(),
                    is_served: !objects.serves_no_selectors,
                    is_name: is_name(name),
                    others: objects.selectors_of(&self.service.key.namespace).take(OTHERS).cloned().collect(),
                });
            }
            Selection::Attached { name, object, selector } => {
                if let Some(reason) = refused(object) {
                    faults.push(Fault::EndpointSelectorInvalid {
                        endpoint_selector: name.clone(),
                        reason: reason.to_string(),
                    });
                }
                if selector.matches(&StringMap::default()) {
                    faults.push(Fault::SelectsUnlabelled {
                        endpoint_selector: name.clone(),
                        selector: selector.to_string(),
                    });
                }
                if let Some(leads) = self.selected_by.and_then(|by| by.leads.as_ref()) {
                    let tolerate = self.options.slices.tolerate_unready_annotation;
                    if is_without_effect(self.service, tolerate) {
                        faults.push(Fault::ReadinessWithoutEffect { endpoint_selector: name.clone() });
                    } else if leads.nobody.is_some() && !self.pods.is_empty() {
                        let leads = leads.clone();
                        faults.push(Fault::NobodyLeads { endpoint_selector: name.clone(), leads });
                    }
                }
                if !held.is_empty() {
                    let endpoint_selector = Some(name.clone());
                    faults.push(Fault::HandOverHeld { endpoint_selector, slices: names(held) });
                }
            }
        }
    }

    /// Returns the fault of an EndpointSelector that selects no pod.
    pub(super) fn selects_no_pod(&self, name: &Text, selector: &LabelSelector) -> Fault {
        let near = self.nearly_matching;
        if let Some(nearest) = near.typos().next() {
            let endpoint_selector = Some(name.clone());
            return Fault::PodsNearlyMatch { endpoint_selector, nearest: nearest.clone(), count: near.pods };
        }
        let nearest = self.selected_by.and_then(|by| by.not_selected.first());
        let cause = nearest.map_or(NoPods::NotKnown, |nearest| NoPods::AllBut(nearest.clone()));
        let (selector, endpoint_selector) = (selector.to_string(), Some(name.clone()));
        Fault::NoPodMatches { selector, endpoint_selector, cause }
    }

    /// Returns the fault of slices that are behind. If the status of the EndpointSelector shows
    /// that no controller has seen it, that is the cause.
    pub(super) fn unless_unserved(&self, behind: Behind) -> Fault {
        match self.selection {
            Selection::Attached { name, object, .. }
                if behind.is_late
                    && behind.refused.is_none()
                    && object.status.observed_generation.is_none_or(|seen| seen < object.generation) =>
            {
                let is_old = object.status.observed_generation.is_some();
                Fault::EndpointSelectorUnserved { endpoint_selector: name.clone(), is_old, behind }
            }
            _ => Fault::SlicesBehind(behind),
        }
    }

    /// Returns true if a controller keeps the slices of a manager of this Service, so that other
    /// findings are about them.
    pub(super) fn is_of_controller(&self, manager: &Text) -> bool {
        let is = |other: &str| **manager == *other;
        match self.selection.endpoint_selector() {
            // Those of Endpoints that somebody wrote add to the pods.
            Some(_) if is(MIRRORING_CONTROLLER) => made_by_controller(self.objects, &self.service.key),
            Some(_) => is(SELECTOR_CONTROLLER) || is(ENDPOINTSLICE_CONTROLLER),
            None => {
                let all = [
                    &self.options.slices.manager,
                    MIRRORING_CONTROLLER,
                    ENDPOINTSLICE_CONTROLLER,
                    SELECTOR_CONTROLLER,
                ];
                all.into_iter().any(is)
            }
        }
    }
}

/// Returns the reason why a controller does not accept an EndpointSelector that looks valid here.
fn refused(object: &EndpointSelector) -> Option<&Text> {
    let seen = object.status.observed_generation == Some(object.generation);
    let accepted = object.status.conditions.iter().find(|condition| *condition.kind == *"Accepted");
    // Another finding tells about a Lease without a leader.
    let refused = |condition: &&Condition| {
        seen && *condition.status == *"False" && *condition.reason != *"HolderNotRecognised"
    };
    accepted.filter(refused).map(|condition| &condition.message)
}

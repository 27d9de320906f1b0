//! Metrics of hand-overs and selectors.

use kube_endpoint_controller_runtime::KeyGauge;
use kube_endpoint_core_model::ObjectKey;
use metrics::{Counter, Unit, counter, describe_counter};

use super::events::Situations;
use super::leader::Leadership;

const LEADER_CHANGES: &str = "endpoint_selector_controller_leader_changes_total";

/// The metrics of this controller.
pub(super) struct Metrics {
    held: KeyGauge,
    without_selector: KeyGauge,
    not_accepted: KeyGauge,
    refused: KeyGauge,
    leftovers: KeyGauge,
    without_leader: KeyGauge,
    leader_changes: Counter,
}

impl Metrics {
    pub(super) fn new() -> Self {
        describe_counter!(
            LEADER_CHANGES,
            Unit::Count,
            "Number of times that another pod began to lead the pods of a Service by its Lease"
        );
        Self {
            leader_changes: counter!(LEADER_CHANGES),
            held: KeyGauge::new(
                "endpoint_selector_controller_held_hand_overs",
                "Services between two controllers: slices of the previous one stay because the new one lacks a ready endpoint or may not write its slices",
            ),
            without_selector: KeyGauge::new(
                "endpoint_selector_controller_services_without_selector",
                "Services that name an EndpointSelector which does not exist or is invalid",
            ),
            not_accepted: KeyGauge::new(
                "endpoint_selector_controller_selectors_not_accepted",
                "EndpointSelectors that are not accepted: invalid, or with a Lease whose holder names no pod",
            ),
            refused: KeyGauge::new(
                "endpoint_selector_controller_services_with_refused_writes",
                "Services for which the API server refuses to write EndpointSlices, or fails: clients may use endpoints that are out of date",
            ),
            leftovers: KeyGauge::new(
                "endpoint_selector_controller_services_with_leftovers",
                "Services that name an EndpointSelector and whose clients also use slices or Endpoints that the controller may not take away",
            ),
            without_leader: KeyGauge::new(
                "endpoint_selector_controller_services_without_leader",
                "Services that follow a leader, have pods, and have no ready endpoint because nobody leads",
            ),
        }
    }

    /// Registers the gauges.
    pub(super) fn start(&self) {
        let Self { held, without_selector, not_accepted, refused, leftovers, without_leader, .. } = self;
        for gauge in [held, without_selector, not_accepted, refused, leftovers, without_leader] {
            gauge.start();
        }
    }

    /// Counts a Service in its situation.
    pub(super) fn found(&self, service: &ObjectKey, found: &Situations) {
        self.held.put(service, found.is_held());
        self.without_selector.put(service, found.lacks_selector());
        self.refused.put(service, found.is_refused());
        self.leftovers.put(service, found.has_leftovers());
    }

    /// Counts a Service if nobody leads its pods.
    pub(super) fn leads(&self, service: &ObjectKey, leadership: &Leadership) {
        self.without_leader.put(service, matches!(leadership, Leadership::Nobody(_)));
    }

    /// Counts a change of the pod that leads.
    pub(super) fn leader_changed(&self) {
        self.leader_changes.increment(1);
    }

    /// Counts a selector.
    pub(super) fn selector(&self, key: &ObjectKey, is_invalid: bool) {
        self.not_accepted.put(key, is_invalid);
    }
}

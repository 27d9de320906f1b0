//! Metrics of hand-overs and selectors.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use kube_endpoint_core_model::ObjectKey;
use metrics::{Gauge, Unit, describe_gauge, gauge};
use parking_lot::Mutex;

use super::events::Situation;

const HELD: &str = "endpoint_selector_controller_held_hand_overs";
const WITHOUT_SELECTOR: &str = "endpoint_selector_controller_services_without_selector";
const NOT_ACCEPTED: &str = "endpoint_selector_controller_selectors_not_accepted";

/// The gauges of this controller. A standby has none: sums over all replicas count each object
/// once.
#[derive(Default)]
pub(super) struct Metrics {
    gauges: OnceLock<Gauges>,
    held: Mutex<BTreeSet<ObjectKey>>,
    without_selector: Mutex<BTreeSet<ObjectKey>>,
    not_accepted: Mutex<BTreeSet<ObjectKey>>,
}

struct Gauges {
    held: Gauge,
    without_selector: Gauge,
    not_accepted: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Registers the gauges.
    pub(super) fn start(&self) {
        self.gauges.get_or_init(|| {
            describe_gauge!(
                HELD,
                Unit::Count,
                "Services between two controllers: slices of the previous one stay because the new one lacks a ready endpoint"
            );
            describe_gauge!(
                WITHOUT_SELECTOR,
                Unit::Count,
                "Services that name an EndpointSelector which does not exist or is invalid"
            );
            describe_gauge!(NOT_ACCEPTED, Unit::Count, "EndpointSelectors that are not accepted: invalid, or with a Lease whose holder names no pod");
            Gauges {
                held: gauge!(HELD),
                without_selector: gauge!(WITHOUT_SELECTOR),
                not_accepted: gauge!(NOT_ACCEPTED),
            }
        });
        self.set();
    }

    /// Counts a Service in its situation.
    pub(super) fn found(&self, service: &ObjectKey, situation: &Situation) {
        put(&self.held, service, situation.is_held());
        put(&self.without_selector, service, situation.lacks_selector());
        self.set();
    }

    /// Counts a selector.
    pub(super) fn selector(&self, key: &ObjectKey, is_invalid: bool) {
        put(&self.not_accepted, key, is_invalid);
        self.set();
    }

    fn set(&self) {
        let Some(gauges) = self.gauges.get() else { return };
        gauges.held.set(self.held.lock().len() as f64);
        gauges.without_selector.set(self.without_selector.lock().len() as f64);
        gauges.not_accepted.set(self.not_accepted.lock().len() as f64);
    }
}

fn put(set: &Mutex<BTreeSet<ObjectKey>>, key: &ObjectKey, is_in: bool) {
    let mut set = set.lock();
    if is_in {
        set.insert(key.clone());
    } else {
        set.remove(key);
    }
}

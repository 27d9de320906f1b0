//! Facts about the whole cluster on which the explanation of each Service depends. They are
//! gathered once for all Services.

mod helpers;
mod topology;
mod unserved;

use kube_endpoint_core_model::Timestamp;

use crate::facts::lease::{Lease, LeaseState};
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::facts::signs::Signs;

pub use helpers::{Helper, NotReadyPods};
pub use topology::SomeNodes;
pub(crate) use topology::TopologyNodes;
pub(crate) use unserved::SILENCE;
pub use unserved::{StaleLease, Unserved, Waiting};

/// The facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterFacts {
    pub(crate) signs: Signs,
    pub(crate) topology: TopologyNodes,
    /// The Leases of the programs that run the controllers, if nobody holds any of them.
    pub(crate) stale_leases: Vec<StaleLease>,
}

impl ClusterFacts {
    pub(crate) fn of(objects: &Objects, options: &Options, now: Timestamp) -> Self {
        Self {
            signs: Signs::of(objects, &options.slices.manager),
            topology: TopologyNodes::of(objects.nodes.values().map(|node| &**node)),
            stale_leases: stale(&objects.leases, now),
        }
    }
}

/// Returns the Leases of the controllers. The list is empty if one of them is held, or may be.
fn stale(leases: &[Lease], now: Timestamp) -> Vec<StaleLease> {
    let of_controllers = || leases.iter().filter(|lease| lease.is_upstreams() || lease.is_managers());
    let is_stale = |lease: &Lease| match lease.state(now) {
        LeaseState::Held | LeaseState::Reserved => false,
        // A new leader takes a released Lease within seconds.
        LeaseState::Expired | LeaseState::Released => {
            lease.renewed.is_some_and(|renewed| crate::facts::age::since(renewed, now) > unserved::SILENCE)
        }
    };
    if !of_controllers().all(is_stale) {
        return Vec::new();
    }
    let stale = of_controllers().filter_map(|lease| {
        let seconds = crate::facts::age::since(lease.renewed?, now);
        Some(StaleLease { lease: lease.key.clone(), seconds })
    });
    stale.collect()
}

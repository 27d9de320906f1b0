//! Handles changes of nodes, which affect the distribution of CPU over zones, the zones of
//! endpoints, and the pods that can be published.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube_endpoint_controller_runtime::{Cause, Runtime};
use kube_endpoint_core_model::{Node, ObjectKey};
use kube_endpoint_informer::Change;
use kube_endpoint_slice_plan::{HintedState, TopologyState};

use super::{SliceReconciler, SliceSync};

/// How long after the deletion of a node the controller syncs the Services of its pods, which
/// removes these pods. The pod garbage collector deletes them after 40 to 60 seconds; a node that
/// registers again before that costs no endpoint.
const DELETED_NODE_DELAY: Duration = Duration::from_secs(60);

impl SliceSync {
    /// See [`Reconciler::on_node`](kube_endpoint_controller_runtime::Reconciler::on_node).
    pub fn on_node<R: SliceReconciler>(&self, runtime: &Runtime<R>, change: &Change<Node>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let matters = match (old, new) {
            (Some(old), Some(new)) => {
                old.ready != new.ready
                    || old.zone != new.zone
                    || old.control_plane != new.control_plane
                    || old.allocatable_cpu_nano != new.allocatable_cpu_nano
            }
            _ => true,
        };
        if matters {
            *self.topology_outdated.lock() = true;
            self.nodes_changed.notify_one();
        }
        if old.map(|old| &old.zone) != new.map(|new| &new.zone) {
            self.zones_version.fetch_add(1, Ordering::AcqRel);
        }
        let (resync, delay) = match (old, new) {
            (Some(old), Some(new)) => {
                (self.options.node_zone_resync && old.zone != new.zone, self.options.batch_period)
            }
            (None, _) => (self.options.missing_node_resync, self.options.batch_period),
            (_, None) => (self.options.missing_node_resync, DELETED_NODE_DELAY),
        };
        let Some(node) = new.or(old).filter(|_| resync) else { return };
        for service in runtime.cluster().services_on_node(&node.name) {
            runtime.add_after(service, delay, Cause::Node.since(change.arrived));
        }
    }

    /// Reads all nodes if one has changed, and syncs the Services whose hints no longer fit
    /// (upstream `checkNodeTopologyDistribution`). With the gate, it also syncs Services that lost
    /// their hints and may have hints again; upstream waits until something else syncs them. Each
    /// sync calls this, too, so that a sync that a node change started uses the changed nodes.
    pub(super) fn refresh_topology<R: SliceReconciler>(&self, runtime: &Runtime<R>) {
        let mut outdated = self.topology_outdated.lock();
        if !std::mem::take(&mut *outdated) {
            return;
        }
        let nodes = runtime.cluster().nodes();
        if nodes.is_empty() && !self.topology.read().is_computed() {
            return;
        }
        let topology = TopologyState::from_nodes(nodes.iter().map(Arc::as_ref));
        if **self.topology.read() == topology {
            return;
        }
        let topology = Arc::new(topology);
        // This comes before anything else: a sync that ends from now on compares its hints with
        // these ratios.
        *self.topology.write() = Arc::clone(&topology);
        let misfits = runtime.keys_matching(|state| self.no_longer_fits(&R::slices(state).hinted, &topology));
        if let Some(first) = misfits.first() {
            tracing::info!(
                services = misfits.len(), %first,
                "hints no longer fit the zones' share of CPU; their Services will be synced"
            );
        }
        for service in misfits {
            runtime.add(service, Cause::Topology);
        }
    }

    fn no_longer_fits(&self, state: &HintedState, topology: &TopologyState) -> bool {
        state.is_overloaded(topology) || (self.options.node_zone_resync && state.may_be_hinted(topology))
    }

    /// Stores the hints of a sync. If nodes have changed since the sync read them, this queues the
    /// Service again if necessary.
    pub(super) fn keep_hints<R: SliceReconciler>(
        &self,
        runtime: &Runtime<R>,
        service: &ObjectKey,
        hinted: HintedState,
        planned_for: &Arc<TopologyState>,
    ) {
        runtime.with_state(service, |state| R::slices_mut(state).hinted = hinted.clone());
        let now = Arc::clone(&self.topology.read());
        if !Arc::ptr_eq(planned_for, &now) && self.no_longer_fits(&hinted, &now) {
            runtime.add(service.clone(), Cause::Topology);
        }
    }
}

//! Hints.

bugs! {
    "Hints";
    kubernetes_123401 in "endpointslice-controller/tests/controller/topology.rs::node_zone_resync_restores_hints_that_a_node_without_a_zone_removed",
        "A node that became ready before it had a zone took all hints away, and they did not come back with its zone.",
        "The zone of a node starts syncs of the Services that it concerns (gate `NodeZoneResync`).";
    kubernetes_114215 in "endpointslice-controller/tests/controller/topology.rs::hints_are_removed_with_the_last_node_of_a_zone_and_restored_with_it",
        "Nodes went and came back; the hints went, and did not come back.",
        "The hints come back with the nodes, in one write.";
    kubernetes_105267 in "slice-plan/tests/hints_laws.rs::hints_settle_in_one_sync_and_one_change_moves_few",
        "Hints were read wrongly from slices, so slices were written again though nothing had changed.",
        "A second plan writes nothing. A law says so of any cluster.";
    kubernetes_103888 in "endpointslice-controller/tests/controller/topology.rs::impossible_hints_are_reported_once",
        "Hints that could not be given were left out without a word.",
        "An event says why.";
}

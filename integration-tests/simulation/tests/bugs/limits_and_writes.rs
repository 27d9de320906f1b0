//! Limits, and writes without need.

use super::row::play_with_transcript;

bugs! {
    "Limits, and writes without need";
    kubernetes_127370 = "truncated-endpoints-rewritten",
        "Each sync rewrote truncated Endpoints; an update without effect has no new version, and the controller never updated these Endpoints again.",
        "Nobody waits for an update whose answer has the version that it was to replace. By default the controller does not send it either (gate `EndpointsKeepTruncated`).";
    kubernetes_73324 in "endpoints-controller/tests/plan.rs::above_1000_addresses_the_ready_ones_come_first",
        "Endpoints of thousands of pods became larger than etcd accepts, and were not written any more.",
        "Above 1000 addresses they are truncated, ready ones first, with the annotation that says so.";
    ingress_gce_3137 in "endpointslice-controller/tests/controller/refused_creates.rs::a_dead_pod_is_removed_though_no_slice_can_be_created",
        "As long as one group could not be created, endpoints of the others were neither added nor removed.",
        "After a failed create the plan goes on with all that is safe without it (gate `WritesAfterFailedCreate`).";
    kubernetes_133474 = "headless-service-without-ports",
        "Each sync wrote the slices of a headless Service without ports, because no ports and an empty list of ports differed.",
        "Both are the same.";
    kubernetes_94112 in "endpoints-controller/tests/plan.rs::what_counts_as_a_change",
        "Each resync updated most Endpoints, because the order of their ports differed and because of the headless label.",
        "The order of subsets, addresses and ports counts for nothing, and labels are compared with those that a write would set.";
    kubernetes_108077 in "endpoints-controller/tests/plan.rs::what_counts_as_a_change",
        "Each resync updated all Endpoints whose pods had new versions; a new Service waited for minutes meanwhile.",
        "The version of a target is no reason to write.";
    kubernetes_47597 in "endpoints-controller/tests/controller/syncs.rs::a_resync_sends_no_request",
        "Every 30 s the controller read each Endpoints object from the server, which used up its rate limit and delayed removals.",
        "A resync comes every 12 to 24 hours, reads from the stores, and sends no request.";
    cilium_31564 in "endpointslice-controller/tests/controller/syncs.rs::a_restart_writes_nothing",
        "A restart deleted slices and created others, and pods lost connections meanwhile.",
        "A restart writes nothing; at the end of each history a process that starts cold is a test of that.";
    lighthouse_1646 with "label-added-to-service",
        "Each new label of a Service led to one more slice, and the old ones were no longer updated.",
        "A slice is found by the label that names its Service, and changed labels are an update.";
    cilium_20251 with "last-pod-leaves-many-slices",
        "Slices whose last endpoint left before they were written were created empty, and stayed.",
        "A plan that finds no endpoints keeps one placeholder and deletes the other slices.";
}

/// Returns how many slices were added or deleted in the first two minutes.
fn count(lines: &[String], change: &str) -> usize {
    let changed = format!(" {change} endpointslices ");
    lines.iter().filter(|line| line.as_str() < "00:02" && line.contains(&changed)).count()
}

/// One slice is created for each family.
#[test]
fn lighthouse_1646() {
    let lines = play_with_transcript("label-added-to-service");
    assert_eq!((count(&lines, "Added"), count(&lines, "Deleted")), (2, 0));
}

/// All slices but one go.
#[test]
fn cilium_20251() {
    let lines = play_with_transcript("last-pod-leaves-many-slices");
    assert!(count(&lines, "Added") > 4);
    assert_eq!(count(&lines, "Added"), count(&lines, "Deleted") + 1);
}

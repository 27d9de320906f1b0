//! Pods, their conditions and their nodes.

use super::row::play_with_transcript;

bugs! {
    "Pods and nodes";
    kubernetes_109414 = "address-of-failed-pod-reused",
        "A failed pod whose condition `Ready` was still true stayed published, and a pod of another Service got its address.",
        "The controllers publish no pod that has ended, under any conditions and any Service.";
    kubernetes_54723 = "ready-pod-terminates",
        "A pod that was being deleted stayed among the ready addresses as long as its probe succeeded.",
        "It is not ready from the beginning of its deletion; slices say that it still serves.";
    deckhouse_22686 = "readiness-lost-at-the-same-address",
        "Endpoints were compared by their addresses only, so a pod that turned unready stayed ready.",
        "All fields that a slice publishes are compared.";
    talos_12802 = "pods-replaced-under-their-names",
        "New addresses were added to a slice, and old ones never removed.",
        "A plan begins with the pods that exist; an endpoint without a pod goes.";
    kubernetes_107927 = "pod-on-unknown-node",
        "A pod on a node that did not exist kept all pods of its Service from being published.",
        "The controller publishes the other pods, and this one when its node exists.";
    linkerd2_10003 = "pods-leave-beside-one-on-an-unknown-node",
        "One pod could not be looked up, the whole update was dropped, and addresses that had left stayed.",
        "A pod that cannot be published has no effect on the others.";
    karmada_3546 with "node-of-pods-removed",
        "When a place failed as a whole, its endpoints stayed, and clients went on using them.",
        "A minute after a node is gone, its pods leave (gate `MissingNodeResync`).";
    ingress_gce_2508 = "node-without-a-zone",
        "A node without a zone kept all endpoints of a Service from being added.",
        "Its pods are published without a zone and without hints.";
}

/// A minute after the node went, and while nothing else changes, a slice is written.
#[test]
fn karmada_3546() {
    let lines = play_with_transcript("node-of-pods-removed");
    let quiet = lines.iter().filter(|line| ("00:01".."00:05").contains(&line.as_str()));
    assert!(quiet.filter(|line| line.contains(" endpointslices ")).count() > 0);
}

//! Tests how many writes each change takes, and which events it causes.

use crate::common::ClusterState;
use crate::common::build::{http, node, terminating, unready, web};
use kube_endpoint_core_model::slice::EndpointPort;
use kube_endpoint_core_model::well_known::ANNOTATION_TRIGGER_TIME;
use kube_endpoint_core_model::{IpFamily, Pod, Service};

/// Checks the numbers of creates, updates and deletes of a plan, and that it keeps every ready pod
/// published.
fn check(cluster: &ClusterState, creates: usize, updates: usize, deletes: usize) {
    let plan = cluster.plan();
    let writes = crate::common::writes(&plan);
    let got = (writes.create.len(), writes.update.len(), writes.delete.len());
    assert_eq!(got, (creates, updates, deletes), "\n{plan}");
    assert_eq!(crate::common::missed(cluster, &plan), None, "\n{plan}");
}

/// Returns a synced Service with this number of pods, in slices of at most three.
fn synced(pods: usize) -> ClusterState {
    web(&["a", "b"]).pods(&[("a", pods)]).synced()
}

fn without(mut cluster: ClusterState, pods: &[usize]) -> ClusterState {
    let names: Vec<_> = pods.iter().map(|at| cluster.pods[*at].key.name.clone()).collect();
    cluster.pods.retain(|pod| !names.contains(&pod.key.name));
    cluster
}

#[test]
fn writes_of_pod_changes() {
    check(&synced(4), 0, 0, 0);
    check(&synced(4).pod(0, unready), 0, 1, 0);
    check(&synced(4).pod(0, terminating), 0, 1, 0);
    check(&synced(4).pod(0, unready).pod(3, unready), 0, 2, 0);
    check(&synced(4).pod(0, |pod| pod.resource_version.0 = 9), 0, 0, 0);
    check(&synced(4).pod(0, |pod| pod.uid = "new".into()), 0, 1, 0);
    check(&synced(4).pod(0, |pod| pod.node_name = Some("node-b".into())), 0, 1, 0);
    check(&synced(4).pod(0, |pod| pod.pod_ips = Box::new([[10, 9, 9, 9].into()])), 0, 1, 0);
    check(&synced(4).pod(0, |pod| pod.node_name = Some("node-gone".into())), 0, 1, 0);
    check(&without(synced(4), &[3]), 0, 0, 1);
    check(&without(synced(4), &[0]), 0, 1, 0);
    check(&without(synced(4), &[0, 1, 2, 3]), 0, 1, 1);
}

#[test]
fn writes_of_growth() {
    // Two more fit into the slice that has one; three fill a new slice.
    check(&synced(4).pods(&[("a", 2)]), 0, 1, 0);
    check(&synced(4).pods(&[("a", 3)]), 1, 0, 0);
    check(&synced(4).pods(&[("a", 4)]), 1, 1, 0);
    check(&synced(3).pods(&[("a", 1)]), 1, 0, 0);
    check(&synced(3).pods(&[("a", 1)]).pod(0, unready), 1, 1, 0);
    check(&synced(0).pods(&[("a", 1)]), 0, 1, 0);
    check(&web(&["a"]).pods(&[("a", 9)]), 3, 0, 0);
}

#[test]
fn a_slice_above_a_lowered_maximum_is_not_split() {
    let lowered = |mut cluster: ClusterState| {
        cluster.options.max_endpoints_per_slice = 2;
        cluster
    };
    check(&lowered(synced(3)), 0, 0, 0);
    check(&lowered(synced(3).pod(0, unready)), 0, 1, 0);
    assert_eq!(
        crate::common::writes(&lowered(synced(3).pod(0, unready)).plan()).update[0].endpoints.len(),
        3
    );
    check(&lowered(synced(3).pods(&[("a", 1)])), 1, 0, 0);
}

#[test]
fn writes_of_service_changes() {
    fn change(change: fn(&mut Service)) -> ClusterState {
        synced(4).service(change)
    }
    check(&change(|_| {}), 0, 0, 0);
    check(&change(|service| service.labels = [("a", "b")].into_iter().collect()), 0, 2, 0);
    // A slice does not get reserved labels of the Service.
    check(
        &change(|service| service.labels = [("kubernetes.io/service-name", "x")].into_iter().collect()),
        0,
        0,
        0,
    );
    check(&change(|service| service.cluster_ip = "None".into()), 0, 2, 0);
    check(&change(|service| service.publish_not_ready_addresses = true), 0, 0, 0);
    check(&change(|service| service.ip_families = vec![IpFamily::IPv6]), 2, 0, 2);
    check(&change(|service| service.ip_families.push(IpFamily::IPv6)), 2, 0, 0);
    check(&change(|service| service.uid = "other".into()), 2, 0, 2);
    check(&change(|service| service.ports.clear()), 0, 2, 0);
    check(&change(|service| service.ports[0].app_protocol = Some("h2c".into())), 0, 2, 0);
    check(&change(|service| service.traffic_distribution = Some("PreferClose".into())), 0, 2, 0);
    check(&change(|service| service.traffic_distribution = Some("Unknown".into())), 0, 0, 0);
}

#[test]
fn a_change_of_a_pod_writes_only_slices_with_its_ports() {
    let other = |pod: &mut Pod| pod.ports = [http(9090)].into_iter().collect();
    let cluster = web(&["a"]).pods(&[("a", 4)]).pod(1, other).pod(2, other).synced();
    check(&cluster, 0, 0, 0);
    check(&cluster.clone().pod(1, unready), 0, 1, 0);
    check(&cluster.clone().pod(1, |pod| pod.ports = [http(8080)].into_iter().collect()), 0, 2, 0);
    check(&cluster.pod(1, |pod| pod.ports = Default::default()), 1, 1, 0);
}

#[test]
fn edits_of_other_writers_are_reverted() {
    check(&synced(2).slice(0, |slice| slice.metadata.labels = Default::default()), 0, 0, 0);
    check(&synced(2).slice(0, |slice| slice.metadata.labels = [("a", "b")].into_iter().collect()), 0, 1, 0);
    check(&synced(2).slice(0, |slice| slice.metadata.owner_references.clear()), 1, 0, 1);
    check(&synced(2).slice(0, |slice| slice.endpoints.truncate(1)), 0, 1, 0);
    check(&synced(2).slice(0, |slice| slice.endpoints[0].zone = None), 0, 1, 0);
    check(&synced(2).slice(0, |slice| slice.ports.push(EndpointPort::default())), 0, 1, 0);
    let doubled = synced(6).slice(0, |slice| slice.endpoints.truncate(2));
    let copy = doubled.existing_slices.as_ref().unwrap()[1].endpoints[0].clone();
    // The first slice keeps the pod that both contain; the second one gets the missing pod.
    check(&doubled.slice(0, |slice| slice.endpoints.push(copy)), 0, 1, 0);
}

#[test]
fn a_stale_copy_is_removed_after_the_pod_is_ready_in_its_slice() {
    // The first slice has a stale copy of a pod that is not ready in the second one.
    let cluster = synced(6).slice(1, |slice| slice.endpoints[0].conditions.ready = Some(false));
    let mut copy = cluster.existing_slices.as_ref().unwrap()[1].endpoints[0].clone();
    copy.conditions.ready = Some(true);
    copy.addresses = vec!["10.9.9.9".into()];
    let cluster = cluster.slice(0, |slice| slice.endpoints[2] = copy);
    check(&cluster, 0, 2, 0);
    let plan = cluster.plan();
    let writes = crate::common::writes(&plan);
    let names: Vec<&str> = writes.update.iter().map(|slice| &*slice.metadata.name).collect();
    assert_eq!(names, ["web-00001", "web-00000"]);
}

#[test]
fn metadata_of_other_writers_are_kept() {
    let cluster = synced(2).slice(0, |slice| {
        slice.metadata.annotations =
            [("theirs", "x"), (ANNOTATION_TRIGGER_TIME, "old")].into_iter().collect();
        slice.metadata.finalizers = vec!["theirs".into()];
        slice.metadata.resource_version.0 = 7;
    });
    let writes = crate::common::writes(&cluster.clone().pod(0, unready).plan());
    assert_eq!(writes.update[0].metadata.annotations, [("theirs", "x")].into_iter().collect());
    assert_eq!(writes.update[0].metadata.resource_version.0, 7);
    // A slice whose name is reused is otherwise new, as in upstream.
    let other = |pod: &mut Pod| pod.ports = [http(9090)].into_iter().collect();
    let writes = crate::common::writes(&cluster.pod(0, other).pod(1, other).plan());
    assert!(writes.update[0].metadata.annotations.is_empty());
    assert_eq!(
        (writes.update[0].metadata.resource_version.0, writes.update[0].metadata.finalizers.len()),
        (7, 1)
    );
}

/// Slices with endpoints, and the placeholder of a Service without pods.
#[test]
fn a_wrong_headless_label_is_a_reason_to_write_only_if_the_gate_is_on() {
    for (pods, slices) in [(0, 1), (4, 2)] {
        for cluster_ip in ["10.96.0.1", "None"] {
            let right = synced(pods).service(|service| service.cluster_ip = cluster_ip.into());
            let right = ClusterState { existing_slices: None, ..right }.synced();
            let turned = ["None", "10.96.0.1"].into_iter().find(|ip| *ip != cluster_ip).unwrap();
            let mut wrong = right.clone().service(|service| service.cluster_ip = turned.into());
            check(&right, 0, 0, 0);
            check(&wrong, 0, slices, 0);
            check(&wrong.clone().synced(), 0, 0, 0);
            wrong.options.headless_label_repair = false;
            check(&wrong, 0, 0, 0);
        }
    }
}

#[test]
fn events_of_topology_hints() {
    fn check(cluster: &ClusterState, want: &[&str]) {
        let events: Vec<String> = cluster.plan().events.iter().map(ToString::to_string).collect();
        let short: Vec<&str> =
            events.iter().filter_map(|event| event.split(" TopologyAwareHints").nth(1)).collect();
        assert_eq!(short, want);
    }
    let two = || web(&["a", "b"]).pods(&[("a", 3), ("b", 3)]).auto();
    check(&two(), &["Enabled Topology Aware Hints has been enabled, addressType: IPv4"]);
    check(&two().synced(), &[]);
    let off = |cluster: ClusterState| cluster.service(|service| service.annotations = Default::default());
    check(&off(two().synced()), &["Disabled Topology Aware Hints has been disabled, addressType: IPv4"]);
    check(&off(two().synced()).synced(), &[]);
    check(
        &web(&["a", "b"]).pods(&[("a", 1)]).auto(),
        &["Disabled Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4"],
    );
    check(
        &web(&["a"]).pods(&[("a", 3)]).auto(),
        &[
            "Disabled Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, \
           addressType: IPv4",
        ],
    );
    check(
        &web(&["a", "b"]).pods(&[("a", 5)]).auto(),
        &[
            "Disabled Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
           (5 endpoints, 2 zones), addressType: IPv4",
        ],
    );
    let mut bare = two().pods(&[("bare", 1)]);
    bare.nodes.push(node("bare", 4));
    bare.nodes[2].zone = None;
    bare.nodes[2].ready = false;
    check(&bare, &["Disabled One or more endpoints do not have a zone specified, addressType: IPv4"]);
    let dual = |service: &mut Service| service.ip_families = vec![IpFamily::IPv4, IpFamily::IPv6];
    check(&two().service(dual), &["Enabled Topology Aware Hints has been enabled, addressType: IPv4"]);
}

#[test]
fn metrics_labels() {
    let check = |cluster: ClusterState, auto: bool, traffic: Option<&str>| {
        let stats = cluster.plan().stats;
        assert_eq!((stats.topology_auto, stats.traffic_distribution.as_deref()), (auto, traffic));
    };
    check(synced(1), false, None);
    check(synced(1).auto(), true, None);
    check(synced(1).traffic("PreferClose"), false, Some("PreferClose"));
    check(synced(1).traffic("PreferSameNode"), false, Some("PreferSameNode"));
    check(synced(1).traffic("Unknown"), false, None);
    check(synced(1).auto().traffic("PreferClose"), true, None);
}

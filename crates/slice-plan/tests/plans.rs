//! Snapshots of plans.

use crate::common::ClusterState;
use crate::common::build::{http, node, terminating, unready, web};
use kube_endpoint_core_model::pod::{PodPhase, RareFields};
use kube_endpoint_core_model::slice::{EndpointHints, Hint};
use kube_endpoint_core_model::{IpFamily, Timestamp};

macro_rules! shows {
    ($name:literal, $cluster:expr) => {
        insta::assert_snapshot!($name, $cluster.plan())
    };
}

/// Returns six pods in two full slices.
fn six() -> ClusterState {
    web(&["a", "b"]).pods(&[("a", 3), ("b", 3)]).synced()
}

#[test]
fn packing() {
    shows!("first_sync", web(&["a"]).pods(&[("a", 2)]).triggered());
    shows!("seven_pods_need_three_slices", web(&["a"]).pods(&[("a", 7)]));
    shows!("one_readiness_change_writes_one_slice", six().pod(4, unready));
    shows!("new_pods_go_to_slices_that_are_written_anyway", six().pod(0, terminal).pods(&[("a", 2)]));
    shows!("a_service_without_pods_has_a_placeholder", web(&["a"]));
    shows!("without_pods_one_slice_becomes_the_placeholder", {
        let mut none = six();
        none.pods.clear();
        none
    });
    shows!("nothing_changed", six());
}

#[test]
fn pods() {
    let mixed = web(&["a"])
        .pods(&[("a", 3), ("gone", 1), ("a", 5)])
        .pod(0, terminating)
        .pod(1, |pod| {
            terminating(pod);
            unready(pod);
        })
        .pod(2, unready)
        .pod(4, |pod| pod.pod_ips = Box::new([]))
        .pod(5, |pod| {
            pod.pod_ips = Box::new([]);
            pod.rare = RareFields { invalid_pod_ip: Some("10.0.0".into()), ..RareFields::default() }.boxed();
        })
        .pod(6, terminal)
        .pod(7, |pod| pod.pod_ips = Box::new([pod.pod_ips[1]]))
        .pod(8, |pod| {
            pod.hostname = Some("db".into());
            pod.subdomain = Some("web".into());
        });
    shows!("every_pod_has_a_verdict", mixed);
    let all = mixed.service(|service| service.publish_not_ready_addresses = true);
    shows!("publish_not_ready_addresses", all);
    let dual = |service: &mut kube_endpoint_core_model::Service| {
        service.ip_families = vec![IpFamily::IPv6, IpFamily::IPv4];
    };
    shows!("dual_stack", web(&["a"]).pods(&[("a", 2)]).service(dual));
    let ports = web(&["a"])
        .pods(&[("a", 4)])
        .pod(1, |pod| pod.ports = [http(9090)].into_iter().collect())
        .pod(3, |pod| pod.ports = Default::default());
    shows!("pods_with_other_ports_are_in_other_slices", ports);
}

#[test]
fn services() {
    let other_port = |pod: &mut kube_endpoint_core_model::Pod| pod.ports = [http(9090)].into_iter().collect();
    let moved = (0..6).fold(six(), |cluster, at| cluster.pod(at, other_port));
    shows!("a_new_port_number_reuses_slices", moved);
    let labelled = |service: &mut kube_endpoint_core_model::Service| {
        service.labels = [("team", "shop")].into_iter().collect();
    };
    shows!("labels_are_copied", web(&["a"]).pods(&[("a", 1)]).synced().service(labelled));
    shows!("slices_of_a_service_of_the_same_name", six().service(|service| service.uid = "new".into()));
    shows!(
        "slices_of_a_removed_family_are_deleted",
        six().service(|service| service.ip_families = vec![IpFamily::IPv6])
    );
    let deleted = |service: &mut kube_endpoint_core_model::Service| {
        service.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    };
    shows!("a_service_being_deleted_gets_no_new_slices", six().pods(&[("a", 1)]).service(deleted));
}

#[test]
fn traffic_distribution() {
    let three = || web(&["a", "b"]).pods(&[("a", 2), ("b", 1)]).pod(1, unready);
    shows!("prefer_close", three().traffic("PreferClose"));
    shows!("prefer_same_node", three().traffic("PreferSameNode"));
    let back = three().traffic("PreferClose").synced();
    shows!("hints_are_removed_with_the_field", back.service(|service| service.traffic_distribution = None));
    let wrong = six_hinted().slice(1, |slice| {
        slice.endpoints[0].hints = Some(Box::new(EndpointHints {
            for_zones: vec![Hint { name: "elsewhere".into() }],
            ..EndpointHints::default()
        }));
    });
    shows!("only_the_slice_with_the_wrong_hint_is_written", wrong);
}

fn six_hinted() -> ClusterState {
    web(&["a", "b"]).pods(&[("a", 3), ("b", 3)]).traffic("PreferSameZone").synced()
}

#[test]
fn topology() {
    let two = || web(&["a", "b"]).pods(&[("a", 6), ("b", 2)]).auto();
    shows!("hints_on_two_zones", two());
    shows!("one_readiness_change_moves_one_hint", two().synced().pod(0, unready));
    shows!("hints_on_three_zones", web(&["a", "b", "c"]).pods(&[("a", 4), ("b", 4), ("c", 1)]).auto());
    let seven = ["a", "b", "c", "d", "e", "f", "g"];
    let pods: Vec<(&str, usize)> =
        seven.iter().zip([1, 5, 2, 2, 3, 0, 1]).map(|(zone, n)| (*zone, n)).collect();
    shows!("hints_on_seven_zones", web(&seven).pods(&pods).auto());
    let mut uneven = web(&[]).pods(&[("a", 3), ("b", 3)]).auto();
    uneven.nodes = vec![node("a", 12), node("b", 4)];
    shows!("hints_follow_the_cpu", uneven);
    shows!(
        "hints_are_removed_with_the_annotation",
        two().synced().service(|service| service.annotations = Default::default())
    );
    shows!("a_node_without_a_zone_removes_hints", without_a_zone(two().synced()));
}

fn without_a_zone(mut cluster: ClusterState) -> ClusterState {
    let mut nodes = vec![node("bare", 4)];
    nodes[0].zone = None;
    nodes.append(&mut cluster.nodes);
    cluster.nodes = nodes;
    cluster.pods(&[("bare", 1)])
}

#[test]
fn compaction() {
    let mut sparse = web(&["a"]);
    sparse.options.max_endpoints_per_slice = 4;
    let mut sparse = sparse.pods(&[("a", 16)]).synced();
    sparse.pods.retain(|pod| [0, 4, 5, 8, 12].iter().any(|at| *pod.key.name == *format!("p{at:02}")));
    let mut sparse = sparse.synced().pod(4, unready);
    sparse.options.slice_compaction = true;
    shows!("sparse_slices_are_merged", sparse);
}

#[test]
fn order() {
    let other = |number: i32| {
        move |pod: &mut kube_endpoint_core_model::Pod| pod.ports = [http(number)].into_iter().collect()
    };
    let groups = web(&["a"]).pods(&[("a", 4)]).pod(2, other(9090)).pod(3, other(9090)).synced();
    let chain = groups.clone().pod(0, other(9090));
    shows!("the_new_slice_of_a_pod_is_written_before_its_old_one", chain);
    let cycle = groups.pod(0, other(9090)).pod(2, other(8080));
    shows!("a_cycle_is_broken_by_a_create", cycle);
}

fn terminal(pod: &mut kube_endpoint_core_model::Pod) {
    pod.phase = PodPhase::Succeeded;
}

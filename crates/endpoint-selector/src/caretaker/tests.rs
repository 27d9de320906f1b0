use std::collections::BTreeMap;

use kube_endpoint_core_model::Timestamp;
use kube_endpoint_core_model::endpoints::EndpointAddress;
use kube_endpoint_core_model::pod::PodPhase;

use super::*;
use crate::fixtures::{mirrored, own, pod, pods, theirs};

type Pods = BTreeMap<&'static str, Arc<Pod>>;

fn facts(pods: &Pods, publish_not_ready: bool) -> Facts<impl PodLookup, fn(&Text) -> bool> {
    let pods = |name: &str| pods.get(name).cloned();
    Facts { pods, is_known: |_| true, publish_not_ready }
}

/// Shows the endpoints as the fixtures take them.
fn shown(slice: &EndpointSlice) -> String {
    let shown = slice.endpoints.iter().map(|endpoint| {
        let mark = if endpoint.conditions.ready == Some(false) { "-" } else { "" };
        format!("{mark}{}", endpoint.target_ref.as_ref().unwrap().name)
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Cares for slices, and shows the result: updated slices, deleted ones, and if the Endpoints have
/// to be looked at.
fn cared(slices: &Unmaintained, pods: &Pods) -> Vec<String> {
    let Care { update, delete, endpoints, waits } = care_for(slices, &facts(pods, false));
    assert!(!waits);
    let updates = update.iter().map(|slice| format!("{}: {}", slice.metadata.name, shown(slice)));
    let deletes = delete.iter().map(|slice| format!("delete {}", slice.metadata.name));
    updates.chain(deletes).chain(endpoints.then(|| "endpoints".to_owned())).collect()
}

fn of_pods(endpoints: &[&str]) -> Unmaintained {
    Unmaintained { of_pods: vec![theirs("web-1", endpoints)], ..Unmaintained::default() }
}

#[test]
fn the_dead_leave_and_the_others_follow_their_pods() {
    let pods = pods();
    let check = |endpoints: &[&str], want: &[&str]| assert_eq!(cared(&of_pods(endpoints), &pods), want);
    check(&["a", "b"], &[]);
    check(&["a", "-u"], &[]);
    check(&["a", "u", "gone", "f"], &["web-1: a -u", "endpoints"]);
    check(&["a", "t"], &["web-1: a -t", "endpoints"]);
    check(&["-a", "b"], &["web-1: a b", "endpoints"]);
    // All pods are unready for a moment: nobody deletes their slice.
    check(&["u"], &["web-1: -u", "endpoints"]);
    check(&["f", "gone"], &["delete web-1", "endpoints"]);
    check(&[], &["delete web-1"]);
}

#[test]
fn own_slices_stay_when_they_are_empty() {
    let own = |endpoints: &[&str]| Unmaintained { own: vec![own(endpoints)], ..Unmaintained::default() };
    let pods = pods();
    assert_eq!(cared(&own(&["gone", "f"]), &pods), ["web-own: "]);
    assert_eq!(cared(&own(&[]), &pods), [""; 0]);
    assert_eq!(cared(&own(&["-a", "b"]), &pods), ["web-own: a b"]);
}

#[test]
fn mirrored_slices_are_never_written() {
    let mirrored =
        |endpoints: &[&str]| Unmaintained { mirrored: vec![mirrored(endpoints)], ..Unmaintained::default() };
    let pods = pods();
    for wrong in ["gone", "f", "u", "t", "-a"] {
        assert_eq!(cared(&mirrored(&[wrong]), &pods), ["endpoints"], "{wrong}");
    }
    assert_eq!(cared(&mirrored(&["a", "-u"]), &pods), [""; 0]);
}

/// A follower is as not ready as a pod whose readiness fails, and must not become ready.
#[test]
fn a_pod_that_was_not_chosen_does_not_become_ready() {
    let mut slice = own(&["a", "-b"]);
    Arc::make_mut(&mut slice).endpoints[1].conditions.terminating = None;
    let mut pods = pods();
    let care = |slice: &Arc<EndpointSlice>, pods: &Pods| {
        let slices = Unmaintained { own: vec![Arc::clone(slice)], ..Unmaintained::default() };
        care_for(&slices, &facts(pods, false)).update.pop().map(Arc::new)
    };
    assert_eq!(care(&slice, &pods), None);
    let blip = |name: &'static str, ready: bool| {
        let mut pod = pod(name);
        pod.ready.as_mut().unwrap().is_true = ready;
        (name, Arc::new(pod))
    };
    pods.extend([blip("a", false), blip("b", false)]);
    let unready = care(&slice, &pods).unwrap();
    assert_eq!(shown(&unready), "-a -b");
    pods.extend([blip("a", true), blip("b", true)]);
    assert_eq!(care(&unready, &pods).unwrap(), slice);
    // Nor does it serve while it is being deleted.
    let mut leaving = pod("b");
    leaving.deletion_timestamp = Some(Timestamp::default());
    pods.insert("b", Arc::new(leaving));
    let leaving = care(&slice, &pods).unwrap();
    let want = EndpointConditions { ready: Some(false), serving: Some(false), terminating: Some(true) };
    assert_eq!(leaving.endpoints[1].conditions, want);
    assert_eq!(care(&leaving, &pods), None);
}

#[test]
fn an_old_cache_takes_nothing_away() {
    let pods = pods();
    let lookup = |name: &str| pods.get(name).cloned();
    let is_known = |uid: &Text| **uid == *"uid-f";
    let facts = Facts { pods: lookup, is_known, publish_not_ready: false };
    let care = care_for(&of_pods(&["gone", "f", "u"]), &facts);
    assert!(care.waits);
    assert_eq!(shown(&care.update[0]), "gone u");
}

/// All states of a pod, judged by what the API promises.
#[test]
fn no_endpoint_is_ready_whose_pod_is_not_and_caring_twice_changes_nothing() {
    type Change = fn(&mut Pod);
    let states: [(&str, Option<Change>); 9] = [
        ("ready", Some(|_| ())),
        ("unready", Some(|pod| pod.ready = None)),
        ("leaving", Some(|pod| pod.deletion_timestamp = Some(Timestamp::default()))),
        (
            "leaving unready",
            Some(|pod| (pod.ready, pod.deletion_timestamp) = (None, Some(Timestamp::default()))),
        ),
        ("ended", Some(|pod| pod.phase = PodPhase::Succeeded)),
        ("another", Some(|pod| pod.uid = "uid-again".into())),
        ("moved", Some(|pod| (pod.pod_ip, pod.pod_ips) = (None, ["10.9.9.9".parse().unwrap()].into()))),
        ("without address", Some(|pod| (pod.pod_ip, pod.pod_ips, pod.has_pod_ip) = (None, [].into(), false))),
        ("gone", None),
    ];
    for (state, change) in states {
        for (was_ready, publish, is_own) in (0..8).map(|bits| (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0)) {
            let mut pods = pods();
            pods.remove("a");
            pods.extend(change.map(|change| {
                let mut pod = pod("a");
                change(&mut pod);
                ("a", Arc::new(pod))
            }));
            let listed: &[&str] = if was_ready { &["a", "b"] } else { &["-a", "b"] };
            let before = if is_own { own(listed) } else { theirs("web-1", listed) };
            let care = |slice: &Arc<EndpointSlice>| {
                let mut slices = Unmaintained::default();
                if is_own { &mut slices.own } else { &mut slices.of_pods }.push(Arc::clone(slice));
                let Care { mut update, delete, waits, .. } = care_for(&slices, &facts(&pods, publish));
                assert!(delete.is_empty() && !waits && update.len() < 2);
                update.pop().map(Arc::new)
            };
            let after = care(&before).unwrap_or(before);
            let is_ready = match state {
                "ready" => Some(true),
                "unready" | "leaving" | "leaving unready" => Some(publish),
                "without address" => Some(false),
                _ => None,
            };
            let found = after.endpoints.iter().find(|it| it.target_ref.as_ref().unwrap().name == "a");
            let context = format!("{state} {was_ready} {publish} {is_own}: {}", shown(&after));
            assert_eq!(found.map(|it| it.conditions.ready.unwrap()), is_ready, "{context}");
            assert_eq!(care(&after), None, "{context}");
            assert!(shown(&after).ends_with('b'), "{context}");
        }
    }
}

fn address(name: &str) -> EndpointAddress {
    let endpoint = &own(&[name]).endpoints[0];
    EndpointAddress {
        ip: endpoint.addresses[0].clone(),
        target_ref: endpoint.target_ref.clone(),
        ..EndpointAddress::default()
    }
}

fn subset(ready: &[&str], not_ready: &[&str]) -> EndpointSubset {
    let list = |names: &[&str]| names.iter().map(|name| address(name)).collect();
    EndpointSubset { addresses: list(ready), not_ready_addresses: list(not_ready), ports: Vec::new() }
}

#[test]
fn endpoints_follow_their_pods_too() {
    let pods = pods();
    let care = |subsets: &[EndpointSubset]| care_for_endpoints(subsets, &facts(&pods, false));
    assert_eq!(care(&[subset(&["a"], &["u"])]), None);
    assert_eq!(care(&[]), None);
    assert_eq!(care(&[subset(&["b", "u", "f", "gone"], &["a"])]), Some(vec![subset(&["a", "b"], &["u"])]));
    assert_eq!(care(&[subset(&["gone"], &["f"])]), Some(Vec::new()));
    // Nobody can judge an address without a pod.
    let mut manual = subset(&["a"], &[]);
    manual.addresses.push(EndpointAddress { ip: "10.7.7.7".into(), ..EndpointAddress::default() });
    assert_eq!(care(&[manual]), None);
}

/// Pods of the host network share their node's address.
#[test]
fn the_uid_of_the_target_decides() {
    let mut pods = pods();
    let shared = pods["a"].pod_ip;
    let mut neighbour = pod("b");
    (neighbour.pod_ip, neighbour.pod_ips) = (shared, shared.into_iter().collect());
    neighbour.host_network = true;
    pods.insert("b", Arc::new(neighbour));
    pods.remove("a");
    assert_eq!(cared(&of_pods(&["a", "u"]), &pods), ["web-1: -u", "endpoints"]);
}

use std::collections::BTreeMap;

use kube_endpoint_core_model::well_known::{LABEL_MANAGED_BY, SELECTOR_CONTROLLER};
use kube_endpoint_core_model::{ObjectKey, ObjectReference, OwnerReference, Timestamp};

use super::*;

/// Pods of the tests. `a` and `b` are ready, `u` is not, `t` is being deleted, `f` has ended.
fn pods() -> BTreeMap<&'static str, Arc<Pod>> {
    ["a", "b", "u", "t", "f"].into_iter().map(|name| (name, Arc::new(pod(name)))).collect()
}

fn pod(name: &str) -> Pod {
    let ready = kube_endpoint_core_model::pod::ReadyCondition { is_true: name != "u", last_transition: None };
    let address = address(name).parse().unwrap();
    Pod {
        key: ObjectKey::new("shop", name),
        uid: format!("uid-{name}").into(),
        ready: Some(ready),
        deletion_timestamp: (name == "t").then(Timestamp::default),
        phase: if name == "f" {
            kube_endpoint_core_model::pod::PodPhase::Failed
        } else {
            kube_endpoint_core_model::pod::PodPhase::Running
        },
        pod_ip: Some(address),
        pod_ips: [address].into(),
        ..Pod::default()
    }
}

fn address(name: &str) -> String {
    format!("10.0.0.{}", name.as_bytes()[0])
}

fn service() -> Service {
    Service { key: ObjectKey::new("shop", "web"), uid: "uid-web".into(), ..Service::default() }
}

/// Returns a slice of a manager. An endpoint that is not ready has a minus before the name of its
/// pod.
fn slice(manager: &str, name: &str, endpoints: &[&str]) -> Arc<EndpointSlice> {
    let mut slice = EndpointSlice::default();
    slice.metadata.name = name.into();
    slice.metadata.namespace = "shop".into();
    slice.metadata.labels = [(LABEL_MANAGED_BY, manager)].into_iter().collect();
    slice.metadata.owner_references = vec![OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: "web".into(),
        uid: "uid-web".into(),
        ..OwnerReference::default()
    }];
    for endpoint in endpoints {
        let name = endpoint.trim_start_matches('-');
        let target = ObjectReference {
            kind: "Pod".into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
            ..ObjectReference::default()
        };
        let mut one = Endpoint { addresses: vec![address(name).into()], ..Endpoint::default() };
        one.conditions.ready = Some(!endpoint.starts_with('-'));
        one.target_ref = Some(target);
        slice.endpoints.push(one);
    }
    Arc::new(slice)
}

fn own(endpoints: &[&str]) -> Arc<EndpointSlice> {
    slice(SELECTOR_CONTROLLER, "web-own", endpoints)
}

fn theirs(name: &str, endpoints: &[&str]) -> Arc<EndpointSlice> {
    slice(ENDPOINTSLICE_CONTROLLER, name, endpoints)
}

fn mirrored(endpoints: &[&str]) -> Arc<EndpointSlice> {
    slice(MIRRORING_CONTROLLER, "web-mirrored", endpoints)
}

fn sorted(slices: &[Arc<EndpointSlice>]) -> Slices {
    Slices::of(&service(), slices, SELECTOR_CONTROLLER)
}

/// Checks the names of the slices that a take-over deletes, then `endpoints` or `held`.
fn check_take_over(slices: &[Arc<EndpointSlice>], want: &str) {
    let pods = pods();
    let lookup = |name: &str| pods.get(name).cloned();
    let TakeOver { delete, endpoints, held } = take_over(&sorted(slices), &lookup, false);
    let mut got: Vec<&str> = delete.iter().map(|slice| &*slice.metadata.name).collect();
    got.extend(endpoints.then_some("endpoints"));
    got.extend(held.then_some("held"));
    assert_eq!(got.join(" "), want);
}

#[test]
fn slices_of_others_go_when_an_own_endpoint_is_ready() {
    check_take_over(&[own(&["a"])], "");
    check_take_over(&[own(&["a"]), theirs("web-1", &["b"]), theirs("web-2", &[])], "web-1 web-2 endpoints");
    check_take_over(&[own(&["a"]), mirrored(&["a"])], "endpoints");
    check_take_over(&[own(&["-u", "b"]), theirs("web-1", &["a"])], "web-1 endpoints");
}

#[test]
fn a_take_over_may_begin_when_the_own_slices_have_what_the_others_have() {
    let check = |slices: &[Arc<EndpointSlice>], selected: &[&str], want: bool| {
        let pods = pods();
        let selected: Vec<Arc<Pod>> = selected.iter().map(|name| Arc::clone(&pods[name])).collect();
        assert_eq!(is_published(&sorted(slices), &selected, false), want, "{slices:?}");
    };
    check(&[own(&["a", "b"]), theirs("web-1", &["a", "b"])], &["a", "b"], true);
    check(&[own(&["a"]), theirs("web-1", &["a"]), theirs("web-2", &["b"])], &["a", "b"], false);
    check(&[own(&["a"]), mirrored(&["a", "b"])], &["a", "b"], false);
    check(&[own(&["a", "-b"]), theirs("web-1", &["b"])], &["a", "b"], false);
    // The EndpointSelector does not select it, or it is not ready.
    check(&[own(&["a"]), theirs("web-1", &["a", "b"])], &["a"], true);
    check(&[own(&["a"]), theirs("web-1", &["a", "-b", "u", "t", "gone"])], &["a", "b", "t", "u"], true);
    // Without a ready endpoint nothing begins.
    check(&[own(&["-u"]), theirs("web-1", &["u"])], &["u"], false);
    check(&[theirs("web-1", &[])], &[], false);
}

#[test]
fn without_a_ready_own_endpoint_only_dead_slices_go() {
    check_take_over(&[own(&[]), theirs("web-1", &["a"])], "held");
    check_take_over(
        &[own(&["-u"]), theirs("web-1", &["a"]), theirs("web-2", &["u", "t", "f", "gone"])],
        "web-2 held",
    );
    check_take_over(&[theirs("web-1", &["-a"])], "held");
    check_take_over(&[theirs("web-1", &["u"]), theirs("web-2", &[])], "web-1 web-2");
    check_take_over(&[mirrored(&["u"])], "held");
}

/// The Service publishes pods that are not ready, so its slices call them ready.
#[test]
fn a_pod_that_is_published_unready_counts_as_long_as_it_runs() {
    let pods = pods();
    let lookup = |name: &str| pods.get(name).cloned();
    let held = |endpoints: &[&str]| take_over(&sorted(&[theirs("web-1", endpoints)]), &lookup, true).held;
    assert!(held(&["u"]) && held(&["t"]));
    assert!(!held(&["f", "gone"]));
    let selected = ["f", "t", "u"].map(|name| Arc::clone(&pods[name]));
    let covers = |endpoints: &[&str]| {
        let slices = sorted(&[own(&["f", "t", "u", "gone"]), theirs("web-1", endpoints)]);
        can_hand_back(&slices, &selected, true)
    };
    assert!(!covers(&[]) && !covers(&["u"]) && covers(&["t", "u"]));
    let published = |own_endpoints: &[&str]| {
        is_published(&sorted(&[own(own_endpoints), theirs("web-1", &["u"])]), &selected, true)
    };
    assert!(!published(&["t"]) && published(&["u"]));
}

#[test]
fn slices_of_another_owner_are_nobodys() {
    let mut other = theirs("web-1", &["a"]);
    Arc::make_mut(&mut other).metadata.owner_references[0].uid = "uid-before".into();
    check_take_over(&[own(&["a"]), other], "");
    let mut deleted = theirs("web-1", &["a"]);
    Arc::make_mut(&mut deleted).metadata.deletion_timestamp = Some(Timestamp::default());
    check_take_over(&[own(&["a"]), deleted], "");
    check_take_over(&[own(&["a"]), slice("me.example.com", "web-1", &["a"])], "");
}

#[test]
fn own_slices_go_when_the_others_have_their_ready_endpoints() {
    let check = |own_endpoints: &[&str], theirs_endpoints: &[&str], selected: &[&str], want: bool| {
        let slices = sorted(&[own(own_endpoints), theirs("web-1", theirs_endpoints)]);
        let pods = pods();
        let selected: Vec<Arc<Pod>> = selected.iter().map(|name| Arc::clone(&pods[name])).collect();
        let got = can_hand_back(&slices, &selected, false);
        assert_eq!(got, want, "{own_endpoints:?} {theirs_endpoints:?} {selected:?}");
    };
    check(&["a", "b"], &[], &["a", "b"], false);
    check(&["a", "b"], &["a"], &["a", "b"], false);
    check(&["a", "b"], &["a", "-b"], &["a", "b"], false);
    check(&["a", "b"], &["a", "b"], &["a", "b"], true);
    // The Service does not select the pod, so no slice of the others will have it.
    check(&["a", "b"], &["a"], &["a"], true);
    // The pods are not ready any more, although the own slice says so.
    check(&["u", "t", "f", "gone"], &[], &["f", "t", "u"], true);
    check(&["-a"], &[], &["a"], true);
    check(&[], &[], &[], true);
    // The Service selects none of the pods, but another one that is ready.
    check(&["a"], &[], &["b"], false);
    check(&["a"], &["b"], &["b"], true);
    check(&["a"], &[], &["f", "t", "u"], true);
}

/// The endpointslice controller will make no slices of a family that the Service has lost.
#[test]
fn slices_of_a_lost_family_are_not_waited_for() {
    let mut six = own(&["a"]);
    Arc::make_mut(&mut six).address_type = AddressType::IPv6;
    let four = Service { ip_families: vec![IpFamily::IPv4], ..service() };
    let slices = Slices::of(&four, &[six, own(&["a"]), theirs("web-1", &["a"])], SELECTOR_CONTROLLER);
    assert!(can_hand_back(&slices, &[Arc::new(pod("a"))], false));
}

#[test]
fn the_address_counts_and_its_family() {
    let mut six = own(&["a"]);
    Arc::make_mut(&mut six).address_type = AddressType::IPv6;
    let both = Service { ip_families: vec![IpFamily::IPv4, IpFamily::IPv6], ..service() };
    let slices = Slices::of(&both, &[six, theirs("web-1", &["a"])], SELECTOR_CONTROLLER);
    assert!(!can_hand_back(&slices, &[Arc::new(pod("a"))], false));
}

#[test]
fn slices_without_a_selector_only_lose_endpoints() {
    let pods = pods();
    let lookup = |name: &str| pods.get(name).cloned();
    let check = |endpoints: &[&str], publish_not_ready: bool, want: Option<&str>| {
        let updates = shrunk(&[own(endpoints)], &lookup, publish_not_ready);
        let names = |slice: &EndpointSlice| {
            let names = slice.endpoints.iter().filter_map(|it| it.target_ref.as_ref());
            names.map(|target| target.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(updates.first().map(names).as_deref(), want, "{endpoints:?}");
    };
    check(&["a", "b"], false, None);
    check(&[], false, None);
    check(&["a", "u", "b"], false, Some("a b"));
    check(&["a", "t", "f", "gone"], false, Some("a"));
    check(&["-u"], false, Some(""));
    check(&["a", "-u", "t"], true, None);
    check(&["a", "-u", "gone", "f"], true, Some("a u"));
}

#[test]
fn a_pod_of_the_same_name_is_another_pod() {
    let mut again = pod("a");
    again.uid = "uid-again".into();
    let again = Arc::new(again);
    assert_eq!(shrunk(&[own(&["a"])], &|_: &str| Some(Arc::clone(&again)), false)[0].endpoints, []);
    let mut moved = pod("a");
    moved.pod_ip = Some("10.9.9.9".parse().unwrap());
    moved.pod_ips = [].into();
    let moved = Arc::new(moved);
    assert_eq!(shrunk(&[own(&["a"])], &|_: &str| Some(Arc::clone(&moved)), false)[0].endpoints, []);
}

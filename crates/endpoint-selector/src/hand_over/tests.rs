use kube_endpoint_core_model::Timestamp;
use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;

use super::*;
use crate::fixtures::{mirrored, own, pod, pods, service, slice, theirs};

fn sorted(slices: &[Arc<EndpointSlice>]) -> Slices {
    Slices::of(&service(), slices, SELECTOR_CONTROLLER)
}

#[test]
fn slices_of_others_go_when_an_own_endpoint_is_ready() {
    let check = |slices: &[Arc<EndpointSlice>], want: TakeOver| {
        assert_eq!(take_over(&sorted(slices)), want, "{slices:?}");
    };
    check(&[own(&["a"])], TakeOver::Complete);
    check(&[own(&["a"]), theirs("web-1", &["b"]), theirs("web-2", &[])], TakeOver::Deletes);
    check(&[own(&["a"]), mirrored(&["a"])], TakeOver::Deletes);
    check(&[own(&["-u", "b"]), theirs("web-1", &["a"])], TakeOver::Deletes);
    check(&[own(&[]), theirs("web-1", &["a"])], TakeOver::Held);
    check(&[own(&["-u"]), theirs("web-1", &["u", "t", "f", "gone"])], TakeOver::Held);
    check(&[mirrored(&["u"])], TakeOver::Held);
    let mut other = theirs("web-1", &["a"]);
    Arc::make_mut(&mut other).metadata.owner_references[0].uid = "uid-before".into();
    check(&[own(&["a"]), Arc::clone(&other)], TakeOver::Deletes);
    let mut selecting = service();
    selecting.selector = Some([("app", "web")].into_iter().collect());
    let sorted = Slices::of(&selecting, &[other], SELECTOR_CONTROLLER);
    assert_eq!(take_over(&sorted), TakeOver::Complete, "the endpointslice controller deletes it");
    let mut deleted = theirs("web-1", &["a"]);
    Arc::make_mut(&mut deleted).metadata.deletion_timestamp = Some(Timestamp::default());
    check(&[own(&["a"]), deleted], TakeOver::Complete);
    check(&[own(&["a"]), slice("me.example.com", "web-1", &["a"])], TakeOver::Complete);
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

/// The Service publishes pods that are not ready, so its slices call them ready.
#[test]
fn a_pod_that_is_published_unready_counts_as_long_as_it_runs() {
    let pods = pods();
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
    // The next write takes out a pod that is not selected, and nothing would be left.
    assert!(!is_published(&sorted(&[own(&["a"]), theirs("web-1", &["b"])]), &selected, true));
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

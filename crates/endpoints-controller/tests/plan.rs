//! Snapshots of plans, and rules that the recordings of upstream do not cover.

use std::sync::Arc;

use crate::common::{apply, arcs, headless, pod, run, service, terminating, unready, with_ports};
use insta::assert_snapshot;
use kube_endpoint_core_model::pod::{PodPhase, RareFields};
use kube_endpoint_core_model::well_known::{
    ANNOTATION_OVER_CAPACITY, ANNOTATION_TRIGGER_TIME, LABEL_ENDPOINTS_MANAGED_BY, LABEL_HEADLESS, TRUNCATED,
};
use kube_endpoint_core_model::{Endpoints, IpFamily, OwnerReference, Pod, Service, Timestamp};
use kube_endpoint_endpoints_controller::plan::{PlanInputs, PlanOptions, plan};

fn rendered(service: &Service, pods: impl IntoIterator<Item = Pod>) -> String {
    run(service, &arcs(pods), None, &PlanOptions::default()).to_string()
}

/// Returns the object after a first sync.
fn synced(service: &Service, pods: &[Arc<Pod>], options: &PlanOptions) -> Endpoints {
    apply(None, &run(service, pods, None, options)).unwrap()
}

#[test]
fn each_reason_to_leave_a_pod_out() {
    let pods = [
        Pod { phase: PodPhase::Succeeded, ..pod("done", &["10.0.0.1"]) },
        pod("new", &[]),
        terminating(pod("leaving", &["10.0.0.3"])),
        pod("other-family", &["fd00::1"]),
        Pod {
            rare: RareFields { invalid_pod_ip: Some("10.0.0".into()), ..RareFields::default() }.boxed(),
            ..pod("odd", &["fd00::1"])
        },
        pod("portless", &["10.0.0.5"]),
    ];
    assert_snapshot!(rendered(&service(&[("", "http")]), pods));
}

#[test]
fn unready_and_terminating_pods_are_published_on_request() {
    let web = Service { publish_not_ready_addresses: true, ..service(&[("http", "8080")]) };
    let pods = [unready(pod("a", &["10.0.0.1"])), terminating(unready(pod("b", &["10.0.0.2"])))];
    assert_snapshot!(rendered(&web, pods));
}

#[test]
fn a_pod_is_published_only_under_the_ports_that_it_has() {
    let web = service(&[("http", "web"), ("admin", "admin"), ("fixed", "9000")]);
    let pods = [
        with_ports(pod("both", &["10.0.0.1"]), &[("web", 8080), ("admin", 9)]),
        with_ports(pod("one", &["10.0.0.2"]), &[("web", 8080)]),
        with_ports(pod("moved", &["10.0.0.3"]), &[("web", 8081), ("admin", 9)]),
    ];
    assert_snapshot!(rendered(&web, pods));
}

#[test]
fn a_headless_service_needs_no_ports_and_publishes_hostnames() {
    let named = |name: &str, ip: &str, subdomain: &str| Pod {
        hostname: Some(name.into()),
        subdomain: Some(subdomain.into()),
        ..pod(name, &[ip])
    };
    let pods = [named("db-0", "10.0.0.1", "web"), named("db-1", "10.0.0.2", "other")];
    assert_snapshot!(rendered(&headless(service(&[])), pods));
}

#[test]
fn a_service_without_ports_that_is_not_headless_publishes_nothing() {
    assert_snapshot!(rendered(&service(&[]), [pod("a", &["10.0.0.1"])]));
}

#[test]
fn only_addresses_of_the_first_family_are_published() {
    let dual = Service { ip_families: vec![IpFamily::IPv6, IpFamily::IPv4], ..service(&[("http", "80")]) };
    let pods = [pod("two", &["10.0.0.1", "fd00::1", "fd00::2"]), pod("four", &["10.0.0.2"])];
    assert_snapshot!(rendered(&dual, pods));
}

#[test]
fn pods_with_the_same_address_are_all_published() {
    let web = service(&[("http", "80")]);
    let pods = [pod("b", &["10.0.0.1"]), pod("a", &["10.0.0.1"]), unready(pod("c", &["10.0.0.1"]))];
    assert_snapshot!(rendered(&web, pods));
}

#[test]
fn a_pod_without_a_node_has_no_node_name() {
    let adrift = Pod { node_name: None, ..pod("a", &["10.0.0.1"]) };
    assert_snapshot!(rendered(&service(&[("http", "80")]), [adrift]));
}

#[test]
fn metadata_of_other_writers_are_kept() {
    let web = service(&[("http", "80")]);
    let options = PlanOptions::default();
    let mut existing = synced(&web, &arcs([pod("a", &["10.0.0.1"])]), &options);
    existing.metadata.annotations =
        [(ANNOTATION_TRIGGER_TIME, "old"), ("note", "kept")].into_iter().collect();
    existing.metadata.finalizers = vec!["example.com/hold".into()];
    existing.metadata.owner_references = vec![OwnerReference { name: "owner".into(), ..Default::default() }];
    let pods = arcs([pod("a", &["10.0.0.1"]), pod("b", &["10.0.0.2"])]);
    let trigger_time: Timestamp = "2024-01-01T00:00:00.25Z".parse().unwrap();
    let inputs = PlanInputs::new(&web, &pods).with_existing(&existing).with_trigger_time(trigger_time);
    let planned = plan(&inputs);
    assert_snapshot!(planned);
    let updated = &planned.writes.update[0];
    assert_eq!(updated.metadata.finalizers, existing.metadata.finalizers);
    assert_eq!(updated.metadata.owner_references, existing.metadata.owner_references);
    assert_eq!(updated.metadata.uid, existing.metadata.uid);
    let again = run(&web, &pods, Some(&existing), &options);
    assert!(
        !again.writes.update[0].metadata.annotations.contains_key(ANNOTATION_TRIGGER_TIME),
        "no new time clears the old"
    );
}

#[test]
fn too_many_addresses() {
    let web = service(&[("http", "80")]);
    let options = PlanOptions::default().with_capacity(3);
    let pods = arcs([
        pod("a", &["10.0.0.1"]),
        unready(pod("b", &["10.0.0.2"])),
        pod("c", &["10.0.0.3"]),
        unready(pod("d", &["10.0.0.4"])),
    ]);
    assert_snapshot!(run(&web, &pods, None, &options));
}

/// Each subset gets its share, rounded up; the last one in upstream's order gets the rest.
#[test]
fn too_many_addresses_in_several_subsets() {
    let web = service(&[("http", "web")]);
    let options = PlanOptions::default().with_capacity(4);
    let serving = |name: &str, ip: &str, port: i32| with_ports(pod(name, &[ip]), &[("web", port)]);
    let pods = arcs([
        serving("a1", "10.0.0.1", 8080),
        serving("a2", "10.0.0.2", 8080),
        serving("b1", "10.0.0.3", 8081),
        serving("b2", "10.0.0.4", 8081),
        serving("c1", "10.0.0.5", 8082),
        serving("c2", "10.0.0.6", 8082),
        unready(serving("c3", "10.0.0.7", 8082)),
    ]);
    assert_snapshot!(run(&web, &pods, None, &options));
    let there = synced(&web, &pods, &options);
    assert!(run(&web, &pods, Some(&there), &options).is_empty());
}

#[test]
fn below_the_capacity_the_annotation_is_removed() {
    let web = service(&[("http", "80")]);
    let options = PlanOptions::default().with_capacity(2);
    let all = arcs([pod("a", &["10.0.0.1"]), pod("b", &["10.0.0.2"]), pod("c", &["10.0.0.3"])]);
    for options in [options.clone(), options.with_keep_equal_truncated(false)] {
        let there = synced(&web, &all, &options);
        assert_snapshot!(
            "below_the_capacity_the_annotation_is_removed",
            run(&web, &all[..2], Some(&there), &options)
        );
    }
}

#[test]
fn services_without_selector_get_no_endpoints() {
    let check = |web: Service| {
        let plan = run(&web, &arcs([pod("a", &["10.0.0.1"])]), None, &PlanOptions::default());
        assert_eq!((plan.is_empty(), plan.verdicts), (true, vec![]));
    };
    check(Service { selector: None, ..service(&[("http", "80")]) });
    let kind = kube_endpoint_core_model::service::ServiceType::ExternalName;
    check(Service { service_type: kind, ..service(&[("http", "80")]) });
}

#[test]
fn a_headless_label_that_is_left_of_a_service_of_the_same_name_is_removed_unless_as_upstream() {
    let (web, pods) = (service(&[("http", "80")]), arcs([pod("a", &["10.0.0.1"])]));
    for (options, writes) in [(PlanOptions::default(), true), (PlanOptions::upstream(), false)] {
        let mut existing = synced(&web, &pods, &options);
        existing.metadata.labels = existing.metadata.labels.with(LABEL_HEADLESS, "");
        let plan = run(&web, &pods, Some(&existing), &options);
        assert_eq!(!plan.is_empty(), writes, "{options:?}");
        let labels = plan.writes.update.iter().map(|it| it.metadata.labels.get(LABEL_HEADLESS));
        assert!(labels.flatten().next().is_none(), "{plan}");
    }
}

#[test]
fn what_counts_as_a_change() {
    let web = service(&[("http", "80"), ("https", "443"), ("named", "web")]);
    for web in [headless(web.clone()), web] {
        check_what_counts_as_a_change_of(&web);
    }
}

/// Each case changes the existing object, and says if the controller then writes.
fn check_what_counts_as_a_change_of(web: &Service) {
    let pods = arcs([
        with_ports(pod("a", &["10.0.0.1"]), &[("web", 1)]),
        pod("b", &["10.0.0.2"]),
        unready(pod("c", &["10.0.0.3"])),
    ]);
    let there = synced(web, &pods, &PlanOptions::default());
    let check = |what: &str, change: fn(&mut Endpoints), writes: bool| {
        for options in [PlanOptions::default(), PlanOptions::upstream()] {
            let mut existing = there.clone();
            change(&mut existing);
            let plan = run(web, &pods, Some(&existing), &options);
            assert_eq!(!plan.is_empty(), writes, "{what} {options:?}");
        }
    };
    check("nothing", |_| {}, false);
    check("order of subsets", |it| it.subsets.listed_mut().unwrap().reverse(), false);
    let reversed = |it: &mut Endpoints| {
        it.subsets[0].addresses = it.subsets[0].addresses.iter().rev().cloned().collect();
    };
    check("order of addresses", reversed, false);
    let ports_reversed = |it: &mut Endpoints| {
        let of_two_ports = it.subsets.listed_mut().unwrap().iter_mut().find(|it| it.ports.len() == 2);
        of_two_ports.unwrap().ports.reverse();
    };
    check("order of ports", ports_reversed, false);
    check(
        "version of a target",
        |it| it.subsets[0].addresses[0].target_ref.as_mut().unwrap().resource_version = "7".into(),
        false,
    );
    check(
        "one subset cut in two",
        |it| {
            let mut half = it.subsets[0].clone();
            half.not_ready_addresses.clear();
            it.subsets[0].addresses.clear();
            it.subsets.listed_mut().unwrap().push(half);
        },
        false,
    );
    check("an annotation", |it| it.metadata.annotations = it.metadata.annotations.with("a", "b"), false);
    check(
        "the trigger time",
        |it| it.metadata.annotations = it.metadata.annotations.with(ANNOTATION_TRIGGER_TIME, "x"),
        false,
    );
    check("an address less", |it| drop(it.subsets[0].addresses.pop()), true);
    check("a node", |it| it.subsets[0].addresses[0].node_name = Some("x".into()), true);
    check("a hostname", |it| it.subsets[0].addresses[0].hostname = "x".into(), true);
    check("a port", |it| it.subsets[0].ports[0].port += 1, true);
    check("a foreign label", |it| it.metadata.labels = it.metadata.labels.with("a", "b"), true);
    check("a label less", |it| it.metadata.labels = it.metadata.labels.without("team"), true);
    check(
        "managed by another",
        |it| it.metadata.labels = it.metadata.labels.with(LABEL_ENDPOINTS_MANAGED_BY, "x"),
        true,
    );
    check(
        "an over-capacity annotation without reason",
        |it| it.metadata.annotations = it.metadata.annotations.with(ANNOTATION_OVER_CAPACITY, TRUNCATED),
        true,
    );
}

#[test]
fn a_truncated_object_is_written_once() {
    let web = service(&[("http", "80"), ("named", "web")]);
    let number = |n: usize| {
        let ip = format!("10.0.{}.{}", n / 250, n % 250);
        let pod = pod(&format!("p{n:04}"), &[&ip]);
        if n.is_multiple_of(3) { with_ports(pod, &[("web", 1)]) } else { pod }
    };
    let pods = arcs((0..1200).map(number));
    let check = |options: PlanOptions, writes: bool| {
        let there = synced(&web, &pods, &options);
        assert_eq!(there.metadata.annotations.get(ANNOTATION_OVER_CAPACITY).map(|v| &**v), Some(TRUNCATED));
        let held: usize = there.subsets.counts().0;
        assert_eq!(held, 1000);
        let again = run(&web, &pods, Some(&there), &options);
        assert_eq!(!again.is_empty(), writes);
        let unannotated = Endpoints { metadata: Default::default(), ..there.clone() }.metadata.annotations;
        let mut there = there;
        there.metadata.annotations = unannotated;
        assert!(!run(&web, &pods, Some(&there), &options).is_empty());
    };
    check(PlanOptions::default(), false);
    check(PlanOptions::upstream(), true);
}

#[test]
fn above_1000_addresses_the_ready_ones_come_first() {
    let web = service(&[("http", "80")]);
    let number = |n: usize| {
        let pod = pod(&format!("p{n:04}"), &[&format!("10.0.{}.{}", n / 250, n % 250)]);
        if n < 200 { unready(pod) } else { pod }
    };
    for (count, annotation, not_ready) in [(1000, None, 200), (1001, Some(TRUNCATED), 199)] {
        let made = synced(&web, &arcs((0..count).map(number)), &PlanOptions::default());
        assert_eq!(made.subsets.counts(), (count - 200, not_ready), "{count} addresses");
        assert_eq!(made.metadata.annotations.get(ANNOTATION_OVER_CAPACITY).map(|it| &**it), annotation);
    }
}

#[test]
fn a_reserved_label_of_the_service_is_no_reason_to_write() {
    for (label, value) in [(LABEL_HEADLESS, "x"), (LABEL_ENDPOINTS_MANAGED_BY, "somebody")] {
        let mut web = service(&[("http", "80")]);
        web.labels = web.labels.with(label, value);
        let pods = arcs([pod("a", &["10.0.0.1"])]);
        let there = synced(&web, &pods, &PlanOptions::default());
        let writes = |options| !run(&web, &pods, Some(&there), &options).is_empty();
        assert!(!writes(PlanOptions::default()), "{label}");
        assert!(writes(PlanOptions::upstream()), "{label}");
    }
}

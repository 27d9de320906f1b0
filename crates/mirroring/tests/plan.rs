//! Snapshots of plans, and rules that the recordings of upstream do not cover.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking, as a test does")]

use std::sync::Arc;

use crate::common::apply;
use insta::assert_snapshot;
use kube_endpoint_core_model::endpoints::Subsets;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_LAST_APPLIED, ANNOTATION_LEADER, ANNOTATION_TRIGGER_TIME,
    ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY, LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SKIP_MIRROR,
};
use kube_endpoint_core_model::{
    AddressType, EndpointSlice, Endpoints, ObjectKey, OwnerReference, ResourceVersion, Service, StringMap,
    Timestamp,
};
use kube_endpoint_mirroring::plan::{
    NotMirrored, Plan, PlanInputs, PlanOptions, PlanStats, lacks_content, mirrorable, plan,
};
use serde_json::{Value, json};

fn endpoints(subsets: Value) -> Endpoints {
    let mut endpoints: Endpoints = serde_json::from_value(json!({
        "metadata": {"name": "db", "namespace": "n", "uid": "endpoints-uid", "resourceVersion": "7"},
        "subsets": subsets,
    }))
    .unwrap();
    endpoints.metadata.labels = [("team", "shop")].into_iter().collect();
    endpoints
}

fn one_address() -> Endpoints {
    endpoints(json!([{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 5432, "protocol": "TCP"}]}]))
}

fn pairs(pairs: &[(&str, &str)]) -> StringMap {
    pairs.iter().copied().collect()
}

fn with(endpoints: Option<&Endpoints>, existing: &[Arc<EndpointSlice>], max: usize) -> Plan {
    let service = Service { key: ObjectKey::new("n", "db"), ..Service::default() };
    let options = PlanOptions::default().with_max_endpoints_per_subset(max);
    plan(&PlanInputs::new(&service, endpoints).with_existing_slices(existing).with_options(&options))
}

fn run(endpoints: &Endpoints, existing: &[Arc<EndpointSlice>]) -> Plan {
    with(Some(endpoints), existing, 1000)
}

fn synced(endpoints: &Endpoints) -> Vec<Arc<EndpointSlice>> {
    apply(vec![], &run(endpoints, &[]))
}

#[test]
fn a_subset_becomes_a_slice_for_each_family() {
    let mut given = endpoints(json!([{
        "addresses": [
            {"ip": "192.0.2.2", "nodeName": "node-a", "targetRef": {"kind": "Pod", "name": "db-1", "namespace": "n"}},
            {"ip": "2001:db8::1", "hostname": "primary"}],
        "notReadyAddresses": [{"ip": "192.0.2.1"}],
        "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}, {"name": "web", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}],
    }]));
    given.metadata.annotations = pairs(&[
        ("note", "kept"),
        (ANNOTATION_TRIGGER_TIME, "2024-01-01T00:00:00Z"),
        (ANNOTATION_LAST_APPLIED, "{}"),
    ]);
    assert_snapshot!(run(&given, &[]));
}

#[test]
fn subsets_are_converted_to_canonical_form_first() {
    let given = endpoints(json!([
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "a", "port": 1, "protocol": "TCP"}]},
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "b", "port": 2, "protocol": "TCP"}]},
        {"notReadyAddresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.02.2"}, {"ip": "192.0.2.2"}]},
    ]));
    assert_snapshot!(run(&given, &[]));
}

#[test]
fn invalid_addresses_are_skipped_with_an_event() {
    let given = endpoints(json!([
        {"addresses": [{"ip": "db.example.com"}, {"ip": "192.0.2.1"}], "notReadyAddresses": [{"ip": "192.0.2"}]},
    ]));
    assert_snapshot!(run(&given, &[]));
}

#[test]
fn too_many_addresses_are_skipped_with_an_event() {
    let given = endpoints(json!([
        {"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}, {"ip": "192.0.2.3"}], "notReadyAddresses": [{"ip": "192.0.2.0"}]},
    ]));
    let plan = with(Some(&given), &[], 2);
    assert_snapshot!(plan);
    assert_eq!(plan.stats.skipped, 2);
}

#[test]
fn equal_ports_with_an_application_protocol_share_a_slice_up_to_the_maximum() {
    let port = json!([{"name": "dns", "port": 53, "protocol": "UDP", "appProtocol": "dns"}]);
    let given = endpoints(json!([
        {"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}], "ports": port},
        {"addresses": [{"ip": "192.0.2.3"}], "notReadyAddresses": [{"ip": "192.0.2.1"}], "ports": port},
    ]));
    assert_snapshot!(with(Some(&given), &[], 2));
}

#[test]
fn changed_ports_reuse_a_slice_and_keep_its_identity() {
    let before = synced(&one_address());
    let mut given = one_address();
    given.subsets[0].ports[0].port = 5433;
    let plan = run(&given, &before);
    assert_snapshot!(plan);
    assert_eq!(plan.writes.update[0].metadata.resource_version, ResourceVersion(1));
    assert_eq!(plan.writes.update[0].metadata.generate_name, before[0].metadata.generate_name);
}

#[test]
fn a_slice_is_not_reused_for_the_other_family() {
    let before = synced(&one_address());
    let mut given = one_address();
    given.subsets[0].addresses[0].ip = "2001:db8::1".into();
    assert_snapshot!(run(&given, &before));
}

#[test]
fn reuse_for_one_family_drops_nothing_of_the_other() {
    let both = |port: u16| json!([{"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "ports": [{"port": port, "protocol": "TCP"}]}]);
    let only_six: Vec<_> = synced(&endpoints(both(1)))
        .into_iter()
        .filter(|slice| slice.address_type == AddressType::IPv6)
        .collect();
    assert_snapshot!(run(&endpoints(both(2)), &only_six));
}

#[test]
fn of_several_slices_the_one_with_the_fewest_changes_is_kept() {
    let good = synced(&one_address()).remove(0);
    let renamed = |name: &str, change: fn(&mut EndpointSlice)| {
        let mut slice = EndpointSlice::clone(&good);
        slice.metadata.name = name.into();
        change(&mut slice);
        Arc::new(slice)
    };
    let existing = [
        renamed("db-a", |slice| slice.endpoints.clear()),
        renamed("db-b", |_| {}),
        renamed("db-c", |slice| slice.metadata.labels = slice.metadata.labels.with("x", "y")),
    ];
    assert_snapshot!(run(&one_address(), &existing));
}

#[test]
fn of_a_summary_of_addresses_nothing_is_planned() {
    let given = one_address();
    let there = synced(&given);
    let mut summarized = given.clone();
    summarized.subsets = Subsets::Summarized(given.subsets.summary());
    assert_eq!(run(&summarized, &there), Plan::default());
    let service = Service { key: ObjectKey::new("n", "db"), ..Service::default() };
    assert!(lacks_content(&PlanInputs::new(&service, &summarized)));
    assert!(!lacks_content(&PlanInputs::new(&service, &given)));
    // The addresses have no influence on mirroring as such.
    summarized.metadata.labels = pairs(&[(LABEL_SKIP_MIRROR, "true")]);
    assert!(!lacks_content(&PlanInputs::new(&service, &summarized)));
    assert_eq!(run(&summarized, &there).writes.delete, there);
}

#[test]
fn endpoints_without_addresses_have_no_slices() {
    let mut given = one_address();
    let before = synced(&given);
    given.subsets = Vec::new().into();
    assert_snapshot!(run(&given, &before));
}

#[test]
fn the_later_of_two_spellings_of_an_address_that_is_not_ready_counts() {
    let spelled = |ip: &str| json!({"ip": ip, "nodeName": ip});
    let check = |ready: &[&str], not_ready: &[&str], want: (&str, bool)| {
        let of = |ips: &[&str]| ips.iter().map(|ip| spelled(ip)).collect::<Vec<_>>();
        let slices = synced(&endpoints(json!([
            {"addresses": of(ready), "notReadyAddresses": of(not_ready)}
        ])));
        let [slice] = &slices[..] else { panic!("{slices:#?}") };
        let [endpoint] = &slice.endpoints[..] else { panic!("{slice:#?}") };
        assert_eq!((endpoint.node_name.as_deref(), endpoint.conditions.ready), (Some(want.0), Some(want.1)));
    };
    check(&["2001:db8::1", "2001:DB8::1"], &[], ("2001:db8::1", true));
    check(&[], &["2001:db8::1", "2001:DB8::1"], ("2001:db8::1", false));
    check(&["2001:db8::1"], &["2001:DB8::1"], ("2001:DB8::1", false));
}

#[test]
fn endpoints_being_deleted_get_no_new_slices() {
    let before = synced(&one_address());
    let mut given = one_address();
    given.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
    given.subsets[0].addresses[0].hostname = "h".into();
    assert!(run(&given, &[]).is_empty());
    assert_snapshot!(run(&given, &before));
}

#[test]
fn slices_are_deleted_if_nothing_is_mirrored() {
    let before = synced(&one_address());
    let plain = Service { key: ObjectKey::new("n", "db"), ..Service::default() };
    let selecting = Service { selector: Some(pairs(&[])), ..plain.clone() };
    let labelled = |value: &str| {
        let mut given = one_address();
        given.metadata.labels = given.metadata.labels.with(LABEL_SKIP_MIRROR, value);
        given
    };
    let mut lock = one_address();
    lock.metadata.annotations = pairs(&[(ANNOTATION_LEADER, "")]);
    let check = |service: Option<&Service>, endpoints: Option<&Endpoints>, want: Option<NotMirrored>| {
        let plan = plan(&PlanInputs::new(service, endpoints).with_existing_slices(&before));
        assert_eq!(plan.not_mirrored, want);
        if let Some(reason) = want {
            assert_eq!(plan.writes.delete, before, "{reason}");
            assert!(!plan.is_empty());
            assert!(plan.writes.create.is_empty() && plan.writes.update.is_empty() && plan.events.is_empty());
            assert_eq!(plan.stats, PlanStats::default());
        }
    };
    check(Some(&plain), Some(&one_address()), None);
    check(Some(&plain), None, Some(NotMirrored::NoEndpoints));
    check(None, None, Some(NotMirrored::NoEndpoints));
    check(None, Some(&one_address()), Some(NotMirrored::NoService));
    check(Some(&selecting), Some(&one_address()), Some(NotMirrored::Selector));
    check(Some(&plain), Some(&labelled("true")), Some(NotMirrored::SkipLabel));
    check(Some(&plain), Some(&labelled("false")), None);
    check(Some(&plain), Some(&labelled("True")), None);
    check(Some(&plain), Some(&lock), Some(NotMirrored::LeaderElection));
    assert_eq!(mirrorable(&lock), Err(NotMirrored::LeaderElection));
    assert_snapshot!(with(None, &before, 1000));
    let skipped = plan(&PlanInputs::new(&plain, &labelled("true")).with_existing_slices(&before));
    assert_snapshot!("every_address_of_endpoints_that_are_not_mirrored_has_a_verdict", skipped);
}

#[test]
fn what_a_service_with_an_endpoint_selector_was_left_is_not_mirrored_and_not_removed() {
    let before = synced(&one_address());
    let mut left = one_address();
    left.metadata.labels = pairs(&[(LABEL_ENDPOINTS_MANAGED_BY, ENDPOINT_CONTROLLER)]);
    let plain = Service { key: ObjectKey::new("n", "db"), ..Service::default() };
    let attached = Service { annotations: pairs(&[(ANNOTATION_ENDPOINT_SELECTOR, "db")]), ..plain.clone() };
    let beside = PlanOptions::default().with_endpoint_selectors(true);
    let check =
        |service: &Service, endpoints: &Endpoints, options: &PlanOptions, want: Option<NotMirrored>| {
            let inputs =
                PlanInputs::new(service, endpoints).with_existing_slices(&before).with_options(options);
            let plan = plan(&inputs);
            assert_eq!(plan.not_mirrored, want);
            if want.is_some() {
                assert!(plan.is_empty(), "{plan:?}");
            }
        };
    check(&attached, &left, &beside, Some(NotMirrored::EndpointSelector));
    check(&attached, &one_address(), &beside, None);
    check(&plain, &left, &beside, None);
    check(&attached, &left, &PlanOptions::default(), None);
}

/// Each case changes the existing slice, and says if the controller then writes.
#[test]
fn what_counts_as_a_change() {
    let mut given = endpoints(json!([{"addresses": [
        {"ip": "192.0.2.1", "targetRef": {"kind": "Pod", "name": "p"}}, {"ip": "192.0.2.2"}]}]));
    given.metadata.annotations = pairs(&[("note", "kept"), (ANNOTATION_TRIGGER_TIME, "x")]);
    given.metadata.labels = given.metadata.labels.with(LABEL_MANAGED_BY, "somebody");
    let before = synced(&given);
    let check = |what: &str, change: fn(&mut EndpointSlice), writes: bool| {
        let mut slice = EndpointSlice::clone(&before[0]);
        change(&mut slice);
        let plan = run(&given, &[Arc::new(slice)]);
        assert_eq!(plan.writes.update.len(), usize::from(writes), "{what}");
        assert!(plan.writes.create.is_empty() && plan.writes.delete.is_empty(), "{what}");
    };
    check("nothing", |_| {}, false);
    check("order", |it| it.endpoints.reverse(), false);
    check(
        "version of the target",
        |it| it.endpoints[0].target_ref.as_mut().unwrap().resource_version = "9".into(),
        false,
    );
    check("hints", |it| it.endpoints[0].hints = Some(Default::default()), false);
    check("no owner", |it| it.metadata.owner_references.clear(), true);
    check(
        "an owner of the same name and another kind as well",
        |it| {
            it.metadata.owner_references.push(OwnerReference::controller(
                "v1",
                "ConfigMap",
                &"db".into(),
                &"y".into(),
            ));
        },
        false,
    );
    check("a finalizer", |it| it.metadata.finalizers = vec!["x".into()], false);
    check(
        "an earlier owner of the same name as well",
        |it| {
            let earlier = OwnerReference { uid: "old".into(), ..it.metadata.owner_references[0].clone() };
            it.metadata.owner_references.push(earlier);
        },
        true,
    );
    check("an owner with another uid", |it| it.metadata.owner_references[0].uid = "old".into(), true);
    check("a zone", |it| it.endpoints[0].zone = Some("z".into()), true);
    check("a node", |it| it.endpoints[0].node_name = Some("n".into()), true);
    check("a condition", |it| it.endpoints[0].conditions.serving = Some(true), true);
    check("an endpoint less", |it| drop(it.endpoints.pop()), true);
    check("an endpoint twice", |it| it.endpoints.push(it.endpoints[0].clone()), true);
    check("one twice instead of another", |it| it.endpoints[0] = it.endpoints[1].clone(), true);
    check("a label", |it| it.metadata.labels = it.metadata.labels.with("x", "y"), true);
    check("an annotation less", |it| it.metadata.annotations = StringMap::default(), true);
    check(
        "the trigger time",
        |it| it.metadata.annotations = it.metadata.annotations.with(ANNOTATION_TRIGGER_TIME, "x"),
        true,
    );
}

/// Each case gives the labels of the slice, and says if the plan writes a slice with the label.
#[test]
fn the_headless_label_is_copied_for_a_headless_service_or_as_upstream() {
    let mut given = one_address();
    let mut check = |on_endpoints: bool, cluster_ip: &str, repair: bool, want: bool, writes: bool| {
        let labels = given.metadata.labels.without(LABEL_HEADLESS);
        given.metadata.labels = if on_endpoints { labels.with(LABEL_HEADLESS, "") } else { labels };
        let service = Service { cluster_ip: cluster_ip.into(), ..Service::default() };
        let options = PlanOptions::default().with_headless_label_repair(repair);
        let inputs = PlanInputs::new(&service, &given).with_options(&options);
        let created = apply(vec![], &plan(&inputs));
        let has_label = |slice: &EndpointSlice| slice.metadata.labels.contains_key(LABEL_HEADLESS);
        assert_eq!(has_label(&created[0]), want, "{on_endpoints} {cluster_ip} {repair}");
        let mut labelled = EndpointSlice::clone(&created[0]);
        labelled.metadata.labels = labelled.metadata.labels.with(LABEL_HEADLESS, "");
        let labelled = [Arc::new(labelled)];
        let updates = plan(&inputs.with_existing_slices(&labelled)).writes.update;
        assert_eq!(updates.len(), usize::from(writes), "{on_endpoints} {cluster_ip} {repair}");
        assert!(!updates.iter().any(has_label));
    };
    check(true, "10.96.0.1", true, false, true);
    check(true, "10.96.0.1", false, true, false);
    check(true, "None", true, true, false);
    check(true, "None", false, true, false);
    // An ExternalName has no cluster IP.
    check(true, "", true, true, false);
    for repair in [true, false] {
        check(false, "10.96.0.1", repair, false, true);
        check(false, "None", repair, false, true);
    }
}

#[test]
fn stats_count_what_upstreams_metrics_count() {
    let ips = |ips: &[&str]| {
        let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        endpoints(json!([{"addresses": addresses, "ports": [{"port": 1, "protocol": "TCP"}]}]))
    };
    let before = synced(&ips(&["192.0.2.1", "192.0.2.2", "2001:db8::1"]));
    let mut given = ips(&["192.0.2.2", "192.0.2.3", "192.0.2.4"]);
    given.subsets[0].addresses[0].node_name = Some("moved".into());
    let PlanStats { added, updated, removed, skipped, endpoints_desired, slices, slices_desired, .. } =
        run(&given, &before).stats;
    assert_eq!((added, updated, removed, skipped), (2, 1, 2, 0));
    assert_eq!((endpoints_desired, slices, slices_desired), (3, 1, 1));
}

//! Properties of all plans, checked on random inputs.
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking, as a test does")]

use std::sync::Arc;

use crate::common::apply;
use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::repack::repack_by_place;
use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_TRIGGER_TIME, LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SERVICE_NAME, LABEL_SKIP_MIRROR,
    MIRRORING_CONTROLLER,
};
use kube_endpoint_core_model::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Endpoints, ObjectMeta, ObjectReference,
    OwnerReference, ResourceVersion, Service, Timestamp, address,
};
use kube_endpoint_mirroring::plan::{
    AddressVerdict, MirrorVerdict, Plan, PlanInputs, PlanOptions, SkipReason, plan,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn subsets() -> impl Strategy<Value = Vec<EndpointSubset>> {
    let ip = prop::sample::select(vec![
        "192.0.2.1",
        "192.0.02.1",
        "192.0.2.2",
        "192.0.2.3",
        "192.0.2.4",
        "2001:db8::1",
        "2001:0db8::1",
        "2001:db8::2",
        "host.example",
        "",
    ]);
    let address = (ip, 0..3u8, 0..3u8).prop_map(|(ip, uid, odd)| EndpointAddress {
        ip: ip.into(),
        hostname: if odd == 1 { "h".into() } else { "".into() },
        node_name: (odd == 2).then(|| "node".into()),
        target_ref: (uid > 0).then(|| ObjectReference {
            kind: "Pod".into(),
            name: format!("p{uid}").into(),
            uid: format!("u{uid}").into(),
            ..ObjectReference::default()
        }),
    });
    let port = (0..4i32, any::<bool>()).prop_map(|(port, app)| EndpointsPort {
        port,
        protocol: "TCP".into(),
        app_protocol: app.then(|| "h2c".into()),
        ..EndpointsPort::default()
    });
    let subset = (vec(address.clone(), 0..5), vec(address, 0..4), vec(port, 0..3));
    vec(
        subset.prop_map(|(addresses, not_ready_addresses, ports)| EndpointSubset {
            addresses,
            not_ready_addresses,
            ports,
        }),
        0..4,
    )
}

fn endpoints() -> impl Strategy<Value = Endpoints> {
    let labels = prop::sample::subsequence(
        vec![
            ("a", "b"),
            (LABEL_MANAGED_BY, "me"),
            (LABEL_SERVICE_NAME, "x"),
            (LABEL_SKIP_MIRROR, "false"),
            (LABEL_HEADLESS, ""),
        ],
        0..=5,
    );
    let annotations = prop::sample::subsequence(vec![("c", "d"), (ANNOTATION_TRIGGER_TIME, "t")], 0..=2);
    (subsets(), labels, annotations, prop::bool::weighted(0.1)).prop_map(
        |(subsets, labels, annotations, deleted)| Endpoints {
            metadata: ObjectMeta {
                name: "db".into(),
                namespace: "n".into(),
                uid: "uid".into(),
                labels: labels.into_iter().collect(),
                annotations: annotations.into_iter().collect(),
                deletion_timestamp: deleted.then_some(Timestamp::UNIX_EPOCH),
                ..ObjectMeta::default()
            },
            subsets: subsets.into(),
        },
    )
}

/// Returns slices of any writer.
fn slices() -> impl Strategy<Value = Vec<Arc<EndpointSlice>>> {
    let kind = prop::sample::select(vec![AddressType::IPv4, AddressType::IPv6, AddressType::Fqdn]);
    let slice = (kind, vec(1..5u8, 0..4), vec(1..4i32, 0..3), 0..4u8);
    vec(slice, 0..6).prop_map(|slices| {
        let slice =
            |(number, (address_type, ips, ports, odd)): (usize, (AddressType, Vec<u8>, Vec<i32>, u8))| {
                let labels = [(LABEL_SERVICE_NAME, "db"), (LABEL_MANAGED_BY, MIRRORING_CONTROLLER)];
                let owner = OwnerReference::controller(
                    "v1",
                    "Endpoints",
                    &"db".into(),
                    &if odd == 1 { "old".into() } else { "uid".into() },
                );
                let endpoint = |ip: u8| Endpoint {
                    addresses: vec![format!("192.0.2.{ip}").into()],
                    conditions: EndpointConditions { ready: Some(odd != 2), ..Default::default() },
                    ..Endpoint::default()
                };
                let port = |port: i32| EndpointPort {
                    name: Some("".into()),
                    port: Some(port),
                    protocol: Some("TCP".into()),
                    app_protocol: None,
                };
                Arc::new(EndpointSlice {
                    metadata: ObjectMeta {
                        name: format!("db-x{number}").into(),
                        namespace: "n".into(),
                        uid: format!("slice-{number}").into(),
                        resource_version: ResourceVersion(3),
                        labels: labels
                            .into_iter()
                            .chain((odd == 3).then_some(("a", "b")))
                            .chain((odd == 0).then_some((LABEL_HEADLESS, "")))
                            .collect(),
                        owner_references: vec![owner],
                        ..ObjectMeta::default()
                    },
                    address_type,
                    endpoints: ips.into_iter().map(endpoint).collect(),
                    ports: ports.into_iter().map(port).collect(),
                })
            };
        slices.into_iter().enumerate().map(slice).collect()
    })
}

fn run(endpoints: &Endpoints, existing: &[Arc<EndpointSlice>], max: usize) -> Plan {
    run_for("10.96.0.1", true, endpoints, existing, max)
}

fn run_for(
    cluster_ip: &str,
    headless_label_repair: bool,
    endpoints: &Endpoints,
    existing: &[Arc<EndpointSlice>],
    max: usize,
) -> Plan {
    let service = Service { cluster_ip: cluster_ip.into(), ..Service::default() };
    let options = PlanOptions::default()
        .with_max_endpoints_per_subset(max)
        .with_headless_label_repair(headless_label_repair);
    plan(&PlanInputs::new(&service, endpoints).with_existing_slices(existing).with_options(&options))
}

fn cluster_ip() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["10.96.0.1", "None"])
}

fn addresses(subsets: &[EndpointSubset]) -> usize {
    subsets.iter().map(|subset| subset.addresses.len() + subset.not_ready_addresses.len()).sum()
}

/// Counts the mirrored and the skipped addresses.
fn counts(plan: &Plan) -> (usize, usize) {
    let mirrored = |one: &&AddressVerdict| matches!(one.verdict, MirrorVerdict::Mirrored { .. });
    let count = plan.verdicts.iter().filter(mirrored).count();
    (count, plan.verdicts.len() - count)
}

proptest! {
    #[test]
    fn every_address_has_a_verdict_that_matches_the_slices(mut given in endpoints(), max in 0..6usize) {
        given.metadata.deletion_timestamp = None;
        let plan = run(&given, &[], max);
        let (mirrored, skipped) = counts(&plan);
        prop_assert_eq!(mirrored + skipped, addresses(&repack_by_place(given.subsets.listed().unwrap())));
        // Several spellings of one address are one endpoint.
        let endpoints: usize = plan.writes.create.iter().map(|slice| slice.endpoints.len()).sum();
        prop_assert!(mirrored >= endpoints, "{plan}");
        for verdict in &plan.verdicts {
            let ip = address::parse_sloppy(&verdict.address).map(|ip| ip.to_string());
            let invalid = verdict.verdict == MirrorVerdict::Skipped(SkipReason::InvalidAddress);
            if let MirrorVerdict::Mirrored { ready } = verdict.verdict {
                let is = |endpoint: &Endpoint| {
                    Some(&*endpoint.addresses[0]) == ip.as_deref() && endpoint.conditions.ready == Some(ready)
                };
                prop_assert!(plan.writes.create.iter().any(|slice| slice.endpoints.iter().any(is)), "{plan}");
            }
            prop_assert!(!invalid || ip.is_none(), "{plan}");
        }
    }

    #[test]
    fn a_sync_after_a_sync_writes_nothing(
        given in endpoints(), existing in slices(), max in 0..6usize, ip in cluster_ip(), repair in any::<bool>(),
    ) {
        let first = run_for(ip, repair, &given, &existing, max);
        let after = apply(existing, &first);
        let second = run_for(ip, repair, &given, &after, max);
        prop_assert!(second.is_empty(), "{second:#?}");
        prop_assert_eq!(second.events, first.events);
    }

    #[test]
    fn slices_of_a_service_that_is_not_headless_lack_the_headless_label(
        mut given in endpoints(), existing in slices(), max in 0..6usize,
    ) {
        // The controller would create nothing for Endpoints that are being deleted, but it still
        // updates existing slices.
        given.metadata.deletion_timestamp = None;
        for slice in apply(existing.clone(), &run(&given, &existing, max)) {
            prop_assert!(!slice.metadata.labels.contains_key(LABEL_HEADLESS), "{}", slice.metadata.name);
        }
    }

    #[test]
    fn the_order_of_slices_does_not_matter(
        given in endpoints(),
        (existing, shuffled) in slices().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        max in 0..6usize,
    ) {
        prop_assert_eq!(run(&given, &existing, max), run(&given, &shuffled, max));
    }

    #[test]
    fn the_endpoints_do_not_depend_on_the_existing_slices(
        mut given in endpoints(), existing in slices(), max in 0..6usize,
    ) {
        given.metadata.deletion_timestamp = None;
        let contents = |existing: Vec<Arc<EndpointSlice>>| {
            let after = apply(existing.clone(), &run(&given, &existing, max));
            let mut contents: Vec<String> = after
                .iter()
                .map(|slice| {
                    let mut endpoints: Vec<String> =
                        slice.endpoints.iter().map(|it| format!("{:?} {:?}", it.identity(), it.conditions)).collect();
                    endpoints.sort();
                    let mut ports = slice.ports.clone();
                    ports.sort();
                    format!("{:?} {ports:?} {endpoints:?} {:?}", slice.address_type, slice.metadata.labels)
                })
                .collect();
            contents.sort();
            contents
        };
        prop_assert_eq!(contents(existing), contents(vec![]));
    }

    #[test]
    fn no_slice_has_more_endpoints_than_the_maximum_or_an_endpoint_twice(given in endpoints(), max in 0..6usize) {
        for slice in run(&given, &[], max).writes.create {
            prop_assert!(!slice.endpoints.is_empty() && slice.endpoints.len() <= max);
            let mut identities: Vec<_> = slice.endpoints.iter().map(Endpoint::identity).collect();
            identities.sort();
            identities.dedup();
            prop_assert_eq!(identities.len(), slice.endpoints.len());
        }
    }
}

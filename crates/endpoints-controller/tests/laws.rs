//! Properties of all plans, checked on random inputs.

use crate::common::{apply, arcs, headless, pod, run, service, terminating, unready, with_ports};
use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort, Subsets};
use kube_endpoint_core_model::pod::PodPhase;
use kube_endpoint_core_model::repack::repack;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_OVER_CAPACITY, LABEL_ENDPOINTS_MANAGED_BY, LABEL_HEADLESS,
};
use kube_endpoint_core_model::{
    Endpoints, IpFamily, ObjectMeta, ObjectReference, Pod, ResourceVersion, Service,
};
use kube_endpoint_endpoints_controller::plan::{Plan, PlanOptions};
use proptest::collection::vec;
use proptest::prelude::*;

fn a_pod() -> impl Strategy<Value = Pod> {
    let ips = prop_oneof![
        1 => Just(vec![]),
        6 => (1..9u8).prop_map(|n| vec![format!("10.0.0.{n}")]),
        2 => (1..9u8).prop_map(|n| vec![format!("fd00::{n}")]),
        2 => (1..9u8).prop_map(|n| vec![format!("10.0.0.{n}"), format!("fd00::{n}")]),
    ];
    let ports = prop_oneof![
        Just(vec![]),
        Just(vec![("web", 8080)]),
        Just(vec![("web", 8081), ("admin", 9)]),
        Just(vec![("admin", 9)])
    ];
    let odd = prop::sample::select(vec!["", "", "", "", "node", "done", "uid", "host"]);
    (ips, ports, any::<[bool; 2]>(), odd).prop_map(|(ips, ports, [ready, going], odd)| {
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        let mut pod = with_ports(pod("p", &ips), &ports);
        pod = if ready { pod } else { unready(pod) };
        pod = if going && odd.is_empty() { terminating(pod) } else { pod };
        match odd {
            "node" => pod.node_name = None,
            "done" => pod.phase = PodPhase::Failed,
            "uid" => pod.uid = "".into(),
            "host" => (pod.hostname, pod.subdomain) = (Some("h".into()), Some("web".into())),
            _ => {}
        }
        pod
    })
}

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    vec(a_pod(), 0..12).prop_map(|pods| {
        let named = |(number, mut pod): (usize, Pod)| {
            pod.key.name = format!("p{number}").into();
            if !pod.uid.is_empty() {
                pod.uid = format!("uid-{number}").into();
            }
            pod
        };
        pods.into_iter().enumerate().map(named).collect()
    })
}

fn a_service() -> impl Strategy<Value = Service> {
    let ports =
        prop::sample::subsequence(vec![("http", "web"), ("admin", "admin"), ("fixed", "9000")], 0..=3);
    let families = prop::sample::select(vec![
        vec![],
        vec![IpFamily::IPv4],
        vec![IpFamily::IPv6],
        vec![IpFamily::IPv6, IpFamily::IPv4],
    ]);
    let labels = prop::sample::subsequence(
        vec![("team", "shop"), (LABEL_HEADLESS, "x"), (LABEL_ENDPOINTS_MANAGED_BY, "me")],
        0..=3,
    );
    (ports, families, labels, any::<[bool; 2]>()).prop_map(|(ports, families, labels, [publish, ip])| {
        let service = service(&ports);
        let service = if ip { service } else { headless(service) };
        Service {
            ip_families: families,
            labels: labels.into_iter().collect(),
            publish_not_ready_addresses: publish,
            ..service
        }
    })
}

/// Returns an object of any writer.
fn an_object() -> impl Strategy<Value = Option<Endpoints>> {
    let address = (1..9u8, 0..14usize, any::<bool>()).prop_map(|(n, pod, targeted)| EndpointAddress {
        ip: format!("10.0.0.{n}").into(),
        target_ref: targeted.then(|| ObjectReference {
            kind: "Pod".into(),
            namespace: "n".into(),
            name: format!("p{pod}").into(),
            uid: format!("uid-{pod}").into(),
            ..ObjectReference::default()
        }),
        ..EndpointAddress::default()
    });
    let port =
        (1..4i32).prop_map(|port| EndpointsPort { port, protocol: "TCP".into(), ..Default::default() });
    let subset = (vec(address.clone(), 0..4), vec(address, 0..4), vec(port, 0..3));
    let subsets = vec(
        subset.prop_map(|(addresses, not_ready_addresses, ports)| EndpointSubset {
            addresses,
            not_ready_addresses,
            ports,
        }),
        0..4,
    );
    let pairs = prop::sample::subsequence(
        vec![("a", "b"), (ANNOTATION_OVER_CAPACITY, "warning"), (LABEL_HEADLESS, "")],
        0..=3,
    );
    prop::option::of((subsets, pairs).prop_map(|(subsets, pairs)| Endpoints {
        metadata: ObjectMeta {
            name: "web".into(),
            namespace: "n".into(),
            uid: "there".into(),
            resource_version: ResourceVersion(5),
            labels: pairs.iter().copied().collect(),
            annotations: pairs.into_iter().collect(),
            ..ObjectMeta::default()
        },
        subsets: subsets.into(),
    }))
}

fn written(plan: &Plan) -> Option<&Endpoints> {
    plan.writes.create.first().or(plan.writes.update.first())
}

fn addresses(plan: &Plan) -> usize {
    let (ready, not_ready) = written(plan).map_or((0, 0), |endpoints| endpoints.subsets.counts());
    ready + not_ready
}

proptest! {
    #[test]
    fn a_sync_after_a_sync_writes_nothing(
        service in a_service(), pods in pods(), existing in an_object(), capacity in 1..20usize,
    ) {
        let options = PlanOptions::default().with_capacity(capacity);
        let pods = arcs(pods);
        let first = run(&service, &pods, existing.as_ref(), &options);
        let there = apply(existing, &first);
        let second = run(&service, &pods, there.as_ref(), &options);
        prop_assert!(second.is_empty(), "first\n{first}\nthen\n{second}");
        prop_assert_eq!(second.verdicts, first.verdicts);
    }

    #[test]
    fn the_order_of_pods_does_not_matter(
        service in a_service(),
        (pods, shuffled) in pods().prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        existing in an_object(),
        capacity in 1..20usize,
    ) {
        let options = PlanOptions::default().with_capacity(capacity);
        let (one, two) = (arcs(pods), arcs(shuffled));
        prop_assert_eq!(
            run(&service, &one, existing.as_ref(), &options),
            run(&service, &two, existing.as_ref(), &options)
        );
    }

    #[test]
    fn an_api_server_accepts_what_is_written(
        service in a_service(), pods in pods(), existing in an_object(), capacity in 1..20usize,
    ) {
        let options = PlanOptions::default().with_capacity(capacity);
        let plan = run(&service, &arcs(pods.clone()), existing.as_ref(), &options);
        prop_assert!(addresses(&plan) <= capacity);
        prop_assert_eq!(plan.verdicts.len(), pods.len());
        if let Some(written) = written(&plan) {
            for subset in written.subsets.listed().unwrap() {
                prop_assert!(!subset.addresses.is_empty() || !subset.not_ready_addresses.is_empty());
                for address in subset.addresses.iter().chain(&subset.not_ready_addresses) {
                    prop_assert!(address.node_name.as_deref() != Some(""));
                }
            }
        }
    }

    /// If an address is listed twice for the same port, the summary does not tell that the meaning
    /// is the same: the object is written once more, in canonical form.
    #[test]
    fn a_summary_of_the_object_is_as_good_as_its_content(
        service in a_service(), pods in pods(), existing in an_object(), capacity in 1..20usize,
    ) {
        let options = PlanOptions::default().with_capacity(capacity);
        let pods = arcs(pods);
        let there = apply(existing.clone(), &run(&service, &pods, existing.as_ref(), &options));
        for existing in [existing, there].into_iter().flatten() {
            let mut summarized = existing.clone();
            summarized.subsets = Subsets::Summarized(existing.subsets.summary());
            let with_content = run(&service, &pods, Some(&existing), &options);
            let with_summary = run(&service, &pods, Some(&summarized), &options);
            let packed = Subsets::Listed(repack(existing.subsets.listed().unwrap()));
            if packed.summary().digest == existing.subsets.summary().digest {
                prop_assert_eq!(with_summary, with_content);
            } else {
                prop_assert!(with_content.is_empty() || with_summary == with_content);
            }
        }
    }

    #[test]
    fn upstreams_options_never_write_less_or_anything_else(
        service in a_service(), pods in pods(), existing in an_object(), capacity in 1..20usize,
    ) {
        let ours = PlanOptions::default().with_capacity(capacity);
        let upstream = PlanOptions::upstream().with_capacity(capacity);
        let pods = arcs(pods);
        let there = apply(existing.clone(), &run(&service, &pods, existing.as_ref(), &ours));
        for existing in [existing, there] {
            let ours = run(&service, &pods, existing.as_ref(), &ours);
            let upstream = run(&service, &pods, existing.as_ref(), &upstream);
            prop_assert!(ours.is_empty() || ours.writes == upstream.writes);
        }
    }
}

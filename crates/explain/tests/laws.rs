//! Tests laws for random clusters.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kube_endpoint_core_model::{IpFamily, ObjectKey, StringMap, Text, Timestamp, Verdict};
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, Through};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{
    Code, Explanation, Known, LintOptions, NearIndex, Objects, Options, Planned, Problem, Publication,
    ServedBy, Severity, Status, diff, explain, lint, near_matches,
};
use kube_endpoint_testing::Cluster;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The way in which a random pod differs from a ready pod.
#[derive(Clone, Copy, Debug)]
enum PodKind {
    Ready,
    NotReady,
    Terminating,
    Finished,
    WithoutAddress,
    OtherPort,
    OnUnknownNode,
    OnlyIpv6,
    WithoutZone,
}

const KINDS: [PodKind; 9] = [
    PodKind::Ready,
    PodKind::NotReady,
    PodKind::Terminating,
    PodKind::Finished,
    PodKind::WithoutAddress,
    PodKind::OtherPort,
    PodKind::OnUnknownNode,
    PodKind::OnlyIpv6,
    PodKind::WithoutZone,
];

fn add(cluster: Cluster, at: usize, kind: PodKind) -> Cluster {
    let cluster = cluster.pod(&format!("web-{at}"), &[("app", "web")]).on("a");
    match kind {
        PodKind::Ready => cluster,
        PodKind::NotReady => cluster.not_ready(),
        PodKind::Terminating => cluster.terminating(),
        PodKind::Finished => cluster.phase("Succeeded"),
        PodKind::WithoutAddress => cluster.addresses(&[]),
        PodKind::OtherPort => cluster.container_port("other", 9000),
        PodKind::OnUnknownNode => cluster.on("nowhere"),
        PodKind::OnlyIpv6 => cluster.addresses(&["fd00:10:1::99"]),
        PodKind::WithoutZone => cluster.on("b"),
    }
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let pods = prop::collection::vec(prop::sample::select(&KINDS[..]), 0..8);
    let bits = prop::collection::vec(any::<bool>(), 4);
    (pods, bits).prop_map(|(pods, bits)| {
        let mut cluster =
            Cluster::new().node("a").zone("eu-1").node("b").service("web").port("http", 80, "http");
        if bits[0] {
            cluster = cluster.headless();
        }
        if bits[1] {
            cluster = cluster.dual_stack();
        }
        if bits[2] {
            cluster = cluster.publish_not_ready();
        }
        if bits[3] {
            cluster = cluster.traffic_distribution("PreferSameZone");
        }
        pods.into_iter().enumerate().fold(cluster, |cluster, (at, kind)| add(cluster, at, kind))
    })
}

/// Returns ports of a Service, of Endpoints or of a slice: with other names and protocols, or no
/// ports.
fn ports() -> impl Strategy<Value = Value> {
    let all = [
        json!([]),
        json!([{"port": 80}]),
        json!([{"port": 80, "protocol": "UDP"}]),
        json!([{"name": "http", "port": 80}]),
        json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 9100}]),
    ];
    prop::sample::select(all.to_vec())
}

/// Returns a Service without a selector, and Endpoints, mirrored or not, a slice that somebody
/// wrote, or both.
fn by_hand() -> impl Strategy<Value = Cluster> {
    let bits = prop::collection::vec(any::<bool>(), 6);
    (ports(), ports(), ports(), ports(), bits).prop_map(|(service, first, second, of_slice, bits)| {
        let mut cluster = Cluster::new().with(json!({"kind": "Service", "metadata": {"name": "web"},
            "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "ports": service}}));
        let addresses = if bits[0] { "addresses" } else { "notReadyAddresses" };
        if bits[1] {
            cluster = cluster.with(json!({"kind": "Endpoints", "metadata": {"name": "web"},
                "subsets": [{addresses: [{"ip": "10.9.0.1"}], "ports": first}]}));
        }
        if bits[1] && bits[2] {
            let plan = planned(&objects(cluster.objects())).mirroring.unwrap();
            cluster = cluster.apply(&plan.writes);
        }
        if bits[1] && bits[2] && bits[3] {
            let change = move |object: &mut Value| object["subsets"][0]["ports"] = second.clone();
            cluster = cluster.select("Endpoints", "web").change(change);
        }
        if bits[4] {
            cluster = cluster.with(json!({"kind": "EndpointSlice", "addressType": "IPv4", "ports": of_slice,
                "metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": "web"}},
                "endpoints": [{"addresses": ["10.9.0.9"], "conditions": {"ready": bits[5]}}]}));
        }
        cluster
    })
}

fn labels() -> impl Strategy<Value = StringMap> {
    let values = prop::sample::select(&["web", "wbe", "web-v2", "api", "x"][..]);
    let pairs = prop::collection::btree_map(prop::sample::select(&["app", "tier", "env"][..]), values, 0..4);
    pairs.prop_map(|pairs| pairs.into_iter().collect())
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn objects<'v>(objects: impl IntoIterator<Item = &'v Value>) -> Objects {
    Objects::read(objects.into_iter().cloned()).unwrap()
}

fn explained(objects: &Objects) -> Explanation {
    explain(objects, &key(), &objects.topology(), now(), None, &Options::default()).unwrap()
}

fn planned(objects: &Objects) -> Planned {
    Planned::new(objects, &key(), &objects.topology(), now(), &Options::default())
}

fn settled(cluster: Cluster) -> Cluster {
    let plan = planned(&objects(cluster.objects()));
    let slices = plan.slices.unwrap();
    let cluster = slices.sub_plans.iter().fold(cluster, |cluster, sub_plan| cluster.apply(&sub_plan.writes));
    cluster.apply(&plan.endpoints.unwrap().writes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn after_the_writes_nothing_is_behind_and_ready_pods_receive_traffic(cluster in cluster()) {
        let objects = objects(settled(cluster).objects());
        prop_assert!(diff(&objects, now(), &Options::default()).unwrap().is_empty());
        let explanation = explained(&objects);
        let behind = [Code::SlicesBehind, Code::EndpointsBehind, Code::NotWritten, Code::DuplicateEndpoint];
        prop_assert!(!explanation.codes().iter().any(|code| behind.contains(code)), "{:?}", explanation.codes());
        let counts = explanation.pods_by_publication;
        prop_assert_eq!(counts.receiving, Some(counts.ready));
        prop_assert_eq!(counts.ready + counts.not_ready + counts.left_out, counts.selected);
    }

    #[test]
    fn before_the_writes_whatever_should_change_is_reported(cluster in cluster()) {
        let objects = objects(cluster.objects());
        let explanation = explained(&objects);
        prop_assert!(explanation.codes().contains(&Code::SlicesBehind));
        prop_assert_eq!(explanation.pods_by_publication.receiving, Some(0));
        prop_assert_eq!(diff(&objects, now(), &Options::default()).unwrap().exit_code(), 1);
    }

    /// A reader who may not read all kinds gets no statement that those kinds contradict.
    #[test]
    fn less_to_read_makes_no_other_claim(cluster in cluster(), is_settled in any::<bool>(), may in prop::collection::vec(any::<bool>(), 4)) {
        let cluster = if is_settled { settled(cluster) } else { cluster };
        let full = explained(&objects(cluster.objects()));
        let known =
            Known { pods: may[0], slices: may[1], endpoints: may[2], nodes: may[3], ..Known::ALL };
        let is_read = |object: &&Value| match object["kind"].as_str().unwrap() {
            "Pod" => known.pods,
            "EndpointSlice" => known.slices,
            "Endpoints" => known.endpoints,
            _ => true,
        };
        // The plugin assumes that nodes are ready that it may not read.
        let assumed = |name: &str| json!({"kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let assumed: Vec<Value> = ["a", "b", "nowhere"].into_iter().filter(|_| !known.nodes).map(assumed).collect();
        let part = objects(cluster.objects().iter().filter(is_read).chain(&assumed));
        let options = Options::default().with_known(known);
        let part = explain(&part, &key(), &part.topology(), now(), None, &options).unwrap();
        let (part, full) = (part.verdict, full.verdict);
        if part.status != Status::Unknown {
            prop_assert_eq!(part.status == Status::Down, full.status == Status::Down, "{:?}\n{:?}", part, full);
        }
        prop_assert!(part.status != Status::Degraded || full.status != Status::Ok, "{:?}\n{:?}", part, full);
        prop_assert!(part.status != Status::Ok || part.code == Code::Published);
        prop_assert!(part.status == Status::Ok || part.code != Code::Published, "{:?}\n{:?}", part, full);
    }

    /// The same holds for endpoints that somebody writes by hand; and a Service that is down has a
    /// cause and a remedy.
    #[test]
    fn no_service_without_a_selector_is_down_without_a_cause(cluster in by_hand(), may in prop::collection::vec(any::<bool>(), 2)) {
        let full = explained(&objects(cluster.objects()));
        let known = Known { slices: may[0], endpoints: may[1], ..Known::ALL };
        let is_read = |object: &&Value| match object["kind"].as_str().unwrap() {
            "EndpointSlice" => known.slices,
            "Endpoints" => known.endpoints,
            _ => true,
        };
        let part = objects(cluster.objects().iter().filter(is_read));
        let options = Options::default().with_known(known);
        let part = explain(&part, &key(), &part.topology(), now(), None, &options).unwrap();
        for one in [&full, &part] {
            prop_assert_eq!(one.verdict.status == Status::Ok, one.verdict.code == Code::Published, "{:?}", one.verdict);
            prop_assert!(one.verdict.status != Status::Down || !one.to_do.is_empty());
        }
        let (part, full) = (part.verdict, full.verdict);
        if part.status != Status::Unknown {
            prop_assert_eq!(part.status == Status::Down, full.status == Status::Down, "{:?}\n{:?}", part, full);
        }
        prop_assert!(part.status != Status::Degraded || full.status != Status::Ok, "{:?}\n{:?}", part, full);
    }

    /// Lint has every finding that explain calls an error or a warning, and no finding has the code
    /// that means that nothing is wrong.
    #[test]
    fn a_verdict_and_lint_agree(cluster in cluster(), is_settled in any::<bool>()) {
        let objects = objects(if is_settled { settled(cluster) } else { cluster }.objects());
        let verdict = explained(&objects).verdict;
        let worst = lint(&objects, now(), &Options::default(), &LintOptions::default()).problems;
        let worst = worst.first().map_or(Severity::Info, |lint| lint.severity);
        prop_assert_eq!(verdict.severity, worst, "{:?}", verdict);
        prop_assert_eq!(verdict.status == Status::Ok, verdict.severity == Severity::Info);
        prop_assert_eq!(verdict.status == Status::Ok, verdict.code == Code::Published);
    }

    /// The explanation and the plan are the same code, so they agree.
    #[test]
    fn a_pod_is_explained_as_the_plan_decides(cluster in cluster()) {
        let objects = objects(settled(cluster).objects());
        let explanation = explained(&objects);
        let verdicts = planned(&objects).slices.unwrap().verdicts;
        prop_assert_eq!(verdicts.len(), explanation.pods.len());
        for (verdict, pod) in verdicts.iter().zip(&explanation.pods) {
            prop_assert_eq!(&verdict.pod.name, &pod.name);
            match &verdict.verdict {
                Verdict::LeftOut(_) => prop_assert_eq!(pod.publication, Publication::LeftOut),
                // A pod with none of the ports is in a slice without ports, which kube-proxy
                // ignores and DNS does not.
                Verdict::Published { missing_ports, ready, .. } if !missing_ports.is_empty() => {
                    let is_listed = explanation.served_by == ServedBy::Dns && *ready;
                    let is_not_ready = explanation.served_by == ServedBy::Dns && !ready;
                    let want = match (is_listed, is_not_ready) {
                        (true, _) => Publication::Ready,
                        (_, true) => Publication::NotReady,
                        _ => Publication::LeftOut,
                    };
                    prop_assert_eq!(pod.publication, want);
                    prop_assert!(is_not_ready || pod.code() == Code::PortNameNotFound);
                }
                Verdict::Published { ready: true, .. } => prop_assert_eq!(pod.publication, Publication::Ready),
                Verdict::Published { .. } => prop_assert_eq!(pod.publication, Publication::NotReady),
            }
            let is_fine = pod.publication == Publication::Ready;
            prop_assert!(is_fine || pod.reason.is_some(), "{:?}", pod);
            prop_assert!(pod.remedy().is_none_or(|remedy| !remedy.sentence.is_empty()));
        }
    }

    /// An explanation looks at no single client. Nevertheless it says that an endpoint receives
    /// traffic if kube-proxy of some node sends a client of the Service there, and only then; and
    /// it has a reason for each ready endpoint that receives none.
    #[test]
    fn an_endpoint_receives_traffic_if_some_client_is_sent_there(
        cluster in cluster(),
        others in prop::collection::vec((0..4_usize, 0..4_usize, 0..3_usize, any::<bool>(), 0..3_usize), 0..4),
        policies in prop::collection::vec(any::<bool>(), 3),
    ) {
        let mut cluster = settled(cluster);
        // Explanations do not yet say that hints keep clients from an endpoint.
        let is_kept_by_hints = others.iter().any(|(.., zone)| *zone == 2);
        for (at, (pod, port, node, ready, zone)) in others.into_iter().enumerate() {
            let mut endpoint = json!({"addresses": [format!("10.1.0.{}", pod + 1)],
                "conditions": {"ready": ready, "serving": true, "terminating": !ready}});
            if let Some(node) = ["a", "b"].get(node) {
                endpoint["nodeName"] = json!(node);
            }
            if let Some(zone) = [None, Some("eu-1"), Some("of-no-node")][zone] {
                endpoint["hints"] = json!({"forZones": [{"name": zone}]});
            }
            let port = ["http", "http", "other", ""][port];
            cluster = cluster.with(json!({"kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": format!("other-{at}"), "labels": {"kubernetes.io/service-name": "web"}},
                "ports": [{"name": port, "port": 8080, "protocol": "TCP"}], "endpoints": [endpoint]}));
        }
        let policy = |is_local: bool| if is_local { "Local" } else { "Cluster" };
        let spec = json!({"internalTrafficPolicy": policy(policies[0]), "externalTrafficPolicy": policy(policies[1]),
            "externalIPs": if policies[2] { json!(["192.0.2.9"]) } else { json!([]) }});
        let cluster = cluster.select("Service", "web").change(move |service| json_patch::merge(&mut service["spec"], &spec));
        let objects = objects(cluster.objects());
        let explanation = explained(&objects);
        let service = objects.service(&key()).unwrap();
        let policies = objects.service(&key()).unwrap().policies;
        let slices = || objects.slices_of(&key()).iter().map(|slice| &**slice);
        let mut sent: BTreeSet<IpAddr> = BTreeSet::new();
        for (node, zone) in [("a", "eu-1"), ("b", "")] {
            for family in [IpFamily::IPv4, IpFamily::IPv6] {
                let outside = [Through::External, Through::ExternalFromPod];
                let outside = outside.into_iter().filter(|_| policies.externally_accessible);
                for through in [Through::ClusterIp].into_iter().chain(outside) {
                    let proxy = KubeProxy { node, zone, ..KubeProxy::default() };
                    let routes = proxy.routes(service, policies, slices(), family, through);
                    sent.extend(routes.ports.iter().flat_map(|port| &port.backends).map(SocketAddr::ip));
                }
            }
        }
        let counts = explanation.pods_by_publication;
        if explanation.served_by == ServedBy::KubeProxy {
            for pod in &explanation.pods {
                let is_sent = pod.addresses.iter().any(|address| sent.contains(address));
                // An endpoint of somebody else with the address of a pod is not the pod's.
                let is_held = pod.places.iter().any(|place| place.used);
                prop_assert_eq!(pod.is_sent_traffic(), is_sent && is_held, "{:?}", pod);
            }
        }
        let is_told = explanation.faults.iter().any(|fault| fault.severity() > Severity::Info);
        prop_assert!(counts.receiving == Some(counts.ready) || is_told || is_kept_by_hints, "{:?} {:?}", counts, explanation.faults);
    }

    #[test]
    fn the_order_of_the_objects_makes_no_difference(cluster in cluster(), colors in any::<bool>()) {
        let colors = if colors { Colors::On } else { Colors::Off };
        let cluster = settled(cluster);
        let text = |objects: &Objects| explained(objects).text(Layout::WIDE, now()).render(colors);
        let forwards = text(&objects(cluster.objects()));
        let backwards = text(&objects(cluster.objects().iter().rev()));
        prop_assert_eq!(forwards, backwards);
    }

    /// Grouping pods by their labels, and sharing the common parts of selectors, changes no result.
    #[test]
    fn pods_nearly_match_together_as_they_do_alone(
        pods in prop::collection::vec(labels(), 0..12),
        selectors in prop::collection::vec(labels(), 1..6),
    ) {
        let pods: Vec<(Text, StringMap)> =
            pods.into_iter().enumerate().map(|(at, labels)| (format!("pod-{at:02}").into(), labels)).collect();
        let mut index = NearIndex::new(pods.iter().map(|(name, labels)| (name, labels)));
        for selector in &selectors {
            let together = index.near(selector);
            let mut alone: BTreeMap<(Text, Option<Text>), Vec<Text>> = BTreeMap::new();
            for (name, labels) in &pods {
                for near in near_matches(selector, [(name, labels)]).groups {
                    alone.entry((near.label, near.found)).or_default().push(name.clone());
                }
            }
            prop_assert_eq!(together.pods, alone.values().map(Vec::len).sum::<usize>());
            for near in together.groups {
                let names = alone.remove(&(near.label, near.found)).unwrap();
                prop_assert_eq!(near.count, names.len());
                prop_assert!(near.pods.iter().all(|name| names.contains(name)));
            }
            prop_assert!(alone.is_empty());
            let is_one_off = |labels: &StringMap| {
                selector.iter().filter(|(key, value)| labels.get(key) != Some(value)).count() == 1
            };
            if selector.len() > 1 {
                prop_assert_eq!(together.pods, pods.iter().filter(|(_, labels)| is_one_off(labels)).count());
            }
        }
    }
}

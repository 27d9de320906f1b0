//! Tests for random slices that nobody loses the last endpoint with Endpoints that are left over,
//! and that those which are kept are the last ones.

use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, IpFamily, ObjectKey, Service};
use kube_endpoint_explain::consumers::core_dns::{CoreDns, Question};
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, Through};
use kube_endpoint_explain::leftovers::{Judgement, Managed, OutputKind, Reason, Remains};
use kube_endpoint_explain::{LintOptions, Objects, Options, lint};
use kube_endpoint_mirroring::{PlanInputs, plan};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

const OF_PODS: &str = "endpointslice-controller.k8s.io";

/// Returns the metadata of Endpoints that a controller made.
fn metadata() -> Value {
    json!({"name": "web", "namespace": "default", "uid": "e", "resourceVersion": "7",
        "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
        "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}}}]})
}

fn port() -> impl Strategy<Value = Value> {
    let all = [
        json!({"name": "http", "port": 80, "protocol": "TCP"}),
        json!({"name": "dns", "port": 53, "protocol": "UDP"}),
    ];
    select(all.to_vec())
}

fn ports() -> impl Strategy<Value = Vec<Value>> {
    subsequence(
        vec![
            json!({"name": "http", "port": 80, "protocol": "TCP"}),
            json!({"name": "dns", "port": 53, "protocol": "UDP"}),
        ],
        1..=2,
    )
}

fn service() -> impl Strategy<Value = Value> {
    let families = select(vec![json!(["IPv4"]), json!(["IPv4", "IPv6"])]);
    let kind = select(&["ClusterIP", "ClusterIP", "ClusterIP", "ExternalName"][..]);
    let address = select(&["10.96.0.9", "10.96.0.9", "None"][..]);
    (ports(), families, kind, address).prop_map(|(ports, families, kind, address)| {
        json!({"kind": "Service", "metadata": {"name": "web", "namespace": "default", "uid": "s", "resourceVersion": "1"},
            "spec": {"type": kind, "clusterIP": address, "ipFamilies": families, "ports": ports}})
    })
}

fn endpoints() -> impl Strategy<Value = Value> {
    let addresses = |subnet: &'static str| {
        let address = (0..3u8).prop_map(
            move |at| json!({"ip": format!("10.1.{subnet}.{at}"), "targetRef": {"kind": "Pod", "name": "p"}}),
        );
        prop::collection::vec(address, 0..2)
    };
    let subset = (addresses("1"), addresses("2"), port());
    let subset = subset.prop_map(|(ready, not_ready, port)| json!({"addresses": ready, "notReadyAddresses": not_ready, "ports": [port]}));
    (prop::collection::vec(subset, 0..3), any::<bool>()).prop_map(|(subsets, skip)| {
        let mut metadata = metadata();
        if skip {
            metadata["labels"]["endpointslice.kubernetes.io/skip-mirror"] = "true".into();
        }
        json!({"kind": "Endpoints", "metadata": metadata, "subsets": subsets})
    })
}

/// Returns slices of the endpointslice controller or of somebody else.
fn slices() -> impl Strategy<Value = Vec<Value>> {
    let slice = (
        select(&[OF_PODS, "me", ""][..]),
        any::<bool>(),
        ports(),
        prop::collection::vec(any::<bool>(), 0..2),
    );
    let slice = (slice, prop::bool::weighted(0.1)).prop_map(|((manager, is_ipv4, ports, ready), headless)| {
        let mut labels = json!({"kubernetes.io/service-name": "web"});
        if !manager.is_empty() {
            labels["endpointslice.kubernetes.io/managed-by"] = manager.into();
        }
        if headless {
            labels["service.kubernetes.io/headless"] = "".into();
        }
        let (family, subnet) = if is_ipv4 { ("IPv4", "10.2.0.") } else { ("IPv6", "fd00::") };
        let endpoint = |(at, ready): (usize, &bool)| json!({"addresses": [format!("{subnet}{at}")], "conditions": {"ready": ready}});
        let endpoints: Vec<Value> = ready.iter().enumerate().map(endpoint).collect();
        json!({"kind": "EndpointSlice", "metadata": {"namespace": "default", "labels": labels}, "addressType": family,
            "ports": ports, "endpoints": endpoints})
    });
    prop::collection::vec(slice, 0..5).prop_map(|mut slices| {
        for (at, slice) in slices.iter_mut().enumerate() {
            slice["metadata"]["name"] = format!("web-{at}").into();
            for endpoint in slice["endpoints"].as_array_mut().unwrap() {
                // Two slices have no address in common.
                let address = endpoint["addresses"][0].as_str().unwrap().to_owned();
                endpoint["addresses"][0] = format!("{}{at}", &address[..address.len() - 1]).into();
            }
        }
        slices
    })
}

/// Returns if there is an endpoint, for each port and each family.
fn reached(service: &Service, slices: &[&EndpointSlice]) -> Vec<bool> {
    let mut all = Vec::new();
    for family in [IpFamily::IPv4, IpFamily::IPv6] {
        let routes = KubeProxy::default().routes(
            service,
            service.policies,
            slices.iter().copied(),
            family,
            Through::ClusterIp,
        );
        all.extend(routes.ports.iter().map(|port| !port.backends.is_empty()));
    }
    if service.is_headless() {
        let records = CoreDns::default().resolve(service, slices.iter().copied(), &Question::Service);
        let families = service.slice_families();
        all.extend([IpFamily::IPv4, IpFamily::IPv6].map(|family| {
            let is_of_family = |host: &str| host.contains(':') == (family == IpFamily::IPv6);
            families.contains(&family) && records.iter().any(|record| is_of_family(&record.host))
        }));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn endpoints_are_left_over_if_and_only_if_nobody_loses_the_last_endpoint(
        service in service(), endpoints in endpoints(), slices in slices(),
    ) {
        let read_service: Service = serde_json::from_value(service.clone()).unwrap();
        let read_endpoints: Endpoints = serde_json::from_value(endpoints.clone()).unwrap();
        let mirrored = plan(&PlanInputs::new(&read_service, &read_endpoints)).writes.create;
        let mirrored = mirrored.into_iter().enumerate().map(|(at, mut slice)| {
            slice.metadata.name = format!("web-m{at}").into();
            slice
        });
        let written = slices.iter().map(|slice| serde_json::from_value(slice.clone()).unwrap());
        let all: Vec<Arc<EndpointSlice>> = mirrored.chain(written).map(Arc::new).collect();
        let is_of_others = |slice: &&EndpointSlice| {
            ![OF_PODS, "endpointslicemirroring-controller.k8s.io"].iter().any(|it| slice.is_managed_by(it))
        };
        let before = reached(&read_service, &all.iter().map(|slice| &**slice).collect::<Vec<_>>());
        let after = reached(&read_service, &all.iter().map(|slice| &**slice).filter(is_of_others).collect::<Vec<_>>());
        let is_lost = before.iter().zip(&after).any(|(before, after)| *before && !after);

        let managed = Managed::read(OutputKind::Endpoints, &endpoints["metadata"]).unwrap().unwrap();
        prop_assert!(managed.is_made_from_pods());
        let remains = Remains::of(&read_service, Some(&read_endpoints), &all);
        let judgement = managed.judge_without_selector(remains);
        match &judgement {
            Judgement::Leftover(Reason::NoSelector { mirrored, .. }) => {
                prop_assert!(!is_lost, "{:?} {:?}", before, after);
                prop_assert!(mirrored.iter().all(|name| name.starts_with("web-m")));
            }
            Judgement::Kept(why) => prop_assert!(is_lost, "{why} {:?} {:?}", before, after),
            other => prop_assert!(false, "{:?}", other),
        }

        // Lint says the same.
        let mut objects = Objects::read([service, endpoints]).unwrap();
        all.iter().for_each(|slice| objects.add_slice(Arc::clone(slice), None));
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let options = LintOptions { include_info: true, ..LintOptions::default() };
        let problems = lint(&objects, now, &Options::default(), &options).problems;
        let found = problems.iter().find(|problem| problem.code.id() == "EP059");
        let sentence = found.map(|found| &*found.remedy.sentence).unwrap_or_default();
        prop_assert!(found.is_some(), "{:?}", problems);
        prop_assert_eq!(found.unwrap().object.clone(), ObjectKey::new("default", "web"));
        prop_assert_eq!(sentence.contains("once other endpoints are written"), is_lost, "{}", sentence);
    }
}

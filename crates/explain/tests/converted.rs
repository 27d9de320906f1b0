//! Tests that clients are sent to the same endpoints at each moment while a user replaces Endpoints
//! by the slices that `retire --convert` prints: for random Endpoints, and for the slices of a real
//! cluster, which were recorded while somebody did so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kube_endpoint_core_model::maker::Provenance;
use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, IpFamily, ObjectKey, Service, Text};
use kube_endpoint_explain::consumers::core_dns::{CoreDns, Question, Record};
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, Through};
use kube_endpoint_explain::retire::convert::{Conversion, Inputs, MANAGER, convert};
use kube_endpoint_mirroring::{PlanInputs, plan};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

const NODES: [&str; 3] = ["", "a", "b"];

/// Where clients are sent. Of an address that slices hold with different conditions or on different
/// nodes, kube-proxy takes any: for these only the fact counts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    proxy: BTreeMap<String, (BTreeSet<SocketAddr>, BTreeSet<SocketAddr>)>,
    dns: Vec<Vec<Record>>,
}

impl Answers {
    fn of(service: &Service, slices: &[&EndpointSlice]) -> Self {
        let mut answers = Self::default();
        for node in NODES {
            let proxy = KubeProxy { node, ..KubeProxy::default() };
            for family in [IpFamily::IPv4, IpFamily::IPv6] {
                for through in [Through::ClusterIp, Through::External, Through::ExternalFromPod] {
                    let routes =
                        proxy.routes(service, service.policies, slices.iter().copied(), family, through);
                    for port in routes.ports {
                        let undefined: BTreeSet<SocketAddr> = port.undefined.into_iter().collect();
                        let backends =
                            port.backends.into_iter().filter(|backend| !undefined.contains(backend));
                        let question =
                            format!("{node} {family:?} {through:?} {}/{}", port.name, port.protocol);
                        answers.proxy.insert(question, (backends.collect(), undefined));
                    }
                }
            }
        }
        let of_port = |port: &ServicePort| Question::Port { port: port.name.clone(), protocol: "tcp".into() };
        let names = slices.iter().flat_map(|slice| &slice.endpoints).filter_map(|it| it.hostname.clone());
        let names: BTreeSet<Text> = names.collect();
        let questions = std::iter::once(Question::Service)
            .chain(names.into_iter().map(Question::Endpoint))
            .chain(service.ports.iter().map(of_port));
        let ask = |question: Question| CoreDns::default().resolve(service, slices.iter().copied(), &question);
        answers.dns = questions.map(ask).collect();
        answers
    }

    /// Returns the number of endpoints to which some client is sent.
    fn reached(&self) -> usize {
        self.proxy.values().flat_map(|(backends, _)| backends).collect::<BTreeSet<_>>().len()
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn converted(service: &Service, endpoints: &Endpoints, provenance: &Provenance) -> Option<Conversion> {
    let inputs = Inputs {
        key: &ObjectKey::new("shop", "db"),
        endpoints: Some(endpoints),
        provenance,
        service: Some(service),
        existing: &[],
        manager: MANAGER,
    };
    convert(&inputs).ok()
}

/// Returns the slices that the mirroring controller makes, with the names that a server gives them.
fn mirrored(service: &Service, endpoints: &Endpoints, names: &[u16]) -> Vec<EndpointSlice> {
    let create = plan(&PlanInputs::new(service, endpoints)).writes.create;
    let named = create.into_iter().enumerate().map(|(at, mut slice)| {
        // Some names come before those of the conversion, and some after.
        let random = names.get(at).copied().unwrap_or_default();
        slice.metadata.name = format!("db-{random:04x}{at}").into();
        slice
    });
    named.collect()
}

fn port() -> impl Strategy<Value = Value> {
    let all = [
        json!({"name": "http", "port": 80, "protocol": "TCP"}),
        json!({"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "h2c"}),
        json!({"name": "metrics", "port": 9100, "protocol": "TCP"}),
        json!({"name": "dns", "port": 53, "protocol": "UDP"}),
        json!({"port": 80, "protocol": "TCP"}),
    ];
    select(all.to_vec())
}

fn address() -> impl Strategy<Value = Value> {
    let ip =
        select(&["10.9.0.1", "10.9.0.2", "010.9.0.2", "10.9.0.3", "fd00::1", "fd00:0::1", "fd00::2"][..]);
    (ip, select(&["", "a", "b"][..]), select(&["", "h", "i"][..]), select(&["", "p", "q"][..])).prop_map(
        |(ip, node, hostname, pod)| {
            let mut address = json!({"ip": ip});
            if !node.is_empty() {
                address["nodeName"] = node.into();
            }
            if !hostname.is_empty() {
                address["hostname"] = hostname.into();
            }
            if !pod.is_empty() {
                address["targetRef"] = json!({"kind": "Pod", "namespace": "shop", "name": pod});
            }
            address
        },
    )
}

fn endpoints() -> impl Strategy<Value = Value> {
    let addresses = || prop::collection::vec(address(), 0..5);
    let subset = (addresses(), addresses(), prop::collection::vec(port(), 0..3));
    let subset = subset.prop_map(|(ready, not_ready, ports)| json!({"addresses": ready, "notReadyAddresses": not_ready, "ports": ports}));
    prop::collection::vec(subset, 1..5).prop_map(|subsets| {
        json!({"metadata": {"name": "db", "namespace": "shop", "uid": "e", "labels": {"team": "data"}}, "subsets": subsets})
    })
}

fn service() -> impl Strategy<Value = Value> {
    let ports = subsequence(
        vec![
            json!({"name": "http", "port": 80, "protocol": "TCP"}),
            json!({"name": "metrics", "port": 81, "protocol": "TCP"}),
            json!({"name": "dns", "port": 53, "protocol": "UDP"}),
            json!({"port": 82, "protocol": "TCP"}),
        ],
        1..=4,
    );
    let cluster_ip = select(&["10.96.0.9", "10.96.0.9", "None"][..]);
    let families = select(vec![json!(["IPv4"]), json!(["IPv6"]), json!(["IPv4", "IPv6"])]);
    (ports, cluster_ip, families, select(&["Cluster", "Local"][..])).prop_map(
        |(ports, cluster_ip, families, policy)| {
            json!({"metadata": {"name": "db", "namespace": "shop", "uid": "s"}, "spec": {
                "clusterIP": cluster_ip, "ipFamilies": families, "ports": ports, "type": "NodePort",
                "internalTrafficPolicy": policy, "externalTrafficPolicy": policy}})
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The user applies the slices one after the other and deletes the Endpoints, and the mirrored
    /// slices go one after the other.
    #[test]
    fn clients_are_sent_to_the_same_endpoints_all_the_time(
        service in service(),
        endpoints in endpoints(),
        names in prop::collection::vec(any::<u16>(), 16),
        order in Just((0..32usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let (service, endpoints) = (read::<Service>(&service), read::<Endpoints>(&endpoints));
        let Some(converted) = converted(&service, &endpoints, &Provenance::default()) else {
            // Two ports have one name, or there is no address.
            return Ok(());
        };
        let mirrored = mirrored(&service, &endpoints, &names);
        let shuffled = |slices: &[EndpointSlice]| -> Vec<EndpointSlice> {
            order.iter().filter_map(|at| slices.get(*at)).cloned().collect()
        };
        let (old, new) = (shuffled(&mirrored), shuffled(&converted.slices));
        prop_assert_eq!((old.len(), new.len()), (mirrored.len(), converted.slices.len()));
        let before = Answers::of(&service, &mirrored.iter().collect::<Vec<_>>());
        for applied in 0..=new.len() {
            let state: Vec<&EndpointSlice> = mirrored.iter().chain(&new[..applied]).collect();
            prop_assert_eq!(&Answers::of(&service, &state), &before, "{} of {} are applied", applied, new.len());
        }
        for deleted in 0..=old.len() {
            let state: Vec<&EndpointSlice> = old[deleted..].iter().chain(&new).collect();
            prop_assert_eq!(&Answers::of(&service, &state), &before, "{} of {} are deleted", deleted, old.len());
        }
        // The garbage collector takes nothing with the Endpoints, and no controller claims a slice.
        for slice in &converted.slices {
            prop_assert!(slice.metadata.owner_references.is_empty());
            prop_assert!(slice.is_managed_by(MANAGER) && slice.endpoints.len() <= 1000);
        }
    }
}

/// The names are other ones, and the API server adds fields.
fn content(slice: &EndpointSlice) -> Value {
    let metadata = &slice.metadata;
    let labels: BTreeMap<String, String> =
        metadata.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    json!([metadata.name, labels, slice.address_type, slice.ports, slice.endpoints])
}

/// `converted/recorded.json` has the slices of a Service, as `kubectl get endpointslices -o json
/// --watch --output-watch-events` printed them on an API server with kube-controller-manager
/// 1.36.2. First these are the mirrored ones. Then somebody followed the steps that the command
/// prints: `kubectl apply --server-side` with the list that it printed, and three seconds later
/// `kubectl delete endpoints`. The slices of the list were still there 15 seconds later.
#[test]
fn on_a_real_cluster_clients_are_sent_to_the_same_endpoints_all_the_time() {
    let recorded: Value = serde_json::from_str(include_str!("converted/recorded.json")).unwrap();
    let service: Service = read(&recorded["service"]);
    let endpoints: Endpoints = read(&recorded["endpoints"]);
    let provenance: Provenance = read(&recorded["endpoints"]["metadata"]);
    let converted = converted(&service, &endpoints, &provenance).unwrap();
    let mut slices: BTreeMap<Text, EndpointSlice> = BTreeMap::new();
    let mut before: Option<Answers> = None;
    let mut events = (0, 0);
    for event in recorded["events"].as_array().unwrap() {
        let slice: EndpointSlice = read(&event["object"]);
        let is_mirrored = !slice.is_managed_by(MANAGER);
        let name = slice.metadata.name.clone();
        match event["type"].as_str().unwrap() {
            "DELETED" => {
                assert!(slices.remove(&name).is_some());
                events.1 += 1;
            }
            _ => {
                slices.insert(name.clone(), slice);
                events.0 += 1;
            }
        }
        // The watch begins with all mirrored slices.
        if is_mirrored && before.is_none() {
            continue;
        }
        let answers = |slices: &BTreeMap<Text, EndpointSlice>| {
            Answers::of(&service, &slices.values().collect::<Vec<_>>())
        };
        let first = before.get_or_insert_with(|| {
            answers(
                &slices
                    .iter()
                    .filter(|(_, slice)| !slice.is_managed_by(MANAGER))
                    .map(|(name, slice)| (name.clone(), slice.clone()))
                    .collect(),
            )
        });
        assert_eq!(answers(&slices), *first, "after {name}");
    }
    assert_eq!(events, (8, 4));
    assert_eq!(before.unwrap().reached(), 6);
    let left: Vec<Value> = slices.values().map(content).collect();
    let printed: BTreeMap<&Text, &EndpointSlice> =
        converted.slices.iter().map(|slice| (&slice.metadata.name, slice)).collect();
    assert_eq!(left, printed.into_values().map(content).collect::<Vec<_>>());
}

//! Tests of public bugs that a named history does not show, or not all of them.
//! `docs/bugs-replayed.md` names them.

use kube_endpoint_core_model::slice::{AddressType, Endpoint};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Service, Writes};
use kube_endpoint_mirroring::plan as mirroring;
use kube_endpoint_simulation::{History, simulate_with_transcript};
use kube_endpoint_slice_plan::{PlanInputs, plan};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Plays a history, whose rules `named` checks, and returns the lines of its transcript.
fn transcript(name: &str) -> Vec<String> {
    let outcome = simulate_with_transcript(&History::named(name).unwrap());
    outcome.transcript.into_iter().map(|line| line.text).collect()
}

/// Returns the writes about the Service `web` and its slices of each address type.
fn writes(cluster: &Cluster) -> Vec<(AddressType, Writes<EndpointSlice>)> {
    let plan = cluster.plan("web", |of| {
        let slices = of.slices_managed_by(MANAGER);
        plan(&PlanInputs::new(of.service(), &of.pods, &of.nodes).with_existing_slices(&slices))
    });
    plan.sub_plans.into_iter().map(|it| (it.address_type, it.writes)).collect()
}

/// Returns the slices that a Service without slices gets, with their addresses.
fn slices(cluster: &Cluster) -> Vec<(AddressType, Vec<String>)> {
    let created = writes(cluster).into_iter().flat_map(|(_, writes)| writes.create);
    let addresses = |slice: &EndpointSlice| {
        slice.endpoints.iter().map(|it| it.addresses[0].to_string()).collect::<Vec<_>>()
    };
    created.map(|slice| (slice.address_type, addresses(&slice))).collect()
}

fn with_pods_of_both_families(cluster: Cluster) -> Cluster {
    let cluster = cluster.pod("a", &[("app", "web")]).addresses(&["10.1.0.1", "fd00::1"]);
    cluster.pod("b", &[("app", "web")]).addresses(&["10.1.0.2", "fd00::2"])
}

fn texts(texts: [&str; 2]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

#[test]
fn kubernetes_94505() {
    let cluster = with_pods_of_both_families(Cluster::new().node("n").service("web").ipv6());
    assert_eq!(slices(&cluster), [(AddressType::IPv6, texts(["fd00::1", "fd00::2"]))]);
}

#[test]
fn prometheus_operator_8681() {
    let cluster = Cluster::new().node("n").service("web").dual_stack();
    let v6_first = cluster.change(|it| it["spec"]["ipFamilies"] = json!(["IPv6", "IPv4"]));
    let mut slices = slices(&with_pods_of_both_families(v6_first));
    slices.sort();
    let v4 = (AddressType::IPv4, texts(["10.1.0.1", "10.1.0.2"]));
    assert_eq!(slices, [v4, (AddressType::IPv6, texts(["fd00::1", "fd00::2"]))]);
}

/// A Service gets a second family: the slice of the first one stays as it is.
#[test]
fn linkerd2_12427() {
    let single = with_pods_of_both_families(Cluster::new().node("n").service("web"));
    let mut cluster = single.clone();
    for (_, writes) in writes(&single) {
        cluster = cluster.apply(&writes);
    }
    let families = json!(["IPv4", "IPv6"]);
    let dual = cluster.select("Service", "web").change(|it| it["spec"]["ipFamilies"] = families.clone());
    assert_eq!(slices(&dual), [(AddressType::IPv6, texts(["fd00::1", "fd00::2"]))]);
    assert!(writes(&dual).iter().all(|(_, it)| it.update.is_empty() && it.delete.is_empty()));
}

#[test]
fn kubernetes_84388() {
    let name = "http-legacy-discovery-of-the-pilot-in-the-first-of-all-clusters";
    assert_eq!(name.len(), 63);
    let cluster =
        Cluster::new().node("n").service("web").port("http", 80, 8080).port(name, 81, 8081).pods("web", 1);
    let writes = writes(&cluster);
    let ports = &writes[0].1.create[0].ports;
    assert!(ports.iter().any(|port| port.name.as_deref() == Some(name)), "{ports:?}");
}

/// Puts a slice right that somebody has changed, and returns it.
fn put_right(change: impl Fn(&mut Value)) -> EndpointSlice {
    let cluster = Cluster::new().node("n").service("web").pods("web", 1).slice("web", "made", &["10.1.0.1"]);
    let cluster = cluster.managed_by(MANAGER).change(change);
    let mut last = cluster.clone();
    for (_, writes) in writes(&cluster) {
        last = last.apply(&writes);
    }
    assert!(writes(&last).iter().all(|(_, writes)| writes.is_empty()), "it is right after one plan");
    let [slice] = &last.inputs("web").slices_managed_by(MANAGER)[..] else { panic!("one slice") };
    EndpointSlice::clone(slice)
}

/// As [`put_right`], with a slice that has these endpoints and no ports. Returns its endpoints.
fn endpoints_put_right(endpoints: &Value) -> Vec<Endpoint> {
    let slice = put_right(|it| {
        it["endpoints"] = endpoints.clone();
        it["ports"] = Value::Null;
    });
    slice.endpoints.to_vec()
}

#[test]
fn linkerd2_5521() {
    let foreign = json!({"name": "metrics", "port": 9090, "protocol": "TCP"});
    for ports in [
        Value::Null,
        json!([]),
        json!([foreign]),
        json!([foreign, foreign]),
        json!([{}]),
        json!([{"name": null, "port": null, "protocol": null}]),
        json!([{"name": "http", "protocol": "SCTP"}]),
    ] {
        let slice = put_right(|it| it["ports"] = ports.clone());
        let numbers: Vec<Option<i32>> = slice.ports.iter().map(|it| it.port).collect();
        assert_eq!(numbers, [Some(8080)], "{ports}");
    }
}

#[test]
fn kube_router_1583() {
    for endpoints in [
        json!([{"addresses": ["10.1.0.1"], "nodeName": "n"}]),
        json!([{"addresses": ["10.1.0.1"], "conditions": null}]),
        json!([{"addresses": ["10.1.0.1"], "conditions": {"serving": true}}]),
        Value::Null,
    ] {
        let endpoints = endpoints_put_right(&endpoints);
        assert_eq!(endpoints.len(), 1);
        assert_eq!(endpoints[0].conditions.ready, Some(true));
    }
}

#[test]
fn cloud_provider_kubevirt_354() {
    for endpoints in [
        json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": true}, "nodeName": null, "targetRef": null}]),
        json!([{"addresses": [], "conditions": {"ready": true}}]),
        json!([{"addresses": null}]),
    ] {
        let endpoints = endpoints_put_right(&endpoints);
        assert_eq!(endpoints.len(), 1);
        assert_eq!(endpoints[0].node_name.as_deref(), Some("n"));
    }
}

/// An address that is ready in one subset and not in another, with the same ports.
#[test]
fn kubernetes_121556() {
    let ports = json!([{"name": "web", "port": 80, "protocol": "TCP"}]);
    let endpoints: Endpoints = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "subsets": [
            {"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}], "ports": ports},
            {"notReadyAddresses": [{"ip": "192.0.2.1"}], "ports": ports},
        ],
    }))
    .unwrap();
    let service = Service::default();
    let plan = mirroring::plan(&mirroring::PlanInputs::new(&service, &endpoints));
    let created = plan.writes.create.iter().flat_map(|slice| &slice.endpoints);
    let mut addresses: Vec<String> = created.map(|it| it.addresses[0].to_string()).collect();
    addresses.sort();
    assert_eq!(addresses, ["192.0.2.1", "192.0.2.2"]);
}

/// Returns how many slices were added or deleted in the first two minutes.
fn count(lines: &[String], change: &str) -> usize {
    let changed = format!(" {change} endpointslices ");
    lines.iter().filter(|line| line.as_str() < "00:02" && line.contains(&changed)).count()
}

/// One slice is created for each family.
#[test]
fn lighthouse_1646() {
    let lines = transcript("label-added-to-service");
    assert_eq!((count(&lines, "Added"), count(&lines, "Deleted")), (2, 0));
}

/// All slices but one go.
#[test]
fn cilium_20251() {
    let lines = transcript("last-pod-leaves-many-slices");
    assert!(count(&lines, "Added") > 4);
    assert_eq!(count(&lines, "Added"), count(&lines, "Deleted") + 1);
}

/// A minute after the node went, and while nothing else changes, a slice is written.
#[test]
fn karmada_3546() {
    let lines = transcript("node-of-pods-removed");
    let quiet = lines.iter().filter(|line| ("00:01".."00:05").contains(&line.as_str()));
    assert!(quiet.filter(|line| line.contains(" endpointslices ")).count() > 0);
}

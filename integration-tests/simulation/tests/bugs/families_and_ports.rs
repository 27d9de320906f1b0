//! Address families, ports, and slices with missing fields.

use kube_endpoint_core_model::slice::{AddressType, Endpoint};
use kube_endpoint_core_model::{EndpointSlice, Writes};
use kube_endpoint_slice_plan::{PlanInputs, plan};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

const MANAGER: &str = "endpointslice-controller.k8s.io";

bugs! {
    "Families and ports";
    kubernetes_94505 in "integration-tests/simulation/tests/bugs/families_and_ports.rs::kubernetes_94505",
        "The slices of an IPv6 Service had the IPv4 addresses of pods that have both.",
        "A slice has one family, that of the Service, and the addresses of its pods in it.";
    kubernetes_94673 in "endpoints-controller/tests/plan.rs::only_addresses_of_the_first_family_are_published",
        "The Endpoints of a headless IPv6 Service had IPv4 addresses, because it has no cluster IP to tell the family.",
        "The Service's families decide, and pods without an address of the first one are left out.";
    prometheus_operator_8681 in "integration-tests/simulation/tests/bugs/families_and_ports.rs::prometheus_operator_8681",
        "On clusters with IPv6 first, slices had the IPv4 address of each node only.",
        "Each family of a Service has slices of its own.";
    linkerd2_12427 in "integration-tests/simulation/tests/bugs/families_and_ports.rs::linkerd2_12427",
        "Slices of two families name the same pod; the addresses of one replaced those of the other.",
        "Families are planned apart, each from its own slices.";
    kubernetes_126004 in "endpointslice-controller/tests/controller/telemetry.rs::both_families_of_a_dual_stack_service_are_counted",
        "Metrics counted one family of a dual-stack Service.",
        "Both count.";
    kubernetes_32796 = "headless-service-without-ports",
        "A headless Service without ports had no endpoints.",
        "It has slices and Endpoints without ports.";
    kubernetes_62440 in "endpoints-controller/tests/plan.rs::a_headless_service_needs_no_ports_and_publishes_hostnames",
        "Its Endpoints then got the port 0, which the server refused.",
        "They have no ports.";
    kubernetes_84388 in "integration-tests/simulation/tests/bugs/families_and_ports.rs::kubernetes_84388",
        "A port's name of more than 15 characters is valid for a Service and was not for a slice, so nothing was published.",
        "The name is copied whole; the server has accepted 63 characters since then.";
    linkerd2_5521 in "integration-tests/simulation/tests/bugs/families_and_ports.rs::linkerd2_5521",
        "A slice without the port that was asked for made the controller panic.",
        "A slice without ports, or with ports that its Service lacks, is put right like any other.";
    kube_router_1583 in "integration-tests/simulation/tests/bugs/families_and_ports.rs::kube_router_1583",
        "A slice whose endpoints lack the condition ready made the process panic.",
        "No field of a slice that somebody else has written is taken for granted. Here it is put right.";
    cloud_provider_kubevirt_354 in "integration-tests/simulation/tests/bugs/families_and_ports.rs::cloud_provider_kubevirt_354",
        "An endpoint without the name of its node made the controller panic.",
        "The same.";
    fleetboard_32 in "slice-plan/tests/laws.rs::slices_have_the_headless_label_if_their_service_is_headless",
        "The slices of a headless Service lacked the label that tells proxies to ignore them.",
        "They have it, and others lack it. A law says so of any history.";
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

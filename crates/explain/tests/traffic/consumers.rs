//! Tests Services for which kube-proxy and DNS use other endpoints than the ready ones.

use kube_endpoint_explain::{Status, explain_pod};
use serde_json::json;

use super::known::said;
use super::*;

/// Returns the pods `web-1` on the node `a` and `web-2` on `b`, and a node `c` without a pod.
fn three_nodes() -> Cluster {
    let cluster = Cluster::new().node("a").zone("eu-1").node("b").zone("eu-2").node("c").zone("eu-3");
    cluster.service("web").pods("web", 2).select("Pod", "web-1").on("a").select("Pod", "web-2").on("b")
}

fn with(cluster: Cluster, change: Value) -> Cluster {
    cluster.select("Service", "web").change(move |service| json_patch::merge(service, &change))
}

fn internal_local(cluster: Cluster) -> Cluster {
    with(cluster, json!({"spec": {"internalTrafficPolicy": "Local"}}))
}

fn other_slice(name: &str, endpoints: Value) -> Value {
    json!({"kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "example.com"}},
        "endpoints": endpoints})
}

/// This shows all texts for a reader, for each case of a table.
#[test]
fn what_consumers_do_otherwise_is_told_to_a_reader() {
    let ended = |cluster: Cluster| cluster.select("Pod", "web-1").terminating();
    let node_port = json!({"spec": {"externalTrafficPolicy": "Local", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}]}});
    let labelled = |cluster: Cluster, label: &str, value: &str| {
        with(cluster, json!({"metadata": {"labels": {label: value}}}))
    };
    let proxy = "service.kubernetes.io/service-proxy-name";
    let cases = [
        ("internalTrafficPolicy: Local", settled(internal_local(three_nodes()))),
        ("the same, and the pod of one node is being deleted", settled(internal_local(ended(three_nodes())))),
        ("externalTrafficPolicy: Local", settled(with(three_nodes(), node_port))),
        (
            "a headless Service, which has no policies",
            settled(internal_local(three_nodes().select("Service", "web").port("", 8080, 8080).headless())),
        ),
        ("a label for another proxy", settled(labelled(three_nodes(), proxy, ""))),
        (
            "an endpoint without a hint",
            settled(with(three_nodes(), json!({"spec": {"trafficDistribution": "PreferSameZone"}}))).with(
                other_slice("outside", json!([{"addresses": ["10.9.0.1"], "conditions": {"ready": true}}])),
            ),
        ),
        (
            "two slices that do not agree",
            settled(three_nodes()).with(other_slice(
                "aaa",
                json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": false, "serving": false}}]),
            )),
        ),
    ];
    let texts: Vec<String> =
        cases.iter().map(|(what, cluster)| format!("=== {what}\n{}", text(cluster, ""))).collect();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn nodes_that_may_not_be_read_are_not_claimed_to_lack_an_endpoint() {
    let cluster = settled(internal_local(three_nodes()));
    assert_eq!(headline(&cluster, "nodes"), "ok EP000 2 of 2 pods receive traffic");
    let fault = explained(&cluster, "nodes").faults[0].to_string();
    insta::assert_snapshot!(fault, @"the Service's internalTrafficPolicy is Local, and 2 nodes have an endpoint; whether there are other nodes could not be read");
    assert_eq!(linted(&cluster, ""), ["warning EP048"]);
    assert_eq!(linted(&cluster, "nodes"), [""; 0]);
}

/// Nodes that take no ordinary pods have few clients, and a DaemonSet has no pods there.
#[test]
fn a_pod_on_each_node_that_takes_pods_is_enough() {
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "gpu", "effect": effect}]}});
    let cordoned = json!({"spec": {"unschedulable": true}});
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let of = |change: &Value| {
        let change = change.clone();
        let cluster = three_nodes().select("Node", "c");
        settled(internal_local(cluster.change(move |node| json_patch::merge(node, &change))))
    };
    for closed in [taint("NoSchedule"), taint("NoExecute"), cordoned, not_ready] {
        assert_eq!(codes(&of(&closed), ""), "ok EP000: ", "{closed}");
        let headline = headline(&of(&closed).node("d"), "");
        assert!(
            headline.contains("1 of 3 nodes (without 1 that keeps ordinary pods away) has no endpoint"),
            "{headline}"
        );
        assert!(headline.ends_with("get no answer: d"), "{headline}");
    }
    assert_eq!(codes(&of(&taint("PreferNoSchedule")), ""), "degraded EP048: EP048");
}

/// A load balancer asks the health check of each node, which a Service of another type lacks.
#[test]
fn what_nodes_without_an_endpoint_do_to_clients_from_outside_is_told() {
    let ports = json!([{"port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}]);
    let of = |change: Value| {
        let spec = json!({"externalTrafficPolicy": "Local", "ports": ports});
        with(with(three_nodes(), json!({"spec": spec})), change)
    };
    let told = |cluster: &Cluster| {
        let explanation = explained(cluster, "");
        let advice = &explanation.to_do[0];
        let (severity, message) = (advice.severity, &advice.message);
        format!("{:?}: {severity}: {message}\n-> {}", explanation.verdict.status, advice.remedy.sentence)
    };
    let balancer = json!({"spec": {"type": "LoadBalancer", "healthCheckNodePort": 31000}});
    let outside = |node: &str| {
        let slice = other_slice("web-1", json!([{"addresses": ["10.9.0.1"], "nodeName": node}]));
        with(of(json!({})).select("Service", "web").without_selector(), json!({})).with(slice)
    };
    let texts = [
        told(&settled(of(balancer))),
        told(&settled(of(json!({})))),
        // No node passes the health check.
        told(&outside("gone")),
        told(&outside("a")),
    ];
    insta::assert_snapshot!(texts.join("\n\n"));
}

/// Each node has an endpoint, and one more is on a node that does not exist: nobody is sent there.
#[test]
fn an_endpoint_of_a_missing_node_is_told_although_each_node_has_one() {
    let cluster = Cluster::new().node("a").service("web").publish_not_ready().pods("web", 2);
    let cluster = settled(internal_local(cluster.select("Pod", "web-2").on("gone")));
    insta::assert_snapshot!(headline(&cluster, ""), @"degraded EP048 1 of 2 pods receive traffic; the Service's internalTrafficPolicy is Local, and endpoints are on nodes that do not exist, so no client is sent to them: gone");
    assert_eq!(codes(&cluster, ""), "degraded EP048: EP048");
    // The plugin assumes that nodes exist that it may not read.
    let headline = headline(&cluster, "nodes");
    assert!(headline.starts_with("ok EP000 2 of 2 pods receive traffic"), "{headline}");
}

/// The clients of each node have no other endpoints, so one that ends counts although others are
/// ready.
#[test]
fn a_pod_that_ends_receives_the_traffic_of_its_own_node() {
    let ending = || three_nodes().select("Pod", "web-1").terminating();
    assert_eq!(said(&settled(ending()), "", true), "NO TRAFFIC 0 EP013 Some(false)");
    assert_eq!(said(&settled(internal_local(ending())), "", true), "OK 0 EP013 Some(true)");
}

/// No endpoint names its node, so kube-proxy of no node sends clients to it.
#[test]
fn endpoints_without_a_node_receive_nothing_by_the_policy_local() {
    let by_hand = |policy: &str| {
        let service = json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.10",
            "ipFamilies": ["IPv4"], "internalTrafficPolicy": policy, "ports": [{"port": 80, "protocol": "TCP"}]}});
        Cluster::new()
            .node("a")
            .with(service)
            .with(other_slice("web-1", json!([{"addresses": ["10.9.0.1"]}])))
    };
    assert_eq!(headline(&by_hand("Cluster"), ""), "ok EP000 1 of 1 addresses receive traffic");
    insta::assert_snapshot!(headline(&by_hand("Local"), ""), @"down EP048 0 of 1 addresses receive traffic; the Service's internalTrafficPolicy is Local, and no endpoint names a node that exists, so clients on any node get no answer");
    assert_eq!(explained(&by_hand("Local"), "").verdict.status, Status::Down);
}

/// The endpoint names a deleted node.
#[test]
fn endpoints_of_deleted_nodes_receive_nothing_by_the_policy_local() {
    let of = |policies: Value, nodes: &[&str]| {
        let service = json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.10",
            "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}});
        let endpoints = json!([{"addresses": ["10.9.0.1"], "nodeName": "gone"}]);
        let cluster = Cluster::new().with(service).with(other_slice("web-1", endpoints));
        with(nodes.iter().fold(cluster, |cluster, node| cluster.node(node)), json!({"spec": policies}))
    };
    let internal = || json!({"internalTrafficPolicy": "Local"});
    insta::assert_snapshot!(headline(&of(json!({}), &["a"]), ""), @"down EP089 0 of 1 addresses receive traffic; slice web-1 sends clients to 10.9.0.1 on node gone, which does not exist any more");
    insta::assert_snapshot!(headline(&of(internal(), &["a"]), ""), @"down EP048 0 of 1 addresses receive traffic; the Service's internalTrafficPolicy is Local, and no endpoint names a node that exists, so clients on any node get no answer");
    assert_eq!(headline(&of(internal(), &["a", "gone"]), "").split(' ').next(), Some("degraded"));
    // The explanation assumes that unknown nodes exist.
    assert_eq!(headline(&of(internal(), &["a"]), "nodes"), "ok EP000 1 of 1 addresses receive traffic");
}

/// kube-proxy follows hints while some ready endpoint has a hint for its zone or node.
#[test]
fn hints_for_zones_or_nodes_that_do_not_exist_keep_clients_away() {
    let zone = |name: &str| json!({"forZones": [{"name": name}]});
    let node = |name: &str| json!({"forZones": [{"name": "eu-1"}], "forNodes": [{"name": name}]});
    let receiving = |first: &Value, second: &Value, nodes: &[(&str, &str)], forbidden: &str| {
        let service = json!({"kind": "Service", "metadata": {"name": "web"}, "spec": {"clusterIP": "10.96.0.10",
            "ipFamilies": ["IPv4"], "ports": [{"port": 80, "protocol": "TCP"}]}});
        let endpoints = json!([{"addresses": ["10.9.0.1"], "hints": first}, {"addresses": ["10.9.0.2"], "hints": second}]);
        let cluster = Cluster::new().with(service).with(other_slice("web-1", endpoints));
        let cluster = nodes.iter().fold(cluster, |cluster, (name, zone)| cluster.node(name).zone(zone));
        explained(&cluster, forbidden).pods_by_publication.receiving.unwrap()
    };
    let one = [("a", "eu-1")];
    let two = [("a", "eu-1"), ("b", "eu-2")];
    for (first, second, nodes, want) in [
        (zone("eu-1"), zone("eu-2"), &two[..], 2),
        (zone("eu-1"), zone("gone"), &one, 1),
        // Clients in the zone eu-2 follow no hints.
        (zone("eu-1"), zone("gone"), &two, 2),
        (zone("gone"), zone("gone"), &one, 2),
        (zone("eu-1"), Value::Null, &one, 2),
        (node("a"), node("b"), &two, 2),
        (node("a"), node("gone"), &one, 1),
        // Clients on the other node of the zone follow the hints for the zone.
        (node("a"), node("gone"), &[("a", "eu-1"), ("c", "eu-1")], 2),
        (zone("eu-1"), zone("gone"), &[], 2),
    ] {
        assert_eq!(receiving(&first, &second, nodes, ""), want, "{first} {second} {nodes:?}");
        assert_eq!(receiving(&first, &second, nodes, "nodes"), 2, "{first} {second} {nodes:?}");
    }
}

/// By the policy `Local` the node of an entry counts.
#[test]
fn entries_of_several_nodes_are_told_by_the_policy_local() {
    let of = |policy: &str| {
        let entry = |node: &str| json!([{"addresses": ["10.9.0.1"], "nodeName": node}]);
        let cluster =
            settled(three_nodes()).with(other_slice("one", entry("a"))).with(other_slice("two", entry("b")));
        let cluster = with(cluster, json!({"spec": {"internalTrafficPolicy": policy}}));
        let faults = explained(&cluster, "").faults;
        faults
            .iter()
            .map(|fault| fault.to_string())
            .find(|text| text.contains("10.9.0.1"))
            .unwrap_or_default()
    };
    insta::assert_snapshot!([of("Cluster"), of("Local")].join("\n"), @r"
    10.9.0.1 is in several slices: one, two
    10.9.0.1 is in several slices: one, two; the slices differ in its conditions, hints or node, and kube-proxy takes those of any of them
    ");
}

#[test]
fn clients_of_an_external_address_are_sent_to_all_nodes() {
    let accessible = |cluster: Cluster| with(cluster, json!({"spec": {"externalIPs": ["192.0.2.9"]}}));
    let no_node = |cluster: Cluster| {
        cluster.select("EndpointSlice", "web-00001").change(|slice| {
            slice["endpoints"].as_array_mut().unwrap().iter_mut().for_each(|endpoint| {
                endpoint.as_object_mut().unwrap().remove("nodeName");
            });
        })
    };
    let counts = |cluster: Cluster| explained(&cluster, "").pods_by_publication.receiving;
    assert_eq!(counts(no_node(settled(internal_local(three_nodes())))), Some(0));
    assert_eq!(counts(no_node(settled(accessible(internal_local(three_nodes()))))), Some(2));
}

/// kube-proxy chooses for each family by itself: clients of one have ready endpoints only, those of
/// the other an endpoint that ends.
#[test]
fn each_family_falls_back_by_itself() {
    let cluster =
        settled(three_nodes().select("Service", "web").dual_stack().select("Pod", "web-1").terminating());
    let only_ipv4 = cluster.select("Pod", "web-2").addresses(&["10.1.0.2"]);
    let headline = headline(&settled(only_ipv4), "");
    assert!(headline.contains("1 of 1 pods receive traffic, and 1 more until it is deleted"), "{headline}");
}

/// CoreDNS lists pods whatever ports they have.
#[test]
fn dns_lists_the_pods_of_a_headless_service_without_its_ports() {
    let mistyped = |cluster: Cluster| {
        with(
            cluster,
            json!({"spec": {"ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "htpp"}]}}),
        )
    };
    let headless = settled(mistyped(three_nodes()).select("Service", "web").headless());
    insta::assert_snapshot!(headline(&headless, ""), @r#"degraded EP012 2 of 2 pods receive traffic; 2 pods: no container port named "htpp" (TCP); the pod has http=8080/TCP; DNS answers with its address, without this port"#);
    insta::assert_snapshot!(headline(&settled(mistyped(three_nodes())), ""), @r#"down EP012 0 of 2 pods receive traffic; 2 pods: no container port named "htpp" (TCP); the pod has http=8080/TCP"#);
}

/// The pod's own slice holds it as ready, and the one that kube-proxy takes here does not.
#[test]
fn a_pod_that_is_published_and_receives_nothing_is_told_so() {
    let not_ready = json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": false, "serving": false}}]);
    let cluster = settled(three_nodes()).with(other_slice("aaa", not_ready));
    assert_eq!(said(&cluster, "", true), "NO TRAFFIC 0 EP000 Some(false)");
    let (objects, options) = reading(&cluster, "");
    let pod = ObjectKey::new("default", "web-1");
    let says = explain_pod(&objects, &pod, &objects.topology(), now(), &options).unwrap();
    insta::assert_snapshot!(says.text(Layout::NARROW, now()).render(Colors::Off));
}

#[test]
fn only_the_first_address_of_an_endpoint_counts() {
    let swapped = settled(three_nodes()).select("EndpointSlice", "web-00001").change(|slice| {
        slice["endpoints"][0]["addresses"].as_array_mut().unwrap().insert(0, json!("10.9.0.9"));
    });
    assert_eq!(explained(&swapped, "").pods_by_publication.receiving, Some(1));
}

/// A Service is not down while clients have endpoints that somebody else wrote.
#[test]
fn endpoints_that_somebody_else_wrote_keep_a_service_up() {
    let other = |ready: bool| {
        other_slice("outside", json!([{"addresses": ["10.9.0.1"], "conditions": {"ready": ready}}]))
    };
    let no_pods = || Cluster::new().node("a").service("web");
    let not_ready = || no_pods().pods("web", 1).select("Pod", "web-1").not_ready();
    let own = || other_slice("outside", json!([{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]));
    let lines = [
        headline(&settled(not_ready().with(other(true))), ""),
        headline(&settled(not_ready().with(other(false))), ""),
        headline(&settled(not_ready().with(own())), ""),
        headline(&settled(no_pods().with(other(true))), ""),
        headline(&settled(three_nodes().with(other(true))), ""),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_pods_of_a_headless_service_without_slices_tell_their_ports() {
    let headless = |port: i32| {
        let ports = json!([{"name": "http", "port": port, "targetPort": 8080, "protocol": "TCP"}]);
        let cluster = Cluster::new().node("a").service("web").headless().pods("web", 1);
        with(cluster, json!({"spec": {"ports": ports}}))
    };
    let is_told = |cluster: &Cluster| codes(cluster, "").contains("EP066");
    assert!(is_told(&headless(80)) && is_told(&settled(headless(80))));
    assert!(!is_told(&headless(8080)) && !is_told(&settled(headless(8080))));
}

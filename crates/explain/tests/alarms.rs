//! Tests that what is done on purpose, or works, is no problem.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{
    Code, Explanation, LintOptions, Objects, Options, Planned, Severity, Status, explain, lint,
};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// Carries out the writes of slices, and of Endpoints if that controller runs.
fn settled(cluster: Cluster, writes_endpoints: bool) -> Cluster {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let options = options();
    let planned = Planned::new(&objects, &key(), &objects.topology(), now(), &options);
    let cluster = planned.slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
    let endpoints = planned.endpoints_writes().filter(|_| writes_endpoints);
    endpoints.fold(cluster, |cluster, writes| cluster.apply(writes))
}

/// Slices of two endpoints, so that a few pods fill several.
fn options() -> Options {
    let mut options = Options::default();
    options.slices.max_endpoints_per_slice = 2;
    options
}

fn explained(cluster: &Cluster) -> Explanation {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    explain(&objects, &key(), &objects.topology(), now(), None, &options()).unwrap()
}

fn web(pods: usize) -> Cluster {
    Cluster::new().node("a").service("web").port("http", 80, "http").pods("web", pods)
}

/// Pods in the network of a node have its address.
fn of_one_address(cluster: Cluster, pods: usize) -> Cluster {
    (1..=pods).fold(cluster, |cluster, at| {
        cluster.select("Pod", &format!("web-{at}")).change(|pod| {
            pod["spec"]["hostNetwork"] = json!(true);
            pod["status"]["podIP"] = json!("192.0.2.10");
            pod["status"]["podIPs"] = json!([{"ip": "192.0.2.10"}]);
        })
    })
}

#[test]
fn pods_in_the_network_of_one_node_are_no_duplicates() {
    let cluster = settled(of_one_address(web(4), 4), true);
    let slices = cluster.objects().iter().filter(|object| object["kind"] == "EndpointSlice");
    assert_eq!(slices.count(), 2);
    let explanation = explained(&cluster);
    assert_eq!((explanation.verdict.status, explanation.codes()), (Status::Ok, Vec::new()));
    // One pod in two slices is a duplicate, and so is an address without a pod.
    let copy = |target: Value| {
        json!({"kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "copy", "labels": {"kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "example.com/copy"}},
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": ["192.0.2.10"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "targetRef": target, "nodeName": "a"}]})
    };
    for (target, is_told) in [
        (json!({"kind": "Pod", "namespace": "default", "name": "web-1"}), true),
        (Value::Null, true),
        (json!({"kind": "Pod", "namespace": "default", "name": "other-1"}), false),
    ] {
        let codes = explained(&settled(cluster.clone(), true).with(copy(target.clone()))).codes();
        assert_eq!(codes.contains(&Code::DuplicateEndpoint), is_told, "{target}");
    }
}

/// kube-proxy and DNS read slices. Without an endpoints controller, no Service has up-to-date
/// Endpoints, and each one works.
#[test]
fn a_cluster_without_the_endpoints_controller_is_not_degraded() {
    let never = settled(web(2), false);
    let later = settled(settled(web(2), true).select("Pod", "web-2").not_ready(), false);
    for (cluster, status) in [(never, Status::Ok), (later, Status::Degraded)] {
        let explanation = explained(&cluster);
        let advice = explanation.to_do.iter().find(|advice| advice.code == Code::EndpointsBehind).unwrap();
        assert_eq!(advice.severity, Severity::Info);
        assert!(advice.remedy.sentence.starts_with("Nothing, if"), "{}", advice.remedy.sentence);
        // A pod that is not ready is another fault.
        assert_eq!(explanation.verdict.status, status);
    }
    // If the slices are behind, too, the controllers do not work.
    let explanation = explained(&web(2));
    let behind = explanation.to_do.iter().find(|advice| advice.code == Code::EndpointsBehind).unwrap();
    assert_eq!(behind.severity, Severity::Warning);
}

/// DNS answers with the pods of a headless Service, whatever their ports are.
#[test]
fn a_headless_service_with_a_mistyped_port_is_not_down() {
    let cluster = Cluster::new().node("a").service("web").port("http", 80, "htpp").headless().pods("web", 2);
    let explanation = explained(&settled(cluster.clone(), true));
    let verdict = &explanation.verdict;
    assert_eq!((verdict.status, verdict.severity), (Status::Degraded, Severity::Warning), "{verdict:?}");
    assert!(verdict.message.contains("DNS answers with its address"), "{}", verdict.message);
    let objects = Objects::read(settled(cluster, true).objects().iter().cloned()).unwrap();
    let worst = lint(&objects, now(), &options(), &LintOptions::default()).problems[0].severity;
    assert_eq!(worst, Severity::Warning);
}

/// Before Kubernetes 1.24 the annotation did for Endpoints what the field does.
#[test]
fn an_old_annotation_besides_the_field_is_no_problem() {
    let annotated = |value: &str| {
        let key = "service.alpha.kubernetes.io/tolerate-unready-endpoints";
        web(1).select("Service", "web").annotation(key, value)
    };
    assert_eq!(codes(annotated("true")), [Code::AnnotationIgnored]);
    assert_eq!(codes(annotated("true").publish_not_ready()), []);
    assert_eq!(codes(annotated("false")), []);
}

fn codes(cluster: Cluster) -> Vec<Code> {
    explained(&settled(cluster, true)).codes()
}

/// A container may listen on ports that it does not declare.
#[test]
fn a_number_is_told_only_if_no_container_declares_it() {
    let target = |port: Value| {
        web(2).select("Service", "web").change(move |service| service["spec"]["ports"] = json!([port]))
    };
    let number =
        |number: u16, protocol: &str| target(json!({"port": 80, "targetPort": number, "protocol": protocol}));
    assert_eq!(codes(number(9090, "TCP")), [Code::PortNotDeclared]);
    assert_eq!(codes(number(8080, "TCP")), []);
    assert_eq!(codes(number(8080, "UDP")), [Code::PortNotDeclared]);
    let with = |cluster: Cluster, ports: Value| {
        cluster
            .select("Pod", "web-1")
            .change(move |pod| pod["spec"]["containers"][0]["ports"] = ports.clone())
    };
    assert_eq!(codes(with(number(9090, "TCP"), json!([]))), [], "a pod declares nothing");
    // The other pod declares 8080 only.
    let one = explained(&settled(with(number(9090, "TCP"), json!([{"containerPort": 9090}])), true));
    assert_eq!((one.verdict.status, one.to_do[0].severity), (Status::Ok, Severity::Info));
    insta::assert_snapshot!(
        one.to_do[0].message,
        @"port 80 of the Service has the targetPort 9090, which other pods declare; pod web-2 declares only 8080"
    );
    let explanation = explained(&settled(number(9090, "TCP"), true));
    assert_eq!(explanation.verdict.status, Status::Degraded);
    insta::assert_snapshot!(
        explanation.to_do[0].message,
        @"port 80 of the Service has the targetPort 9090, and the containers of the pods declare only 8080, so clients are likely refused"
    );
}

/// The advice of a selector that matches no pod says first what does no harm.
#[test]
fn pods_of_another_program_or_role_are_not_advised() {
    let of = |selector: &[(&str, &str)], labels: &[(&str, &str)]| {
        let cluster = Cluster::new().node("a").service("web").selector(selector).pod("other-1", labels);
        let explanation = explained(&settled(cluster, true));
        let advice = explanation.to_do[0].clone();
        (advice.code, advice.remedy.sentence)
    };
    for (selector, labels) in [
        (&[("app", "web"), ("role", "leader")][..], &[("app", "web"), ("role", "follower")][..]),
        (&[("app", "web"), ("role", "leader")], &[("app", "web")]),
        (&[("part-of", "shop"), ("app", "web")], &[("part-of", "shop"), ("app", "web-worker")]),
        (&[("app", "web")], &[("app", "web-worker")]),
        (&[("app", "cache"), ("shard", "0")], &[("app", "cache"), ("shard", "1")]),
        (&[("app", "web"), ("color", "blue")], &[("app", "web"), ("color", "green")]),
    ] {
        let (code, sentence) = of(selector, labels);
        assert_eq!(code, Code::NoPodMatches, "{selector:?} {labels:?}");
        let (label, found) = labels.last().unwrap();
        assert!(!sentence.contains(found) || *label == "app" && *found == "web", "{sentence}");
    }
    let (code, sentence) = of(&[("app", "frontned")], &[("app", "frontend")]);
    assert_eq!(code, Code::PodsNearlyMatch);
    assert!(sentence.starts_with("Start pods with app=frontned if they are missing"), "{sentence}");
}

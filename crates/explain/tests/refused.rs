//! Tests that a refused write is told with its class, and only as long as it holds.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{
    Code, Explanation, Fault, LintOptions, Objects, Options, Planned, Problem, Refusal, Severity, explain,
    lint,
};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

use crate::selectors::{own_with, pod, service};

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn objects(cluster: &Cluster) -> Objects {
    Objects::read(cluster.objects().iter().cloned()).unwrap()
}

fn event(words: &str, last: &str) -> Value {
    let message = format!(
        "Error updating Endpoint Slices for Service default/web: failed to create EndpointSlice for Service default/web: {words}"
    );
    json!({"kind": "Event", "metadata": {"name": "web.1"}, "type": "Warning", "count": 3,
        "reason": "FailedToUpdateEndpointSlices", "message": message, "lastTimestamp": last,
        "involvedObject": {"kind": "Service", "namespace": "default", "name": "web"}})
}

const QUOTA: &str = "endpointslices.discovery.k8s.io \"web-a\" is forbidden: exceeded quota: objects, requested: count/endpointslices.discovery.k8s.io=1, used: a, limited: a";
const TERMINATING: &str = "endpointslices.discovery.k8s.io \"web-a\" is forbidden: unable to create new content in namespace default because it is being terminated";

fn explained(cluster: &Cluster, now: &str) -> Explanation {
    let (objects, now) = (objects(cluster), now.parse::<Timestamp>().unwrap());
    explain(&objects, &key(), &objects.topology(), now, None, &Options::default()).unwrap()
}

fn refusal(explanation: &Explanation) -> Option<(Refusal, Severity)> {
    explanation.faults.iter().find_map(|fault| match fault {
        Fault::SlicesBehind(behind) => Some((behind.0.refused.clone()?.refusal, fault.severity())),
        _ => None,
    })
}

fn web() -> Cluster {
    Cluster::new().node("a").service("web").pods("web", 1)
}

/// Waiting does not help, however new the change is.
#[test]
fn a_refusal_is_an_error_at_once() {
    // The pod became ready at 00:00:05.
    let cluster = web().with(event(QUOTA, "2026-01-01T00:00:07Z"));
    let want = Some((Refusal::Quota { quota: "objects".into() }, Severity::Error));
    assert_eq!(refusal(&explained(&cluster, "2026-01-01T00:00:10Z")), want);
    assert_eq!(refusal(&explained(&cluster, "2026-01-01T00:15:00Z")), want);
    assert_eq!(refusal(&explained(&cluster, "2026-01-01T00:21:00Z")), None, "the event is old");
}

/// A namespace that is being deleted takes no objects, as it should.
#[test]
fn a_namespace_that_is_being_deleted_is_no_error() {
    let cluster = web().with(event(TERMINATING, "2026-01-01T00:09:00Z"));
    let found = refusal(&explained(&cluster, "2026-01-01T00:10:00Z"));
    assert_eq!(found, Some((Refusal::NamespaceTerminating, Severity::Info)));
}

/// A controller has written since the refusal, and something else is due now.
#[test]
fn a_refusal_is_over_once_a_controller_has_written() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let of = |written: &str, by: &str| {
        let objects = objects(&web());
        let planned = Planned::new(&objects, &key(), &objects.topology(), now, &Options::default());
        let cluster = planned.slice_writes().fold(web(), |cluster, writes| cluster.apply(writes));
        let slice = cluster.objects().iter().find(|object| object["kind"] == "EndpointSlice").unwrap();
        let name = slice["metadata"]["name"].as_str().unwrap().to_owned();
        let fields = json!([{"manager": by, "time": written}]);
        let cluster = cluster.select("EndpointSlice", &name).change(|slice| {
            slice["metadata"]["managedFields"] = fields.clone();
        });
        let cluster = cluster.select("Pod", "web-1").not_ready();
        refusal(&explained(&cluster.with(event(QUOTA, "2026-01-01T00:09:00Z")), &now.to_string())).is_some()
    };
    assert!(!of("2026-01-01T00:09:30Z", "kube-controller-manager"));
    assert!(of("2026-01-01T00:08:00Z", "kube-controller-manager"));
    assert!(of("2026-01-01T00:09:30Z", "kubectl"), "another client wrote the slice");
}

/// Another write of the controller may succeed, as the one that takes a dead pod out.
#[test]
fn a_refusal_in_the_status_of_the_endpoint_selector_lasts() {
    let node = json!({"kind": "Node", "metadata": {"name": "node-a", "labels": {}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let mut slice = own_with(SELECTOR_CONTROLLER, &[1], &[1]);
    slice["metadata"]["managedFields"] =
        json!([{"manager": "kube-endpoint-manager", "time": "2026-01-01T00:09:30Z"}]);
    let app = json!({"app": "web"});
    let told = |generation: u32, status: &str, service_name: &str| {
        let message = format!(
            "Service {service_name}: the API server refuses to create an EndpointSlice, so clients may use endpoints that are out of date: {QUOTA} (and 1 more: EndpointSlicesRefused)"
        );
        let selector = json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
            "metadata": {"name": "web-stable", "generation": 2}, "spec": {"selector": {"matchLabels": app}},
            "status": {"observedGeneration": generation, "conditions": [
                {"type": "Published", "status": status, "reason": "EndpointSlicesRefused", "message": message}]}});
        let pods = [1, 2].map(|number| pod(number, &app, true));
        let all = [node.clone(), service(&json!({})), slice.clone(), selector].into_iter().chain(pods);
        let objects = Objects::read(all.chain([event(QUOTA, "2026-01-01T00:09:00Z")])).unwrap();
        let now = "2026-01-01T00:09:35Z".parse::<Timestamp>().unwrap();
        explain(&objects, &key(), &objects.topology(), now, None, &Options::default()).unwrap()
    };
    let explained = told(2, "False", "web");
    assert_eq!(refusal(&explained), Some((Refusal::Quota { quota: "objects".into() }, Severity::Error)));
    insta::assert_snapshot!(explained.verdict.message);
    for other in [told(1, "False", "web"), told(2, "True", "web"), told(2, "False", "web-2")] {
        assert_eq!(refusal(&other), None, "{}", other.verdict.message);
    }
}

/// Pods without a node are left out by the controller itself.
#[test]
fn an_event_about_pods_that_were_left_out_is_no_refusal() {
    let mut event = event("", "2026-01-01T00:09:00Z");
    event["message"] = json!(
        "Error updating Endpoint Slices for Service default/web: skipping Pod web-1 for Service default/web: Node x Not Found"
    );
    assert_eq!(refusal(&explained(&web().with(event), "2026-01-01T00:10:00Z")), None);
}

/// The words of a webhook are those of anybody.
#[test]
fn hostile_words_are_shortened_and_harmless() {
    let words = format!("admission webhook \"x\" denied the request: \u{1b}[2J{}", "no ".repeat(2000));
    let explanation = explained(&web().with(event(&words, "2026-01-01T00:09:00Z")), "2026-01-01T00:10:00Z");
    let message = explanation.faults.iter().find(|fault| fault.code() == Code::SlicesBehind).unwrap();
    let message = message.to_string();
    assert!(message.chars().count() < 600 && !message.contains('\u{1b}'), "{message}");
}

/// kube-controller-manager names no namespace in the event about Endpoints that it could not
/// create.
#[test]
fn the_event_about_endpoints_that_were_not_created_is_that_of_the_service() {
    let of = |service: &str| {
        let message = format!(
            "Failed to create endpoint for service {service}: endpoints \"web\" is forbidden: exceeded quota: objects, requested: a"
        );
        let event = json!({"kind": "Event", "metadata": {"name": "web.2", "namespace": "default"}, "type": "Warning",
            "reason": "FailedToCreateEndpoint", "message": message, "lastTimestamp": "2026-01-01T00:09:00Z",
            "involvedObject": {"kind": "Endpoints", "name": "web"}});
        let explanation = explained(&web().with(event), "2026-01-01T00:10:00Z");
        let behind = explanation.faults.iter().find(|fault| fault.code() == Code::EndpointsBehind).unwrap();
        matches!(behind, Fault::EndpointsBehind(late) if late.behind.refused.is_some())
    };
    assert!(of("default/web"));
    assert!(!of("other/web"));
    assert!(!of("default/web-2"));
}

/// A reader who looks at one Service may know if others have slices.
#[test]
fn other_services_without_slices_show_that_no_controller_runs() {
    let now = "2026-01-01T00:10:00Z";
    let of = |others: &[(&str, bool)]| {
        let mut objects = objects(&web());
        for (number, (namespace, has_slice)) in others.iter().enumerate() {
            let service = json!({"metadata": {"name": format!("s{number}"), "namespace": namespace,
                "creationTimestamp": "2026-01-01T00:01:00Z"}, "spec": {"selector": {"app": "x"}}});
            objects.note_service(&serde_json::from_value(service).unwrap(), *has_slice);
        }
        let topology = objects.topology();
        let explained = explain(&objects, &key(), &topology, now.parse().unwrap(), None, &Options::default());
        explained.unwrap().verdict.code
    };
    assert_eq!(of(&[("a", false), ("b", false), ("c", true)]), Code::ClusterUnserved);
    assert_eq!(of(&[("a", true), ("b", false), ("c", true)]), Code::SlicesBehind);
    assert_eq!(of(&[("default", false), ("default", false), ("c", true)]), Code::SlicesBehind);
    assert_eq!(of(&[]), Code::SlicesBehind);
}

/// Returns Services of these namespaces with a pod each. The slices of those in `served` are
/// written at the minute.
fn cluster(services: &[(&str, Option<u32>)]) -> Cluster {
    let mut cluster = Cluster::new().node("a");
    for (number, (namespace, _)) in services.iter().enumerate() {
        let name = format!("s{number}");
        cluster = cluster.namespace(namespace).service(&name).pods(&name, 1);
    }
    let objects = objects(&cluster);
    for (number, (namespace, minute)) in services.iter().enumerate() {
        let Some(minute) = minute else { continue };
        let key = ObjectKey::new(*namespace, format!("s{number}"));
        let planned = Planned::new(&objects, &key, &objects.topology(), Timestamp::MIN, &Options::default());
        cluster = planned.slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
        cluster = planned.endpoints_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
        let slices = cluster.objects().iter().filter(|it| it["kind"] == "EndpointSlice");
        let of = slices.filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == *key.name);
        let names: Vec<String> = of.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let fields =
            json!([{"manager": "kube-controller-manager", "time": format!("2026-01-01T00:{minute:02}:00Z")}]);
        for name in names {
            cluster = cluster.namespace(namespace).select("EndpointSlice", &name).change(|slice| {
                slice["metadata"]["managedFields"] = fields.clone();
            });
        }
    }
    cluster
}

/// Returns the codes of a lint of all Services, by kind of object.
fn linted(cluster: &Cluster) -> Vec<String> {
    let now: Timestamp = "2026-01-01T00:20:00Z".parse().unwrap();
    let report = lint(&objects(cluster), now, &Options::default(), &LintOptions::default());
    let problems = report.with_root_cause(now).problems;
    problems.iter().map(|lint| format!("{} {} {}", lint.kind, lint.object, lint.code)).collect()
}

#[test]
fn an_unserved_cluster_is_one_line() {
    // The pods became ready at 00:00:05. The Service in kube-system was served before that.
    let unserved = [("a", None), ("a", None), ("b", None), ("c", None), ("kube-system", Some(0))];
    assert_eq!(linted(&cluster(&unserved)), ["Cluster endpoint-controllers EP073"]);
    let now: Timestamp = "2026-01-01T00:20:00Z".parse().unwrap();
    let report = lint(&objects(&cluster(&unserved)), now, &Options::default(), &LintOptions::default());
    let cause = report.root_cause(now).unwrap();
    insta::assert_snapshot!(format!("{}\n{}", cause.message, cause.remedy.sentence));
}

#[test]
fn one_namespace_one_service_or_a_controller_that_writes_is_not_one_line() {
    let rows = |services: &[(&str, Option<u32>)]| linted(&cluster(services)).len();
    // Two for each Service: slices and Endpoints.
    assert_eq!(rows(&[("a", None), ("a", None), ("a", None), ("b", Some(0))]), 6);
    assert_eq!(rows(&[("a", None), ("b", Some(0)), ("c", Some(0))]), 2);
    // Another Service was written later than these changed.
    assert_eq!(rows(&[("a", None), ("b", None), ("c", None), ("d", Some(10))]), 6);
    assert_eq!(rows(&[("a", Some(0)), ("b", Some(0)), ("c", Some(10))]), 0);
}

/// A refusal shows that a controller runs.
#[test]
fn a_refusal_is_told_for_each_service() {
    let mut all = cluster(&[("a", None), ("b", None), ("c", None), ("d", None)]);
    let mut event = event(QUOTA, "2026-01-01T00:19:00Z");
    event["involvedObject"] = json!({"kind": "Service", "namespace": "a", "name": "s0"});
    all = all.namespace("a").with(event);
    assert_eq!(linted(&all).len(), 8);
}

/// The Endpoints of a Service that are behind, besides those of others that a controller wrote.
#[test]
fn endpoints_that_are_behind_alone_are_told_by_those_of_others() {
    let all = cluster(&[("a", Some(1)), ("b", Some(1))]);
    let old = |cluster: Cluster| {
        let empty = |endpoints: &mut Value| endpoints["subsets"] = json!([]);
        cluster.namespace("a").select("Endpoints", "s0").change(empty)
    };
    let of = |other_written: &str| {
        let fields = json!([{"manager": "kube-controller-manager", "time": other_written}]);
        let cluster = old(all.clone()).namespace("b").select("Endpoints", "s1").change(|endpoints| {
            endpoints["metadata"]["managedFields"] = fields.clone();
        });
        let (objects, now) = (objects(&cluster), "2026-01-01T00:20:00Z".parse::<Timestamp>().unwrap());
        let key = ObjectKey::new("a", "s0");
        let options = Options::default();
        let explained = explain(&objects, &key, &objects.topology(), now, None, &options).unwrap();
        let advice = explained.to_do.into_iter().find(|advice| advice.code == Code::EndpointsBehind).unwrap();
        (advice.severity, format!("{}\n  {}", advice.message, advice.remedy.sentence))
    };
    // The slices, which show the change, were written at 00:01.
    let (before, works) = (of("2026-01-01T00:00:30Z"), of("2026-01-01T00:05:00Z"));
    assert_eq!((before.0, works.0), (Severity::Info, Severity::Warning));
    insta::assert_snapshot!(format!("{}\n{}", before.1, works.1));
}

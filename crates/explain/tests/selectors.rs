//! Tests explanations of Services that name an EndpointSelector: attached, held, handed back, and
//! with a selector that cannot be used.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::well_known::{ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER};
use kube_endpoint_core_model::{ObjectKey, StringMap};
use kube_endpoint_explain::render::notes;
use kube_endpoint_explain::text::{Colors, Layout, rendered};
use kube_endpoint_explain::{
    Code, Explanation, Known, LintOptions, Objects, Options, Planned, diff, explain, explain_pod, lint,
    render,
};
use serde_json::{Value, json};

use crate::faults::now;

pub(crate) fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

/// Returns a Service that names the EndpointSelector `web-stable`. Its fields may have a selector.
pub(crate) fn service(spec: &Value) -> Value {
    let mut service = json!({"kind": "Service", "metadata": {"name": "web", "uid": "s", "resourceVersion": "1",
            "annotations": {"kube-endpoint-manager.github.io/endpoint-selector": "web-stable"}},
        "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}});
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service
}

fn selector(spec: &Value) -> Value {
    json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "web-stable", "generation": 1, "resourceVersion": "1"}, "spec": {"selector": spec},
        "status": {"observedGeneration": 1, "conditions": [{"type": "ReadyToAttach", "status": "True",
            "reason": "Rehearsed", "message": "take spec.selector out of Service web"}]}})
}

fn stable() -> Value {
    selector(&json!({"matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["canary", "shadow"]}]}))
}

pub(crate) fn pod(number: usize, labels: &Value, ready: bool) -> Value {
    let (ip, status) = (format!("10.1.0.{number}"), if ready { "True" } else { "False" });
    json!({"kind": "Pod", "metadata": {"name": format!("web-{number}"), "labels": labels, "resourceVersion": "1"},
        "spec": {"nodeName": "node-a", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": status}]}})
}

fn slice(name: &str, manager: &str, pods: &[usize]) -> Value {
    slice_with(name, manager, pods, pods)
}

/// Returns an own slice with these pods. Those of `ready` are ready.
pub(crate) fn own_with(manager: &str, pods: &[usize], ready: &[usize]) -> Value {
    slice_with("web-own", manager, pods, ready)
}

fn slice_with(name: &str, manager: &str, pods: &[usize], ready: &[usize]) -> Value {
    let endpoint = |number: &usize| {
        let is_ready = ready.contains(number);
        json!({"addresses": [format!("10.1.0.{number}")], "nodeName": "node-a",
            "conditions": {"ready": is_ready, "serving": is_ready, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": format!("web-{number}")}})
    };
    let mut labels =
        json!({"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": manager});
    if manager == SELECTOR_CONTROLLER {
        labels["kube-endpoint-manager.github.io/endpoint-selector"] = "web-stable".into();
    }
    let owner = json!({"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s", "controller": true,
        "blockOwnerDeletion": true});
    json!({"kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": name, "labels": labels,
            "resourceVersion": "1", "uid": name, "generateName": "web-", "ownerReferences": [owner]},
        "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}]})
}

/// Returns four pods, one of them a canary, and a node.
fn pods() -> Vec<Value> {
    let node = json!({"kind": "Node", "metadata": {"name": "node-a", "labels": {}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let app = json!({"app": "web"});
    vec![
        node,
        pod(1, &app, true),
        pod(2, &app, true),
        pod(3, &app, false),
        pod(4, &json!({"app": "web", "track": "canary"}), true),
    ]
}

fn objects(others: &[Value]) -> Objects {
    Objects::read(pods().into_iter().chain(others.iter().cloned())).unwrap()
}

fn explained(objects: &Objects) -> Explanation {
    explain(objects, &key(), &objects.topology(), now(), None, &Options::default()).unwrap()
}

/// Returns all texts about a Service: what each command of the plugin prints.
pub(crate) fn told(objects: &Objects) -> String {
    let options = Options::default();
    let all = LintOptions { include_info: true, ..LintOptions::default() };
    let rendering = render(objects, &options);
    let sections = [
        ("explain", explained(objects).text(Layout::NARROW, now()).render(Colors::Off)),
        ("lint", lint(objects, now(), &options, &all).text(Layout::WIDE).render(Colors::Off)),
        ("diff", diff(objects, now(), &options).unwrap().text().render(Colors::Off)),
        ("render", rendered(&rendering).render(Colors::Off) + &notes(objects, &rendering).join("\n")),
    ];
    sections.map(|(command, text)| format!("--- {command}\n{}\n", text.trim_end())).join("\n")
}

fn own(pods: &[usize]) -> Value {
    slice("web-own", SELECTOR_CONTROLLER, pods)
}

fn left(pods: &[usize]) -> Value {
    slice("web-left", ENDPOINTSLICE_CONTROLLER, pods)
}

/// Returns the objects with those that the controllers create.
fn settled(others: &[Value]) -> Objects {
    let objects = objects(others);
    let planned = Planned::new(&objects, &key(), &objects.topology(), now(), &Options::default());
    let stored = |kind: &str, name: &str, mut json: Value| {
        json["kind"] = kind.into();
        json["metadata"]["name"] = name.into();
        json["metadata"]["uid"] = name.into();
        json["metadata"]["resourceVersion"] = "1".into();
        json
    };
    let slices = planned.slice_writes().flat_map(|writes| &writes.create);
    let slices = slices.map(|slice| stored("EndpointSlice", "web-own", json!(slice)));
    let endpoints = planned.endpoints_writes().flat_map(|writes| &writes.create);
    let endpoints = endpoints.map(|endpoints| stored("Endpoints", "web", json!(endpoints)));
    let created: Vec<Value> = slices.chain(endpoints).collect();
    Objects::read(pods().into_iter().chain(others.iter().cloned()).chain(created)).unwrap()
}

/// EndpointSelectors of other namespaces select pods of those.
#[test]
fn a_selector_of_the_name_in_another_namespace_is_named() {
    let selector = |namespace: &str| {
        json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
            "metadata": {"name": "web-stable", "namespace": namespace}, "spec": {"selector": {"matchLabels": {"app": "web"}}}})
    };
    let told = |namespaces: &[&str]| {
        let selectors = namespaces.iter().map(|namespace| selector(namespace));
        let objects = Objects::read([service(&json!({}))].into_iter().chain(selectors)).unwrap();
        let found = explained(&objects);
        let advice = found.to_do.iter().find(|advice| advice.code == Code::EndpointSelectorNotFound).unwrap();
        let mut options = Options::default();
        options.other_namespaces = false;
        let hidden = explain(&objects, &key(), &objects.topology(), now(), None, &options).unwrap();
        assert!(!format!("{:?}", hidden.to_do).contains(namespaces[0]), "its reader may not see others");
        advice.message.clone()
    };
    insta::assert_snapshot!([told(&["pay"]), told(&["pay", "ops"])].join("\n"));
}

#[test]
fn an_attached_service() {
    insta::assert_snapshot!(told(&settled(&[service(&json!({})), stable()])));
}

#[test]
fn a_take_over_deletes_what_kube_controller_manager_left() {
    let others = [service(&json!({})), stable(), left(&[1, 2])];
    insta::assert_snapshot!(told(&settled(&others)));
}

#[test]
fn a_take_over_is_held_without_a_ready_pod() {
    let mistyped = selector(&json!({"matchLabels": {"app": "wbe"}}));
    insta::assert_snapshot!(told(&settled(&[service(&json!({})), mistyped, left(&[1, 2])])));
}

/// The pods of a mistyped label are told only if they meet the other requirements.
#[test]
fn a_mistyped_label_of_a_selector_is_told_with_the_pods_that_have_another() {
    let of = |app: &str, key: &str| {
        selector(
            &json!({"matchLabels": {"app": app}, "matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}),
        )
    };
    let check = |selector: Value, want: Code| {
        let codes = explained(&settled(&[service(&json!({})), selector])).codes();
        assert!(codes.contains(&want), "{codes:?}");
    };
    check(of("wbe", "tier"), Code::PodsNearlyMatch);
    check(of("wbe", "app"), Code::NoPodMatches);
    check(of("api", "tier"), Code::NoPodMatches);
}

#[test]
fn a_service_that_has_a_selector_again() {
    let selecting = service(&json!({"selector": {"app": "web"}}));
    insta::assert_snapshot!("held", told(&objects(&[selecting.clone(), stable(), own(&[1, 2])])));
    insta::assert_snapshot!("handed_back", told(&settled(&[selecting, stable()])));
}

/// The add-on is gone: its slices still send clients to a pod that does not exist.
#[test]
fn the_controller_of_the_slices_is_the_one_to_bring_back() {
    let explained = explained(&objects(&[service(&json!({})), stable(), own(&[1, 2, 7])]));
    let text = explained.text(Layout::WIDE, now()).render(Colors::Off);
    assert!(explained.codes().contains(&Code::MissingPodsServed), "{text}");
    assert!(text.contains("--controllers=endpoint-selector-controller"), "{text}");
    assert!(!text.contains("EndpointSlice controller"), "{text}");
}

#[test]
fn a_missing_and_an_invalid_selector() {
    let web = service(&json!({}));
    // web-3 is not ready, and web-9 does not exist.
    let missing = objects(&[web.clone(), own(&[1, 3, 9]), left(&[2])]);
    insta::assert_snapshot!("missing", told(&missing));
    let invalid = selector(&json!({"matchLabels": {"the app": "web"}}));
    insta::assert_snapshot!("invalid", told(&objects(&[web, invalid, own(&[1])])));
}

/// Somebody has deleted the add-on, and its Lease with it.
#[test]
fn without_a_holder_of_a_lease_nobody_maintains_the_endpoints() {
    let told = |leases: Option<&[Value]>| {
        let mut objects = objects(&[service(&json!({})), own(&[1])]);
        if let Some(leases) = leases {
            objects.note_manager_leases(leases);
        }
        explained(&objects).verdict.message
    };
    let lease = |renewed: &str| {
        json!({"metadata": {"name": "kube-endpoint-manager-addon", "namespace": "kube-endpoint-manager"},
            "spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 15, "renewTime": renewed}})
    };
    let (old, recent) = (lease("2026-01-01T00:00:00Z"), lease(&now().to_string()));
    insta::assert_snapshot!(told(Some(&[])));
    assert_eq!(told(Some(std::slice::from_ref(&old))), told(Some(&[])));
    for leases in [None, Some(&[recent.clone()][..]), Some(&[old, recent][..])] {
        assert!(told(leases).contains("so endpoints leave and none comes"), "{leases:?}");
    }
}

#[test]
fn a_cluster_that_does_not_serve_the_resource_is_told() {
    let mut objects = objects(&[service(&json!({}))]);
    objects.note_no_endpoint_selectors();
    let explanation = explained(&objects);
    let advice = &explanation.to_do[0];
    insta::assert_snapshot!(format!("{}\n{}", advice.message, advice.remedy.sentence));
}

/// The plan that explanations use is that of the controller, but for two labels that of the same
/// selector of the Service.
#[test]
fn an_attached_service_is_planned_as_with_a_selector() {
    let labels = json!({"matchLabels": {"app": "web"}});
    let attached = objects(&[service(&json!({})), selector(&labels)]);
    let selecting = objects(&[service(&json!({"selector": {"app": "web"}}))]);
    let endpoints = |objects: &Objects| {
        let planned = Planned::new(objects, &key(), &objects.topology(), now(), &Options::default());
        let created: Vec<_> = planned.slice_writes().flat_map(|writes| writes.create.clone()).collect();
        let labels: StringMap = created[0].metadata.labels.clone();
        (created.into_iter().map(|slice| slice.endpoints).collect::<Vec<_>>(), labels)
    };
    let (one, labels) = endpoints(&attached);
    assert_eq!(one, endpoints(&selecting).0);
    assert_eq!(
        labels.get("endpointslice.kubernetes.io/managed-by").map(|it| &**it),
        Some(SELECTOR_CONTROLLER)
    );
    let planned = Planned::new(&attached, &key(), &attached.topology(), now(), &Options::default());
    assert!(planned.endpoints.is_none(), "an attached Service has no Endpoints");
}

#[test]
fn a_pod_is_told_which_selector_selects_it_and_which_requirement_it_does_not_meet() {
    let objects = settled(&[service(&json!({})), stable()]);
    let text = |name: &str| {
        let pod = ObjectKey::new("default", name);
        let says = explain_pod(&objects, &pod, &objects.topology(), now(), &Options::default()).unwrap();
        says.text(Layout::NARROW, now()).render(Colors::Off)
    };
    insta::assert_snapshot!(["web-1", "web-4"].map(text).join("\n"));
}

/// Whoever cannot read EndpointSelectors does not say that one is missing.
#[test]
fn selectors_that_could_not_be_read_are_not_missing() {
    let all = settled(&[service(&json!({})), stable()]);
    let none = objects(&[service(&json!({})), own(&[1, 2])]);
    let options = Options::default().with_known(Known { selectors: false, ..Known::ALL });
    for objects in [&all, &none] {
        let explanation = explain(objects, &key(), &objects.topology(), now(), None, &options).unwrap();
        assert_eq!(explanation.codes(), [Code::NotKnown], "{:?}", explanation.verdict);
        assert!(diff(objects, now(), &options).unwrap().is_empty());
    }
    let explanation = explain(&all, &key(), &all.topology(), now(), None, &options).unwrap();
    insta::assert_snapshot!(explanation.text(Layout::NARROW, now()).render(Colors::Off));
}

#[test]
fn the_state_of_the_attachment_is_in_json() {
    let explanation = explained(&settled(&[service(&json!({})), stable()]));
    insta::assert_json_snapshot!(explanation.selected_by);
}

/// An old cluster has no label on Endpoints, and a user may write Endpoints with the label.
#[test]
fn endpoints_that_a_user_wrote_are_not_left_over() {
    let web = |spec: Value| json!({"kind": "Service", "metadata": {"name": "web", "uid": "s", "resourceVersion": "1"}, "spec": spec});
    let service = web(json!({"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}));
    let check = |label: Option<&str>, by: Option<&str>, want: bool| {
        let mut endpoints = json!({"kind": "Endpoints", "metadata": {"name": "web", "resourceVersion": "1"},
            "subsets": [{"addresses": [{"ip": "10.1.0.1",
                "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-1"}}], "ports": [{"port": 80}]}]});
        if let Some(label) = label {
            endpoints["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"] = label.into();
        }
        if let Some(by) = by {
            let entry = json!({"manager": by, "operation": "Update", "time": "2026-01-01T00:00:00Z",
                "fieldsV1": {"f:subsets": {}}});
            endpoints["metadata"]["managedFields"] = json!([entry]);
        }
        let mirrored = slice("web-m", "endpointslicemirroring-controller.k8s.io", &[1]);
        let objects = objects(&[service.clone(), endpoints, mirrored]);
        let found = explained(&objects).codes().contains(&Code::SlicesLeftBehind);
        assert_eq!(found, want, "{label:?} {by:?}");
    };
    check(Some("endpoint-controller"), Some("kube-controller-manager"), true);
    check(Some("endpoint-controller"), Some("k3s"), true);
    check(Some("endpoint-controller"), Some("hyperkube"), false);
    check(Some("endpoint-controller"), None, true);
    check(Some("endpoint-controller"), Some("kubectl-create"), false);
    check(None, Some("kube-controller-manager"), true);
    check(None, None, false);
    check(Some("other"), Some("kube-controller-manager"), false);
}

/// Without a status no controller has seen the selector; with one nobody can tell.
#[test]
fn only_the_status_of_the_selector_tells_that_no_controller_serves_it() {
    let check = |status: Value, want: Code| {
        let mut unseen = stable();
        unseen["status"] = status;
        let codes = explained(&objects(&[service(&json!({})), unseen])).codes();
        assert!(codes.contains(&want), "{codes:?}");
        assert!(codes.contains(&Code::EndpointSelectorUnserved) != codes.contains(&Code::SlicesBehind));
    };
    check(json!({}), Code::EndpointSelectorUnserved);
    check(json!({"observedGeneration": 0}), Code::EndpointSelectorUnserved);
    check(json!({"observedGeneration": 1}), Code::SlicesBehind);
    let refused = json!({"observedGeneration": 1,
        "conditions": [{"type": "Accepted", "status": "False", "message": "too many terms"}]});
    check(refused, Code::EndpointSelectorInvalid);
}

//! Tests that the page and the kubectl plugin say the same about the same objects.

#[path = "../../../explain/tests/fault_manifests.rs"]
mod fault_manifests;

use std::collections::BTreeMap;

use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, Node, ObjectKey, Pod, Service, Timestamp,
};
use kube_endpoint_explain::{Explanation, Known, LintOptions, Objects, Options, explain, lint};
use kube_endpoint_informer::{Cluster as Caches, Kind, Object, StreamEvent};
use serde_json::{Value, json};

use super::objects;
use super::problems::Problems;
use fault_manifests::manifests;

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

fn caches(objects: &[Value]) -> Caches {
    fn apply<T: Object>(caches: &Caches, object: &Value) {
        caches.apply(StreamEvent::Applied(serde_json::from_value::<T>(object.clone()).unwrap()));
    }
    let caches = Caches::new(Kind::ALL);
    for object in objects {
        match object["kind"].as_str().unwrap() {
            "Service" => apply::<Service>(&caches, object),
            "Node" => apply::<Node>(&caches, object),
            "EndpointSlice" => apply::<EndpointSlice>(&caches, object),
            "Endpoints" => apply::<Endpoints>(&caches, object),
            "EndpointSelector" => apply::<EndpointSelector>(&caches, object),
            "Pod" => {
                // As the reflectors do while there is a page.
                let mut pod: Pod = serde_json::from_value(object.clone()).unwrap();
                if pod.needs_details() {
                    pod.details = Some(serde_json::from_value(object.clone()).unwrap());
                }
                caches.apply(StreamEvent::Applied(pod));
            }
            _ => {}
        }
    }
    caches
}

/// Returns true if the caches hold the kind. They hold neither Events nor Leases.
fn is_cached(object: &&Value) -> bool {
    matches!(
        object["kind"].as_str().unwrap(),
        "Service" | "Pod" | "Node" | "EndpointSlice" | "Endpoints" | "EndpointSelector"
    )
}

/// Returns all that an explanation says, without when an object was created or written, which the
/// caches do not hold.
fn said(explanation: Option<Explanation>) -> Value {
    let mut said = json!(explanation);
    said.as_object_mut().map(|said| said.remove("freshness"));
    let without_write = |output: &mut Value| {
        output.as_object_mut().map(|output| output.remove("lastWrite"));
    };
    if let Some(endpoints) = said.get_mut("endpoints") {
        without_write(endpoints);
    }
    said["slices"].as_array_mut().into_iter().flatten().for_each(without_write);
    said
}

/// The manifests about which the plugin says more than the page, because it reads what the caches
/// do not hold: `spec.externalName`, finalizers and other annotations of Services, who wrote slices
/// and Endpoints, slices without the label of a Service, versions of nodes, and the owners of pods
/// and the ports and probes of each container.
const SAID_IN_MORE_DETAIL: [&str; 14] = [
    "ep032-slice-without-label.yaml",
    "ep034-service-terminating.yaml",
    "ep040-retired-in-vain.yaml",
    "ep064-ready-through-other-port.yaml",
    "ep064-some-pods.yaml",
    "ep064-with-other-protocol.yaml",
    "ep064-with-pod-of-job.yaml",
    "ep085-external-name-invalid.yaml",
    "ep086-service-label-ignored.yaml",
    "ep087-port-name-ambiguous.yaml",
    "ep089-left-by-an-unknown-program.yaml",
    "ep099-annotation-mistyped.yaml",
    "ep099-label-in-place-of-annotation.yaml",
    "ep100-slice-kept.yaml",
];

#[test]
fn the_page_and_the_plugin_say_the_same_in_the_same_order() {
    let (mut options, known) = (Options::default(), Known::ALL);
    // The page names no objects of namespaces that its reader may not see.
    options.other_namespaces = false;
    let mut differ = BTreeMap::new();
    for (file, fault) in manifests() {
        let settled = fault.settled(now(), &options);
        let of_plugin = Objects::read(settled.objects().iter().filter(is_cached).cloned()).unwrap();
        let linted = lint(&of_plugin, now(), &options, &LintOptions::default());
        let plugin: Vec<_> =
            linted.problems.into_iter().map(|lint| (lint.object, lint.code, lint.message)).collect();
        let caches = caches(settled.objects());
        let find = |before| Problems::of(&caches, &options, known, now(), before);
        let found = find(Some(&find(None)));
        let page: Vec<_> =
            found.items.into_iter().map(|item| (item.object, item.code, item.message)).collect();
        if plugin != page {
            differ.insert(file.clone(), format!("list: {plugin:?} {page:?}"));
        }
        // The plugin reads only the pods of the Service, if there are any.
        let service = of_plugin.service(&key()).filter(|it| it.endpoint_selector().is_none());
        let selected = service.map_or(Vec::new(), |service| of_plugin.pods_for(service));
        let is_read = |object: &&Value| {
            let name = &object["metadata"]["name"];
            object["kind"] != "Pod"
                || selected.is_empty()
                || selected.iter().any(|pod| *name == *pod.key.name)
        };
        let read = settled.objects().iter().filter(is_cached).filter(is_read);
        let of_plugin = Objects::read(read.cloned()).unwrap();
        let topology = of_plugin.topology(options.slices.topology_node_tolerance);
        let plugin = said(explain(&of_plugin, &key(), &topology, now(), None, &options));
        let page = objects::of_service(&caches, &key(), known).and_then(|(objects, nearby)| {
            let topology = objects.topology(options.slices.topology_node_tolerance);
            explain(&objects, &key(), &topology, now(), Some(&nearby), &options)
        });
        let page = said(page);
        if plugin != page {
            differ.insert(file, format!("explanation: {plugin:#} {page:#}"));
        }
    }
    let differing: Vec<&str> = differ.keys().map(String::as_str).collect();
    assert_eq!(differing, SAID_IN_MORE_DETAIL, "{differ:#?}");
}

/// Returns the explanation of the page, as it is shown, with the notes.
fn page_of(caches: &Caches, known: Known) -> (Explanation, String) {
    let (mut options, (objects, nearby)) =
        (Options::default(), objects::of_service(caches, &key(), known).unwrap());
    options.other_namespaces = false;
    options.known = known;
    let topology = objects.topology(options.slices.topology_node_tolerance);
    let explanation = explain(&objects, &key(), &topology, now(), Some(&nearby), &options).unwrap();
    let notes = objects::notes(known, objects.service(&key()).unwrap()).join("\n");
    (explanation, notes)
}

#[test]
fn the_page_tells_the_state_of_an_attached_service() {
    let mut pages = Vec::new();
    let settled = |file: &str| manifests().remove(file).unwrap().settled(now(), &Options::default());
    for (state, file) in [
        ("attached", "ep095-selects-unlabelled.yaml"),
        ("held", "ep093-hand-over-held.yaml"),
        ("handed back", "ep092-endpoint-selector-overridden.yaml"),
        ("missing", "ep090-endpoint-selector-not-found.yaml"),
    ] {
        let (explanation, _) = page_of(&caches(settled(file).objects()), Known::ALL);
        let verdict = &explanation.verdict;
        pages.push(json!({"state": state, "verdict": verdict.message, "status": verdict.status,
            "selectedBy": explanation.selected_by}));
    }
    insta::assert_json_snapshot!(pages);
}

/// A manager without the endpoint selector controller does not watch EndpointSelectors.
#[test]
fn a_page_without_endpoint_selectors_does_not_say_that_one_is_missing() {
    let fault = manifests().remove("ep095-selects-unlabelled.yaml").unwrap();
    let settled = fault.settled(now(), &Options::default());
    let mut objects = settled.objects().to_vec();
    objects.retain(|object| object["kind"] != "EndpointSelector");
    let caches = caches(&objects);
    let known = Known { selectors: false, ..Known::ALL };
    let (explanation, notes) = page_of(&caches, known);
    insta::assert_snapshot!(format!("{} {}\n{notes}", explanation.verdict.code, explanation.verdict.message));
    let found = Problems::of(&caches, &Options::default(), known, now(), None);
    assert!(found.items.is_empty(), "{:?}", found.items);
}

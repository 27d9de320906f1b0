//! Tests that the page and the kubectl plugin name the same problems of the same objects.

#[path = "../../../explain/tests/fault_manifests.rs"]
mod fault_manifests;

use std::collections::BTreeMap;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, ObjectKey, Pod, Service, Timestamp};
use kube_endpoint_explain::{Code, Known, LintOptions, Objects, Options, Planned, explain, lint};
use kube_endpoint_informer::{Cluster as Caches, Kind, StreamEvent};
use kube_endpoint_testing::Cluster;
use serde_json::Value;

use super::objects;
use super::problems::Problems;
use fault_manifests::{Fault, manifests};

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn key() -> ObjectKey {
    ObjectKey::new("default", "web")
}

/// Returns the objects of a manifest, after the controllers have written.
fn settled(fault: &Fault) -> Vec<Value> {
    let mut cluster = fault.objects.iter().fold(Cluster::new(), Cluster::with);
    let runs = |name: &str| fault.controllers.as_ref().is_none_or(|all| all.iter().any(|it| it == name));
    for _ in 0..5 {
        let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
        let planned = Planned::new(&objects, &key(), &objects.topology(0.0), &Options::default());
        for sub_plan in planned.slices.iter().flat_map(|plan| &plan.sub_plans) {
            if runs("endpointslice") {
                cluster = cluster.apply(&sub_plan.writes);
            }
        }
        if let Some(plan) = planned.endpoints.filter(|_| runs("endpoints")) {
            cluster = cluster.apply(&plan.writes);
        }
        if let Some(plan) = planned.mirroring.filter(|_| runs("mirroring")) {
            cluster = cluster.apply(&plan.writes);
        }
    }
    cluster.objects().to_vec()
}

fn caches(objects: &[Value]) -> Caches {
    let caches = Caches::new(Kind::ALL);
    for object in objects {
        let object = object.clone();
        match object["kind"].as_str().unwrap() {
            "Service" => {
                caches.apply::<Service>(StreamEvent::Applied(serde_json::from_value(object).unwrap()));
            }
            "Pod" => caches.apply::<Pod>(StreamEvent::Applied(serde_json::from_value(object).unwrap())),
            "Node" => caches.apply::<Node>(StreamEvent::Applied(serde_json::from_value(object).unwrap())),
            "EndpointSlice" => {
                caches.apply::<EndpointSlice>(StreamEvent::Applied(serde_json::from_value(object).unwrap()));
            }
            "Endpoints" => {
                caches.apply::<Endpoints>(StreamEvent::Applied(serde_json::from_value(object).unwrap()));
            }
            _ => {}
        }
    }
    caches
}

/// The codes that depend on what the caches do not hold, and the code of the page in their place.
/// A pod whose image is being pulled has no address yet, which the caches show.
fn of_page(code: Code, have_addresses: bool) -> Option<Code> {
    match code {
        Code::ContainerNotRunning if !have_addresses => Some(Code::NoAddress),
        // Conditions other than Ready, and the states of containers.
        Code::ReadinessGateNotMet | Code::ContainerNotReady | Code::ContainerNotRunning => {
            Some(Code::NotReady)
        }
        // Traffic policies.
        Code::NoLocalEndpoint => None,
        // Probes, the names of containers and owners of pods, versions of nodes.
        Code::PortNotDeclared | Code::PortNameAmbiguous | Code::ServiceLabelIgnored => None,
        // Events.
        Code::PodsNotCreated => Some(Code::NoPodMatches),
        // `spec.externalName`.
        Code::ExternalNameInvalid => Some(Code::ExternalName),
        code => Some(code),
    }
}

#[test]
fn the_page_and_the_plugin_name_the_same_codes_in_the_same_order() {
    let (options, known) = (Options::default(), Known::ALL);
    let mut differ = BTreeMap::new();
    for (file, fault) in manifests() {
        let objects = settled(&fault);
        let mut pods = objects.iter().filter(|object| object["kind"] == "Pod");
        let have_addresses = pods.all(|pod| !pod["status"]["podIP"].is_null());
        let of_page = |code| of_page(code, have_addresses);
        let of_plugin = Objects::read(objects.iter().cloned()).unwrap();
        let linted = lint(&of_plugin, now(), &options, &LintOptions::default());
        let plugin: Vec<_> = linted
            .problems
            .iter()
            .filter_map(|lint| Some((lint.object.clone(), of_page(lint.code)?)))
            // An alias is no problem.
            .filter(|(_, code)| *code != Code::ExternalName)
            .collect();
        let caches = caches(&objects);
        let find = |before| Problems::of(&caches, &options, known, now(), before);
        let found = find(Some(&find(None)));
        let page: Vec<_> = found.items.iter().map(|item| (item.object.clone(), item.code)).collect();
        if plugin != page {
            differ.insert(file.clone(), format!("list: {plugin:?} {page:?}"));
        }
        // The explanation of the Service.
        let topology = of_plugin.topology(options.slices.topology_node_tolerance);
        let plugin = explain(&of_plugin, &key(), &topology, now(), None, &options);
        let page = objects::of_service(&caches, &key(), known).and_then(|(objects, nearby)| {
            let topology = objects.topology(options.slices.topology_node_tolerance);
            explain(&objects, &key(), &topology, now(), Some(&nearby), &options)
        });
        let plugin = plugin.map(|it| of_page(it.verdict.code).unwrap_or(Code::Published));
        let page = page.map(|it| it.verdict.code);
        if plugin != page {
            differ.insert(file, format!("verdict: {plugin:?} {page:?}"));
        }
    }
    assert_eq!(differ, BTreeMap::new());
}

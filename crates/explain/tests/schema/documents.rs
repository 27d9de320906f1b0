//! The documents that the manifests, the recorded clusters and the tests of reports give.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::doctor::examine;
use kube_endpoint_explain::leftovers::{Cleanup, CleanupItem, Outcome, OutputKind};
use kube_endpoint_explain::retire::Report;
use kube_endpoint_explain::{
    API_VERSION, Code, LintOptions, Objects, Options, diff, explain, explain_backends, explain_pod, lint,
};
use serde::Serialize;
use serde_json::Value;

use crate::fault_manifests::{all_of, manifests};
use crate::{around, doctor, explanations, leader, retire, shop};

/// A document, and what it is about.
type Named = (String, Value);

/// Returns a value as the plugin prints it.
fn document(kind: &str, value: &impl Serialize) -> Value {
    let mut document = serde_json::to_value(value).unwrap();
    document["apiVersion"] = API_VERSION.into();
    document["kind"] = kind.into();
    document
}

/// Returns what explain, lint and diff say about objects, with a note.
fn of_objects(about: &str, objects: &Objects, now: Timestamp, options: &Options) -> Vec<Named> {
    let note = || vec!["You may not read nodes.".to_owned()];
    let topology = objects.topology();
    let explained = objects.services().filter_map(|key| {
        let says = explain(objects, key, &topology, now, None, options)?.with_not_read(note());
        Some([document("ServiceExplanation", &says), document("BriefExplanation", &says.brief())])
    });
    let mut all: Vec<Value> = explained.flatten().collect();
    let namespaces: BTreeSet<_> = objects.services().map(|key| &key.namespace).collect();
    for pod in namespaces.into_iter().flat_map(|namespace| objects.pods_of(namespace)) {
        let says = explain_pod(objects, &pod.key, &topology, now, options).unwrap();
        all.push(document("PodExplanation", &says.with_not_read(note())));
    }
    for of in objects.referrers() {
        let says = explain_backends(objects, of, now, options).unwrap();
        all.push(document("BackendsExplanation", &says.with_not_read(note())));
    }
    let wanted = LintOptions { include_info: true, ..LintOptions::default() };
    let report = lint(objects, now, options, &wanted).with_root_cause(now);
    all.push(document("LintReport", &report.with_not_read(note())));
    all.push(document("Diff", &diff(objects, now, options).unwrap().with_not_read(note())));
    all.into_iter().map(|document| (about.to_owned(), document)).collect()
}

/// Returns the documents of recorded clusters, and those of doctor, cleanup and retire.
pub(super) fn recorded() -> Vec<Named> {
    let objects = shop::objects();
    let mut all = of_objects("shop", &objects, shop::now(), &Options::default());
    // Documents of each kind that differ.
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    all.retain(|(_, document)| {
        let count = kept.entry(document["kind"].to_string()).or_default();
        *count += 1;
        *count <= 4
    });
    for facts in [doctor::manager_only(), doctor::forbidden(), doctor::with_webhook()] {
        all.push(("doctor".to_owned(), document("DoctorReport", &examine(&facts, doctor::now()))));
    }
    for cluster in ["busy", "quiet"] {
        let report = Report::of(&retire::facts(cluster));
        all.push((cluster.to_owned(), document("RetireReport", &report)));
    }
    all.push(("EP012".to_owned(), document("CodeExplanation", &Code::PortNameNotFound.explanation())));
    let wrong = manifests().remove("ep121-backend-port-not-found.yaml").unwrap();
    let objects = Objects::read(wrong.objects).unwrap();
    let ingress = of_objects("ingress", &objects, shop::now(), &Options::default());
    all.extend(ingress.into_iter().filter(|(_, document)| document["kind"] == "BackendsExplanation"));
    let item = CleanupItem {
        kind: OutputKind::EndpointSlice,
        object: ObjectKey::new("default", "web-1"),
        uid: "u".into(),
        reason: "its Service does not exist".to_owned(),
        outcome: Outcome::Failed,
        message: "it has changed".to_owned(),
    };
    let cleanup = Cleanup { items: vec![item], not_read: vec!["You may not read Endpoints.".to_owned()] };
    all.push(("cleanup".to_owned(), document("Cleanup", &cleanup)));
    all
}

/// Returns the documents about Services with hints, and about those that follow a leader.
fn of_tests() -> Vec<Named> {
    let web = || explanations::two_zones().service("web");
    let hints = [
        web().traffic_distribution("PreferSameNode").pods("web", 1),
        web().topology_aware().pods("web", 4).on("a"),
    ];
    let mut unread = leader::by_lease(&[1], None);
    unread.note_lease_unread(ObjectKey::new("default", "web"));
    let mut objects: Vec<Objects> =
        hints.map(|cluster| explanations::objects(&explanations::settled(cluster))).into();
    objects.push(leader::followers(&[2, 3], None));
    let renewed = ["2026-01-01T00:10:00.000000Z", "2026-01-01T00:09:48.000000Z"];
    objects.extend(renewed.map(|renewed| leader::by_lease(&[1], Some(leader::lease("web-1", renewed)))));
    objects.push(unread);
    let mut nearly = explanations::objects(&explanations::settled(web().pods("wbe", 1)));
    nearly.note_more_pods();
    objects.push(nearly);
    let now = "2026-01-01T00:10:00Z".parse().unwrap();
    objects.iter().flat_map(|objects| of_objects("a test", objects, now, &Options::default())).collect()
}

/// Returns these, and the documents of other tests and all manifests.
pub(super) fn all() -> Vec<Named> {
    let mut all = recorded();
    all.extend(of_tests());
    let around = around::all().into_iter();
    all.extend(around.map(|says| (says.of.to_string(), document("BackendsExplanation", &says))));
    for (file, fault) in manifests().into_iter().chain(all_of("diagnosis")) {
        let options = fault.options();
        let cluster = fault.settled(fault.now(), &options);
        let reading = options.with_known(fault.known());
        all.extend(of_objects(&file, &fault.readable(&cluster), fault.now(), &reading));
    }
    all
}

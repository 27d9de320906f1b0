//! Tests what `retire` says about recorded clusters (integration-tests/fixtures/retire/README.md),
//! and about objects that no test machine has.

mod audit_log;
mod rows;

use std::collections::BTreeSet;
use std::path::Path;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::retirement::ServerVersion;
use kube_endpoint_explain::doctor::Unread;
use kube_endpoint_explain::retire::{
    AuditLog, Called, Configuration, ConfigurationRead, EndpointsObjects, Evidence, EvidenceKind, Facts,
    Metrics, Pods, PrometheusObjects, Rbac, Report, Verdict, api_servers, called_services,
};
use kube_endpoint_explain::text::{Colors, Layout};
use serde_json::Value;

/// Returns a file of a recorded cluster.
fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/fixtures/retire");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// Returns the objects of a list of a recorded cluster. A list that was not served is empty.
fn list(cluster: &str, plural: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/fixtures/retire");
    let Ok(text) = std::fs::read_to_string(folder.join(format!("{cluster}/{plural}.json"))) else {
        return Vec::new();
    };
    let mut list: Value = serde_json::from_str(&text).unwrap();
    list["items"].take().as_array().unwrap().clone()
}

fn log(text: &str) -> AuditLog {
    let mut log = AuditLog::default();
    text.lines().for_each(|line| log.add(line.as_bytes()));
    log
}

fn key(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(text("namespace"), text("name"))
}

fn pods(objects: &[Value]) -> Pods {
    let mut pods = Pods::default();
    objects.iter().for_each(|pod| pods.add(pod));
    pods
}

fn version(minor: u32) -> ServerVersion {
    ServerVersion { major: 1, minor }
}

/// Returns the Services that API servers call.
fn called(cluster: &str) -> Vec<Called> {
    let kinds = [
        ("APIService", "apiservices"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ("CustomResourceDefinition", "customresourcedefinitions"),
    ];
    let of = |(kind, plural)| {
        list(cluster, plural).into_iter().flat_map(move |object| called_services(kind, &object))
    };
    kinds.into_iter().flat_map(of).collect()
}

/// Returns what the plugin reads of a recorded cluster.
fn facts(cluster: &str) -> Facts {
    let mut endpoints = EndpointsObjects::default();
    list(cluster, "endpoints").iter().for_each(|object| endpoints.add(&object["metadata"]).unwrap());
    let mut rbac = Rbac::default();
    for plural in ["clusterroles", "roles"] {
        list(cluster, plural).iter().for_each(|role| rbac.add_role(role));
    }
    for plural in ["clusterrolebindings", "rolebindings"] {
        list(cluster, plural).iter().for_each(|binding| rbac.add_binding(binding));
    }
    let pods = pods(&list(cluster, "pods"));
    let mut prometheus = PrometheusObjects::default();
    for (kind, plural) in [("Prometheus", "prometheuses"), ("ServiceMonitor", "servicemonitors")] {
        list(cluster, plural).iter().for_each(|object| prometheus.add(kind, object));
    }
    let read = |configuration: Configuration| {
        let Configuration::ConfigMap { object, key: name } = &configuration else {
            panic!("{configuration:?}")
        };
        let all = list(cluster, "configmaps");
        let found = all.iter().find(|map| key(map) == *object).unwrap();
        let text = Ok(found["data"][name].as_str().unwrap().to_owned());
        ConfigurationRead { configuration, text }
    };
    Facts {
        namespace: None,
        server: Ok(serde_json::from_str(&file(&format!("{cluster}/version.json"))).unwrap()),
        api_servers: Ok(api_servers(&list(cluster, "leases")).unwrap()),
        metrics: Ok(vec![Metrics::read(&file(&format!("{cluster}/metrics.txt")))]),
        audit_log: Some(log(&file(&format!("{cluster}/audit.log")))),
        endpoints: Ok(endpoints),
        services: Ok(list(cluster, "services").iter().map(key).collect::<BTreeSet<_>>()),
        configurations: pods.configurations().into_iter().map(read).collect(),
        pods: Ok(pods),
        pods_elsewhere: Ok(()),
        rbac: Ok(rbac),
        prometheus: Ok(prometheus),
        called: Ok(Vec::new()),
    }
}

fn text(report: &Report, layout: Layout) -> String {
    report.text(layout).render(Colors::Off)
}

/// Returns all evidence of a report.
fn all(report: &Report) -> Vec<&Evidence> {
    report.evidence.iter().chain(report.namespaces.iter().flat_map(|of| &of.evidence)).collect()
}

/// Returns the sentences of a kind of evidence, each with its namespace.
fn says(facts: &Facts, kind: EvidenceKind) -> Vec<String> {
    let report = Report::of(facts);
    let of = all(&report).into_iter().filter(|piece| piece.kind == kind);
    of.map(|piece| format!("{}: {}", piece.namespace.as_deref().unwrap_or("*"), piece.what)).collect()
}

/// Returns the verdict on a namespace.
fn verdict(facts: &Facts, namespace: &str) -> Verdict {
    let report = Report::of(facts);
    report.namespaces.iter().find(|of| *of.namespace == *namespace).unwrap().verdict
}

/// Returns the sentences about what could hide a reader.
fn hides(facts: &Facts) -> Vec<String> {
    let report = Report::of(facts);
    report.not_seen.iter().filter(|unseen| unseen.decides).map(|unseen| unseen.what.clone()).collect()
}

#[test]
fn a_cluster_with_readers_is_refused() {
    let report = Report::of(&facts("busy"));
    assert_eq!(report.exit_code(), 1);
    insta::assert_snapshot!("refuse", text(&report, Layout::NARROW));
    insta::assert_snapshot!("refuse_wide", text(&report, Layout::WIDE));
    insta::assert_snapshot!("refuse_json", serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn a_cluster_without_a_reader_says_what_was_not_seen() {
    let report = Report::of(&facts("quiet"));
    assert_eq!(report.exit_code(), 0);
    insta::assert_snapshot!("no_reader_seen", text(&report, Layout::NARROW));
    insta::assert_snapshot!("no_reader_seen_json", serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn without_an_audit_log_nothing_is_known() {
    let report = Report::of(&Facts { audit_log: None, ..facts("quiet") });
    assert_eq!(report.exit_code(), 2);
    insta::assert_snapshot!("unknown", text(&report, Layout::NARROW));
    insta::assert_snapshot!("unknown_json", serde_json::to_string_pretty(&report).unwrap());
}

/// A change of facts, and the beginning of what it hides.
type Hides = (fn(&mut Facts), &'static str);

#[test]
fn each_fact_that_is_missing_could_hide_a_reader() {
    let cases: [Hides; 13] = [
        (|facts| facts.audit_log = None, "No audit log was given"),
        (
            |facts| facts.audit_log = Some(log(&file("busy/audit-without-reads.log"))),
            "The audit log has no get, list or watch of Endpoints at all",
        ),
        (|facts| facts.server = Err(forbidden("get /version")), "The version of the API servers"),
        (|facts| facts.metrics = Err(forbidden("get /metrics")), "Open watches of Endpoints"),
        (|facts| facts.api_servers = Ok(3), "The metrics are those of 1 of 3 API servers"),
        (|facts| facts.api_servers = Err(forbidden("list leases")), "The number of API servers is not known"),
        (
            |facts| facts.pods = Ok(Pods::default()),
            "2 watches of Endpoints are open, of which 1 may be known",
        ),
        (|facts| facts.endpoints = Err(forbidden("list endpoints")), "Who writes Endpoints"),
        (|facts| facts.services = Err(forbidden("list services")), "Services"),
        (|facts| facts.rbac = Err(forbidden("list roles")), "Who may read Endpoints"),
        (|facts| facts.pods_elsewhere = Err(forbidden("list pods")), "Programs of other namespaces"),
        (
            |facts| {
                facts.server = Ok(version(33));
                facts.called = Err(forbidden("list apiservices"));
            },
            "The Services of aggregated APIs and webhooks",
        ),
        (
            |facts| {
                let operator = pod("operator-1", "prometheus-operator:v1");
                let with_manager = [list("quiet", "pods"), vec![operator]].concat();
                facts.pods = Ok(pods(&with_manager));
                facts.prometheus = Err(forbidden("list prometheuses"));
            },
            "Objects of prometheus-operator",
        ),
    ];
    for (change, begin) in cases {
        let mut facts = facts("quiet");
        assert_eq!((verdict(&facts, "shop"), hides(&facts)), (Verdict::NoReaderSeen, Vec::new()));
        change(&mut facts);
        let hidden = hides(&facts);
        assert!(hidden.iter().any(|what| what.starts_with(begin)), "{begin}: {hidden:?}");
        assert_ne!(Report::of(&facts).exit_code(), 0, "{begin}");
    }
}

fn forbidden(permission: &str) -> Unread {
    Unread::Forbidden(permission.to_owned())
}

/// Returns a pod of the namespace `shop` with one container.
fn pod(name: &str, image: &str) -> Value {
    serde_json::json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "it", "image": image}]},
    })
}

/// A namespace that nobody reads is as unknown as the others, and the report is only about it.
#[test]
fn a_report_of_one_namespace_has_the_readers_of_all_and_its_own() {
    let facts = Facts { namespace: Some("monitoring".into()), ..facts("busy") };
    let report = Report::of(&facts);
    let namespaces: Vec<&str> = report.namespaces.iter().map(|of| &*of.namespace).collect();
    assert_eq!(namespaces, ["monitoring"]);
    assert_eq!(report.namespaces[0].verdict, Verdict::Refuse);
    assert!(all(&report).iter().all(|piece| piece.namespace.as_deref().is_none_or(|of| of == "monitoring")));
}

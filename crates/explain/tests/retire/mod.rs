//! Tests what `retire` says about recorded clusters (integration-tests/fixtures/retire/README.md).

mod audit_log;
mod rows;

use std::collections::BTreeSet;
use std::path::Path;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::retirement::ServerVersion;
use kube_endpoint_explain::doctor::{Instance, Unread};
use kube_endpoint_explain::retire::{
    AuditLog, Evidence, EvidenceKind, Facts, Metrics, Report, Verdict, api_servers,
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

fn version(minor: u32) -> ServerVersion {
    ServerVersion { major: 1, minor }
}

/// Returns what the plugin reads of a recorded cluster.
pub(crate) fn facts(cluster: &str) -> Facts {
    Facts {
        namespace: None,
        server: Ok(serde_json::from_str(&file(&format!("{cluster}/version.json"))).unwrap()),
        api_servers: Ok(api_servers(&list(cluster, "leases")).unwrap()),
        metrics: Ok(vec![Metrics::read(&file(&format!("{cluster}/metrics.txt")))]),
        audit_log: Some(log(&file(&format!("{cluster}/audit.log")))),
        services: Ok(list(cluster, "services").iter().map(key).collect::<BTreeSet<_>>()),
        managers: Ok(list(cluster, "pods").iter().map(Instance::read).collect()),
    }
}

fn text(report: &Report) -> String {
    report.text(Layout::NARROW).render(Colors::Off)
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
    report.not_seen.iter().map(|unseen| unseen.what.clone()).collect()
}

#[test]
fn a_cluster_with_readers_is_refused() {
    let report = Report::of(&facts("busy"));
    assert_eq!(report.exit_code(), 1);
    insta::assert_snapshot!("refuse", text(&report));
    insta::assert_snapshot!("refuse_json", serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn a_cluster_without_a_reader_says_which_log_shows_none() {
    let report = Report::of(&facts("quiet"));
    assert_eq!(report.exit_code(), 0);
    insta::assert_snapshot!("no_reader_seen", text(&report));
}

#[test]
fn without_an_audit_log_nothing_is_known() {
    let report = Report::of(&Facts { audit_log: None, ..facts("quiet") });
    assert_eq!(report.exit_code(), 2);
    insta::assert_snapshot!("unknown", text(&report));
}

/// A change of facts, and the beginning of what it hides.
type Hides = (fn(&mut Facts), &'static str);

#[test]
fn each_fact_that_is_missing_could_hide_a_reader() {
    let cases: [Hides; 8] = [
        (|facts| facts.audit_log = None, "No audit log was given"),
        (
            |facts| facts.audit_log = Some(log(&file("busy/audit-without-reads.log"))),
            "The audit log has no get, list or watch of Endpoints at all",
        ),
        (|facts| facts.server = Err(forbidden("get /version")), "The version of the API servers"),
        (|facts| facts.metrics = Err(forbidden("get /metrics")), "Open watches of Endpoints"),
        (|facts| facts.api_servers = Ok(3), "The metrics are those of 1 of 3 API servers"),
        (|facts| facts.api_servers = Err(forbidden("list leases")), "The number of API servers is not known"),
        (|facts| facts.managers = Err(forbidden("list pods")), "The pods of kube-endpoint-manager"),
        (|facts| facts.services = Err(forbidden("list services")), "Services"),
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

//! Tests what audit logs tell.

use kube_endpoint_explain::retire::{AuditLog, EvidenceKind, Facts, Report, Verdict};
use serde_json::{Value, json};

use super::{all, facts, file, hides, log, says, verdict};

/// Returns an event of the recorded log, changed.
fn event(change: impl Fn(&mut Value)) -> String {
    let mut event = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": "ResponseComplete", "verb": "list",
        "user": {"username": "jane"}, "userAgent": "app/1", "objectRef": {"resource": "endpoints", "namespace": "shop", "apiVersion": "v1"},
        "responseStatus": {"code": 200}, "requestReceivedTimestamp": "2026-01-01T12:00:00.5Z",
    });
    change(&mut event);
    event.to_string()
}

/// Returns the quiet cluster with more lines in its audit log.
fn with(lines: &[String]) -> Facts {
    let text = file("quiet/audit.log") + &lines.join("\n");
    Facts { audit_log: Some(log(&text)), ..facts("quiet") }
}

#[test]
fn each_reader_is_told_by_user_agent_verb_namespace_and_times() {
    let report = Report::of(&facts("busy"));
    let readers = all(&report).into_iter().filter(|piece| piece.requests.is_some());
    let lines: Vec<String> = readers
        .map(|piece| {
            format!("{:?} {}: {}", piece.kind, piece.namespace.as_deref().unwrap_or("*"), piece.what)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    Reader *: system:serviceaccount:monitoring:prometheus (Prometheus/3.5.0): list, watch of Endpoints of all namespaces
    Reader shop: system:serviceaccount:shop:ingress (Go-http-client/2.0): list of Endpoints
    Reader shop: admin (kubectl/v1.36.4 (linux/amd64) kubernetes/bb826b1): get 2 times (external, old-lock) of Endpoints
    Reader shop: jane (kubectl/v1.36.4 (linux/amd64) kubernetes/bb826b1): get (web) of Endpoints
    Reader shop: admin (kubectl/v1.36.4 (linux/amd64) kubernetes/bb826b1): get (no-such-service) to services/no-such-service/proxy
    Reader shop: admin (kubectl/v1.36.4 (linux/amd64) kubernetes/bb826b1): get (web:80) to services/web/proxy
    Writer shop: admin (kubectl/v1.36.4 (linux/amd64) kubernetes/bb826b1): create 2 times (external, old-lock) of Endpoints
    ");
}

#[test]
fn requests_of_a_client_are_counted_once_each_with_the_first_and_the_last_time() {
    let at = |stage: &str, verb: &str, second: u32| {
        event(|event| {
            event["stage"] = stage.into();
            event["verb"] = verb.into();
            event["requestReceivedTimestamp"] = format!("2026-01-01T12:00:{second:02}Z").into();
        })
    };
    let facts = with(&[
        at("RequestReceived", "watch", 5),
        at("ResponseStarted", "watch", 5),
        at("ResponseStarted", "watch", 9),
        at("ResponseComplete", "watch", 5),
        at("RequestReceived", "list", 3),
        at("ResponseComplete", "list", 3),
        at("Panic", "list", 4),
    ]);
    let report = Report::of(&facts);
    let of = all(&report).into_iter().find(|piece| piece.kind == EvidenceKind::Reader).unwrap();
    assert_eq!(of.what, "jane (app/1): list 2 times, watch 2 times of Endpoints");
    let requests = of.requests.as_ref().unwrap();
    let times = [requests.first, requests.last].map(|at| at.unwrap().to_string());
    assert_eq!(times, ["2026-01-01T12:00:03Z", "2026-01-01T12:00:09Z"]);
    assert_eq!(requests.verbs.get("watch"), Some(&2));
}

#[test]
fn what_a_client_asks_for_decides() {
    let check = |change: fn(&mut Value), want: &[EvidenceKind]| {
        let facts = with(&[event(change)]);
        let report = Report::of(&facts);
        let of = all(&report).into_iter().filter(|piece| piece.requests.is_some());
        let kinds: Vec<EvidenceKind> = of.map(|piece| piece.kind).collect();
        assert_eq!(kinds, want, "{}", event(change));
    };
    check(|_| {}, &[EvidenceKind::Reader]);
    check(|event| event["objectRef"]["namespace"] = json!(""), &[EvidenceKind::Reader]);
    check(|event| event["responseStatus"]["code"] = 404.into(), &[EvidenceKind::Reader]);
    check(|event| event["responseStatus"]["code"] = 403.into(), &[]);
    check(|event| event["verb"] = "update".into(), &[EvidenceKind::Writer]);
    check(|event| event["stage"] = "RequestReceived".into(), &[]);
    check(|event| event["objectRef"]["resource"] = "endpointslices".into(), &[]);
    check(|event| event["objectRef"]["apiGroup"] = "example.com".into(), &[]);
    check(|event| event["userAgent"] = "kubectl-diagnose-svc/0.1.0".into(), &[]);
    check(
        |event| {
            event["user"]["username"] = "admin".into();
            event["impersonatedUser"] = json!({"username": "system:kube-controller-manager"});
        },
        &[],
    );
    let proxy = |event: &mut Value| {
        event["objectRef"] = json!({"resource": "services", "subresource": "proxy", "namespace": "shop", "name": "https:web:8443"});
        event["verb"] = "create".into();
    };
    check(proxy, &[EvidenceKind::Reader]);
    let facts = with(&[event(proxy)]);
    assert_eq!(
        says(&facts, EvidenceKind::Reader),
        ["shop: jane (app/1): create (https:web:8443) to services/web/proxy"]
    );
}

#[test]
fn damaged_lines_are_skipped_and_counted_and_other_json_is_no_event() {
    let recorded = file("quiet/audit.log");
    let half = recorded.lines().next().unwrap();
    let half = half.get(..half.len() / 2).unwrap().to_owned();
    let other = r#"{"kind":"Status","apiVersion":"v1"}"#.to_owned();
    let facts = with(&[half, "\u{0}\u{1}".to_owned(), other, "[1]".to_owned(), "   ".to_owned()]);
    let report = Report::of(&facts);
    let summary = report.audit_log.as_ref().unwrap();
    assert_eq!((summary.damaged, summary.others), (2, 2));
    assert_eq!(summary.events, recorded.lines().count() as u64);
    assert!(report.not_seen.iter().any(|unseen| unseen.what == "2 lines of the audit log could not be read"));
    // A line that is cut off may be that of a reader.
    assert_eq!(verdict(&facts, "shop"), Verdict::Unknown);
}

#[test]
fn a_log_whose_policy_drops_reads_tells_its_period_and_its_verbs() {
    let facts = Facts { audit_log: Some(log(&file("busy/audit-without-reads.log"))), ..facts("quiet") };
    assert_eq!(verdict(&facts, "shop"), Verdict::Unknown);
    let summary = Report::of(&facts).audit_log.unwrap();
    assert_eq!(
        summary.verbs_of_endpoints,
        ["create", "deletecollection", "update"].map(str::to_owned).into()
    );
    assert!(!summary.shows_services_proxy);
    assert!(summary.from.unwrap() < summary.to.unwrap());
    assert_eq!(hides(&facts).len(), 1, "{:?}", hides(&facts));
}

/// A client chooses its user agent for each request.
#[test]
fn a_log_with_very_many_clients_holds_some_and_says_so() {
    let mut log = AuditLog::default();
    for number in 0..20_100 {
        let line = event(|event| event["userAgent"] = format!("{number}/{}", "é".repeat(400)).into());
        log.add(line.as_bytes());
    }
    let facts = Facts { audit_log: Some(log), ..facts("quiet") };
    let readers = says(&facts, EvidenceKind::Reader);
    assert_eq!(readers.len(), 20_001);
    assert!(readers[0].starts_with("*: 100 more events are of other clients"), "{}", readers[0]);
    assert!(readers.iter().all(|what| what.len() < 500));
}

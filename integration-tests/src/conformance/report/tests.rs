//! Snapshots of reports.

use super::*;

fn recording(name: &str, outcome: Outcome) -> Recording {
    Recording { name: name.to_owned(), outcome, differs: Vec::new(), took: Duration::from_millis(7_540) }
}

fn failure(step: &str, report: &str, is_refused: bool) -> Failure {
    Failure { step: step.to_owned(), report: report.to_owned(), is_refused }
}

fn report(judged: Judged, recordings: Vec<Recording>, hand_over: HandOver) -> Report {
    let server = Server { version: "v1.32.13".to_owned(), platform: "linux/amd64".to_owned() };
    let started = "2026-11-27T12:00:00Z".parse().unwrap();
    Report { started, server, own_nodes: 0, judged, recordings, hand_over, left_over: None }
}

/// A run in which something of each kind happened.
fn mixed() -> Report {
    let refused = "POST /api/v1/namespaces/x/services: 422 Invalid: Service \"web\" is invalid";
    let difference = "--- want\n+++ got\n@@ -1 +1 @@\n-\"a\": 1\n+\"a\": 2\n";
    let written = |number: usize| Written {
        object: format!("Endpoints x/web-{number}"),
        change: "--- want\n+++ got\n@@ -1 +1 @@\n+\"endpoints.kubernetes.io/managed-by\"\n".to_owned(),
        is_trigger_time_alone: false,
    };
    let played = Played {
        upstream: "kube-controller-manager".to_owned(),
        outputs: 60,
        left_out: vec!["traffic-distribution: 422 Invalid".to_owned()],
        again: Vec::new(),
        taken_over: (0..7).map(written).collect(),
        changed_pods: 50,
        written: 41,
        still_due: String::new(),
        back: vec![written(0)],
    };
    report(
        Judged::ThisProgram,
        vec![
            recording("headless", Outcome::of(Vec::new())),
            recording("mirror-basic", Outcome::of(vec![failure("a step", difference, false)])),
            recording("traffic-distribution", Outcome::of(vec![failure("create", refused, true)])),
        ],
        HandOver::Played(played),
    )
}

#[test]
fn a_report_for_people() {
    insta::assert_snapshot!(mixed().markdown());
}

#[test]
fn a_report_beside_the_clusters_own_controllers() {
    let mut differing = recording("headless", Outcome::Passed);
    differing.differs = vec![("create".to_owned(), "--- want\n+++ got\n-  \"label\": 1\n".to_owned())];
    let reason = "the cluster runs the loops itself, and this program cannot stop and start them";
    let mut report = report(
        Judged::Plan { writers: "kube-controller-manager".to_owned() },
        vec![differing, recording("mirror-basic", Outcome::Passed)],
        HandOver::Skipped(reason.to_owned()),
    );
    report.own_nodes = 3;
    assert!(report.passed());
    insta::assert_snapshot!(report.markdown());
}

#[test]
fn what_failed_decides() {
    let passed =
        |outcome, hand_over| report(Judged::ThisProgram, vec![recording("x", outcome)], hand_over).passed();
    let skipped = || HandOver::Skipped("no command".to_owned());
    let good = Played { written: 1, ..Played::default() };
    assert!(passed(Outcome::Passed, skipped()));
    assert!(!passed(Outcome::of(vec![failure("s", "422", true)]), skipped()));
    assert!(passed(Outcome::Passed, HandOver::Played(good.clone())));
    assert!(!passed(Outcome::of(vec![failure("s", "differs", false)]), skipped()));
    let differs_then_refused = vec![failure("s", "differs", false), failure("t", "422", true)];
    assert!(!passed(Outcome::of(differs_then_refused), skipped()));
    assert!(!passed(Outcome::Passed, HandOver::Failed("it ended".to_owned())));
    let written = vec![Written {
        object: "Endpoints x/y".to_owned(),
        change: String::new(),
        is_trigger_time_alone: false,
    }];
    let bad = [
        Played { taken_over: written.clone(), ..good.clone() },
        Played { back: written, ..good.clone() },
        Played { still_due: "+ create".to_owned(), ..good.clone() },
        Played { written: 0, ..good },
    ];
    let trigger_time = Written { object: "x".to_owned(), change: String::new(), is_trigger_time_alone: true };
    let harmless = Played { back: vec![trigger_time], written: 1, ..Played::default() };
    assert!(passed(Outcome::Passed, HandOver::Played(harmless)));
    assert!(bad.into_iter().all(|played| !passed(Outcome::Passed, HandOver::Played(played))));
}

/// A report whose recordings have these outcomes, without a hand-over.
fn of(outcomes: &[Outcome], left_over: Option<&str>) -> Report {
    let recordings = outcomes.iter().map(|outcome| recording("x", outcome.clone())).collect();
    let hand_over = HandOver::Skipped("no command".to_owned());
    let left_over = left_over.map(str::to_owned);
    Report { left_over, ..report(Judged::ThisProgram, recordings, hand_over) }
}

#[test]
fn the_page_says_if_the_run_passed() {
    let skipped = Outcome::Skipped("422".to_owned());
    let failed = Outcome::Failed(vec![failure("s", "differs", false)]);
    for (outcomes, left_over, cause) in [
        (&[Outcome::Passed, skipped.clone()][..], None, None),
        (&[skipped.clone(), skipped.clone()], None, Some("no recording passed")),
        (&[skipped, failed], None, Some("**failed** in 1 step")),
        (&[Outcome::Passed], Some("DELETE x: 504"), Some("deleted: DELETE x: 504")),
    ] {
        let report = of(outcomes, left_over);
        let page = report.markdown();
        assert_eq!(report.passed(), cause.is_none(), "{cause:?}");
        assert!(cause.is_none_or(|cause| page.contains(cause)), "{page}");
        assert_eq!(
            page.contains("failed: ") || page.contains("**failed**") || page.contains("Left over"),
            cause.is_some(),
            "{page}"
        );
    }
}

#[test]
fn hostile_text_ends_no_block_or_cell() {
    let hostile = "\"'<>&]]><!--|\u{0}\u{1b}[2J\u{fffe}\u{202e}\r\n````\n";
    let failed = Outcome::Failed(vec![failure(hostile, hostile, false)]);
    let report =
        report(Judged::ThisProgram, vec![recording(hostile, failed)], HandOver::Failed(hostile.to_owned()));
    let page = report.markdown();
    let is_shown = |c| c == '\n' || kube_endpoint_core_model::is_harmless(c);
    assert!(page.chars().all(is_shown), "{page:?}");
    assert_eq!(page.lines().filter(|line| line.starts_with("`````")).count(), 4, "{page}");
}

//! Objects and watch lines that the reflector cannot decode.

use kube_endpoint_testing::Log;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::{Value, json};
use tracing::Level;

use crate::list_watch::script::*;

fn undecodable(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version.to_string()}, "subsets": 5})
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_in_a_list_does_not_affect_the_others() {
    let script = vec![
        page(9, "two", &[endpoints("a", 1), undecodable("b", 2)]),
        page(9, "", &[undecodable("c", 3), endpoints("d", 4)]),
        Answer::Watch(vec![WatchStep::Wait(1), line("MODIFIED", endpoints("b", 10)), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000 ?limit=2&continue=two
      0.000         a: - -> 1
      0.000         d: - -> 4
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      1.000         b: - -> 10
    holds a@1 b@10 d@4 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_keeps_its_last_view_until_it_is_deleted() {
    let script = vec![
        Answer::Watch(vec![
            added("a", 1),
            added("b", 2),
            added("c", 3),
            complete(9),
            WatchStep::Wait(1),
            line("MODIFIED", undecodable("a", 11)),
            line("MODIFIED", undecodable("b", 12)),
            WatchStep::Wait(1),
        ]),
        // The reflector resumes the watch after the version of the undecodable object.
        Answer::Watch(vec![WatchStep::Wait(20), line("ERROR", expired())]),
        Answer::Watch(vec![
            line("ADDED", undecodable("a", 11)),
            line("ADDED", undecodable("b", 12)),
            line("DELETED", undecodable("b", 20)),
            complete(21),
            WatchStep::Wait(1),
            line("DELETED", undecodable("a", 22)),
            WatchStep::Silence,
        ]),
    ];
    insta::assert_snapshot!(play(30, script).await, @"
      0.000 ?watch... all&timeoutSeconds=556
      0.000         a: - -> 1
      0.000         b: - -> 2
      0.000         c: - -> 3
      0.000         synced
      2.000 ?watch... resourceVersion=12&timeoutSeconds=491
     22.000 ?watch... all&timeoutSeconds=588
     22.000         b: 2 -> -
     22.000         c: 3 -> -
     23.000         a: 1 -> -
    holds  at 22
    ");
}

/// The object may be readable in the encoding of the second list only.
#[tokio::test(start_paused = true)]
async fn an_object_that_can_be_decoded_later_does_not_contradict_the_watch() {
    let script = |first: Value, change: Option<Value>| {
        let first = vec![line("ADDED", first), added("b", 2), complete(6)];
        let change = change.into_iter().map(|change| line("MODIFIED", change));
        let then = [bookmark(9), WatchStep::Wait(1), line("ERROR", expired())];
        vec![
            Answer::Watch(first.into_iter().chain(change).chain(then).collect()),
            // This list breaks off.
            Answer::Watch(vec![added("a", 8), WatchStep::Interrupt]),
            page(12, "", &[endpoints("a", 8), endpoints("b", 2)]),
        ]
    };
    assert_eq!(evidence(60, script(undecodable("a", 5), Some(undecodable("a", 8)))).await, None);
    assert_eq!(evidence(60, script(endpoints("a", 5), Some(undecodable("a", 8)))).await, None);
    // The watch must have shown this version.
    let why = evidence(60, script(endpoints("a", 5), None)).await.unwrap();
    assert!(why.starts_with("a list of endpoints contradicts"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn objects_without_a_name_are_skipped() {
    let script = vec![
        page(
            9,
            "",
            &[json!(null), json!(7), json!({"metadata": {"name": 5}}), endpoints("", 1), endpoints("a", 1)],
        ),
        Answer::Watch(vec![line("DELETED", json!({})), added("b", 10), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.000         b: - -> 10
    holds a@1 b@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_not_an_event_is_followed_by_a_relist() {
    let script = vec![
        page(9, "", &[endpoints("a", 1)]),
        Answer::Watch(vec![added("b", 10), WatchStep::Raw(b"no json\n"), added("c", 11), WatchStep::Silence]),
        page(12, "", &[endpoints("a", 1), endpoints("c", 11)]),
        Answer::Watch(vec![line("SPLIT", endpoints("a", 13)), WatchStep::Silence]),
        page(14, "", &[]),
        // Some proxies send a bare Status.
        Answer::Watch(vec![WatchStep::Line(status(410, "Expired"))]),
        page(15, "", &[]),
    ];
    insta::assert_snapshot!(play_pages(10, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.000         b: - -> 10
      0.000 ?limit=2
      0.000         c: - -> 11
      0.000         b: 10 -> -
      0.000 ?watch... resourceVersion=12&timeoutSeconds=335
      1.570 ?limit=2
      1.570         a: 1 -> -
      1.570         c: 11 -> -
      1.570 ?watch... resourceVersion=14&timeoutSeconds=382
      3.862 ?limit=2
      3.862 ?watch... resourceVersion=15&timeoutSeconds=334
    holds  at 15
    ");
}

#[tokio::test(start_paused = true)]
async fn invalid_utf8_does_not_affect_other_events() {
    let body = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"resourceVersion\":\"5\",\"uid\":\"\xff\"}}}\n";
    let script =
        vec![page(3, "", &[]), Answer::Watch(vec![WatchStep::Raw(body), added("b", 6), WatchStep::Silence])];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         synced
      0.000 ?watch... resourceVersion=3&timeoutSeconds=556
      0.000         a: - -> 5
      0.000         b: - -> 6
    holds a@5 b@6 at 6
    ");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_is_counted_each_time_and_logged_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let script = vec![
        page(9, "", &[endpoints("a", 1), undecodable("b", 2)]),
        Answer::Watch(vec![
            line("MODIFIED", undecodable("b", 10)),
            line("MODIFIED", undecodable("c", 11)),
            line("ERROR", expired()),
        ]),
        page(12, "", &[undecodable("b", 10)]),
        Answer::Unreachable,
        Answer::Watch(vec![bookmark(15), WatchStep::Silence]),
    ];
    let _current = metrics::set_default_local_recorder(&recorder);
    let log = Log::capture(Level::WARN);
    play_pages(5, script).await;
    let mut counted: Vec<String> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter_map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
            let value = match value {
                DebugValue::Counter(count) => count as f64,
                DebugValue::Gauge(value) => value.0,
                DebugValue::Histogram(_) => 0.0,
            };
            let is_ours = labels.first().is_some_and(|kind| kind == "endpoints") && value != 0.0;
            is_ours.then(|| format!("{} {} {value}", key.key().name(), labels.join(" ")))
        })
        .collect();
    counted.sort();
    insta::assert_snapshot!(counted.join("\n"), @"
    informer_events_total endpoints bookmark 3
    informer_events_total endpoints restarted 2
    informer_relists_total endpoints expired 1
    informer_relists_total endpoints start 1
    informer_synced endpoints 1
    informer_undecodable_objects endpoints 1
    informer_undecodable_total endpoints 4
    informer_watch_errors_total endpoints refused 1
    informer_watch_errors_total endpoints unreachable 1
    ");
    insta::assert_snapshot!(without_delays(&log), @r#"
     WARN an object cannot be decoded; its last known state stays in use resource="endpoints" key=n/b version=2 error="invalid type: integer `5`, expected a sequence at line 1 column 74"
     WARN an object cannot be decoded; its last known state stays in use resource="endpoints" key=n/c version=11 error="invalid type: integer `5`, expected a sequence at line 1 column 75"
     WARN trying again resource="endpoints" verb="watch" error="the API server cannot be reached: connection refused"
    "#);
}

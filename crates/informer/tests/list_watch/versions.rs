//! Servers whose versions go back, as after a restore of their storage from a backup.

use std::time::Duration;

use kube_endpoint_informer::{Cluster, Kind, ReflectorOptions};
use kube_endpoint_testing::Log;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tracing::Level;

use crate::list_watch::script::*;

fn listed() -> Answer {
    page(9, "", &[endpoints("a", 1), endpoints("b", 8)])
}

/// Returns the state of the restored server.
fn restored() -> Answer {
    page(3, "", &[endpoints("a", 1), endpoints("c", 2)])
}

fn too_large() -> Answer {
    let status = serde_json::json!({"kind": "Status", "code": 504, "reason": "Timeout", "message": "Too large resource version: 9, current: 3",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1}});
    Answer::Status(504, None, status)
}

fn in_pages() -> ReflectorOptions {
    ReflectorOptions::new(0).streaming_list(false).page_size(2)
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_connection_versions_that_went_back_are_followed_by_a_relist() {
    let script = vec![
        listed(),
        Answer::Watch(vec![WatchStep::Wait(20), WatchStep::Interrupt]),
        Answer::UnreachableCheck,
        Answer::Version(3),
        Answer::Version(3),
        restored(),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 8
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
     20.000   interrupted
     20.000 ?limit=1
     20.655 ?limit=1
     21.655 ?limit=1
     21.655 ?limit=2
     21.655         c: - -> 2
     21.655         b: 8 -> -
     21.655 ?watch... resourceVersion=3&timeoutSeconds=588
    holds a@1 c@2 at 3
    ");
}

/// Two API servers behind one address have storages of their own. Each connection may reach either
/// of them.
#[tokio::test(start_paused = true)]
async fn servers_with_two_storages_are_named_in_the_log_and_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let interrupted = |step| Answer::Watch(vec![WatchStep::Wait(20), step, WatchStep::Interrupt]);
    let script = vec![
        listed(),
        interrupted(bookmark(9)),
        Answer::Version(3),
        Answer::Version(3),
        restored(),
        interrupted(bookmark(3)),
        // The other storage has passed the position, which the check cannot tell from progress.
        Answer::Version(9),
        interrupted(bookmark(9)),
        Answer::Version(3),
        Answer::Version(3),
        restored(),
        Answer::Watch(vec![WatchStep::Silence]),
    ];
    let _current = metrics::set_default_local_recorder(&recorder);
    let log = Log::capture(Level::WARN);
    play_with(90, in_pages(), script, async |_| {}).await;
    insta::assert_snapshot!(without_delays(&log), @r#"
     WARN the storage of the API server went back again; the controllers start again later evidence="the API server's version of endpoints was 3, although 9 had been read before" in_seconds=999979
     WARN the store must be filled again resource="endpoints" verb="list" error=the API server's version 3 is lower than 9, which was read before: its storage was set back, or another API server with another storage answers
     WARN the store must be filled again resource="endpoints" verb="list" error=the API server's version 3 is lower than 9, which was read before: its storage was set back, or another API server with another storage answers
    "#);
    let relists = snapshotter.snapshot().into_vec().into_iter().filter(|(key, _, _, value)| {
        key.key().name() == "informer_relists_total" && *value != DebugValue::Counter(0)
    });
    let counts: Vec<_> = relists
        .map(|(key, _, _, value)| {
            let labels: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
            (labels.join(" "), value)
        })
        .collect();
    let counted = [("endpoints start", 1), ("endpoints version_went_back", 2)];
    assert_eq!(counts, counted.map(|(labels, count)| (labels.to_owned(), DebugValue::Counter(count))));
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_connection_the_watch_is_resumed_if_versions_did_not_go_back() {
    let script = vec![
        listed(),
        Answer::Watch(vec![WatchStep::Wait(20), WatchStep::Interrupt]),
        Answer::Version(9),
        Answer::Watch(vec![added("c", 10), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 8
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
     20.000   interrupted
     20.000 ?limit=1
     20.000 ?watch... resourceVersion=9&timeoutSeconds=491
     20.000         c: - -> 10
    holds a@1 b@8 c@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_watch_but_not_list_resumes_without_the_check() {
    let script = vec![
        listed(),
        Answer::Watch(vec![WatchStep::Wait(20), WatchStep::Interrupt]),
        Answer::ForbiddenCheck,
        Answer::Watch(vec![added("c", 10), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(30, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 8
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
     20.000   interrupted
     20.000 ?limit=1
     20.000 ?watch... resourceVersion=9&timeoutSeconds=491
     20.000         c: - -> 10
    holds a@1 b@8 c@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_for_90_seconds_is_checked_while_it_stays_open() {
    // The server accepts a watch from a version that it has not reached, and sends nothing.
    let script = vec![
        listed(),
        Answer::Watch(vec![WatchStep::Wait(50), bookmark(9), WatchStep::Silence]),
        Answer::Version(3),
        Answer::Version(3),
        restored(),
    ];
    insta::assert_snapshot!(play_pages(200, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 8
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
    140.000 ?limit=1
    141.000 ?limit=1
    141.000 ?limit=2
    141.000         c: - -> 2
    141.000         b: 8 -> -
    141.000 ?watch... resourceVersion=3&timeoutSeconds=335
    holds a@1 c@2 at 3
    ");
    // The version is not lower: the reflector keeps the watch, and applies its next event.
    let script = vec![
        listed(),
        Answer::Watch(vec![WatchStep::Wait(140), added("c", 10), WatchStep::Silence]),
        Answer::Version(9),
    ];
    insta::assert_snapshot!(play_pages(150, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 8
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
     90.000 ?limit=1
    140.000         c: - -> 10
    holds a@1 b@8 c@10 at 10
    ");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_every_minute_need_no_checks() {
    let steps = (0..9).flat_map(|minute| [WatchStep::Wait(60), bookmark(10 + minute)]).collect();
    let transcript = play_pages(500, vec![listed(), Answer::Watch(steps)]).await;
    assert!(!transcript.contains("?limit=1\n") && transcript.contains("holds a@1 b@8 at 17"), "{transcript}");
}

#[tokio::test(start_paused = true)]
async fn a_too_large_resource_version_is_retried_and_followed_by_a_relist_if_versions_went_back() {
    let script = vec![listed(), too_large(), Answer::Version(3), Answer::Version(3), restored()];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 8
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.655 ?limit=1
      1.655 ?limit=1
      1.655 ?limit=2
      1.655         c: - -> 2
      1.655         b: 8 -> -
      1.655 ?watch... resourceVersion=3&timeoutSeconds=588
    holds a@1 c@2 at 3
    ");
    // A server that lags behind catches up.
    let script = vec![
        listed(),
        too_large(),
        Answer::Version(9),
        too_large(),
        Answer::Version(9),
        Answer::Watch(vec![added("c", 10), WatchStep::Silence]),
    ];
    insta::assert_snapshot!(play_pages(5, script).await, @"
      0.000 ?limit=2
      0.000         a: - -> 1
      0.000         b: - -> 8
      0.000         synced
      0.000 ?watch... resourceVersion=9&timeoutSeconds=556
      0.655 ?limit=1
      0.655 ?watch... resourceVersion=9&timeoutSeconds=335
      2.225 ?limit=1
      2.225 ?watch... resourceVersion=9&timeoutSeconds=382
      2.225         c: - -> 10
    holds a@1 b@8 c@10 at 10
    ");
}

/// Returns a watch with an event each second, so that it is never silent.
fn busy_watch() -> Answer {
    Answer::Watch((0..2000).flat_map(|at| [WatchStep::Wait(1), added("busy", 10 + at)]).collect())
}

async fn suspicious(cluster: Cluster, at: &[u64]) {
    let mut now = 0;
    for seconds in at {
        tokio::time::sleep(Duration::from_secs(seconds - now)).await;
        now = *seconds;
        // Writers that meet conflicts at the same time ask at the same time.
        for _ in 0..100 {
            cluster.request_version_check(Kind::Endpoints, "n");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_requested_check_lists_the_kind_if_versions_went_back() {
    let script = vec![listed(), busy_watch(), Answer::Version(3), Answer::Version(3), restored()];
    let transcript =
        play_with(40, in_pages(), script, async |cluster| suspicious(cluster, &[30]).await).await;
    let requests: Vec<&str> = transcript.lines().filter(|line| line.contains('?')).collect();
    insta::assert_snapshot!(requests.join("\n"), @"
     0.000 ?limit=2
     0.000 ?watch... resourceVersion=9&timeoutSeconds=556
    30.000 ?limit=1
    31.000 ?limit=1
    31.000 ?limit=2
    31.000 ?watch... resourceVersion=3&timeoutSeconds=335
    ");
}

#[tokio::test(start_paused = true)]
async fn requested_checks_that_explain_nothing_list_the_kind_once_in_ten_minutes() {
    // As when the restored server has passed the version of the watch before anybody looked.
    let script = vec![
        listed(),
        busy_watch(),
        page(500, "", &[endpoints("a", 1), endpoints("b", 8), endpoints("busy", 500)]),
        busy_watch(),
        page(900, "", &[endpoints("a", 1), endpoints("b", 8), endpoints("busy", 900)]),
        busy_watch(),
    ];
    let at: Vec<u64> = (1..1200).collect();
    let transcript =
        play_with(1200, in_pages(), script, async |cluster| suspicious(cluster, &at).await).await;
    let lists: Vec<&str> = transcript.lines().filter(|line| line.ends_with("?limit=2")).collect();
    insta::assert_snapshot!(lists.join("\n"), @"
      0.000 ?limit=2
     11.000 ?limit=2
    621.000 ?limit=2
    ");
    let checks = transcript.lines().filter(|line| line.ends_with("?limit=1")).count();
    assert!((115..=120).contains(&checks), "{checks} checks, one each 10 s");
}

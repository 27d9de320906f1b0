//! The status, the log and the metrics of a kind that a reflector cannot list.

use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use kube_endpoint_informer::metrics::WatchErrorReason;
use kube_endpoint_informer::{Cluster, Kind, ListWatchVerb, ReflectorOptions, StreamEvent};
use kube_endpoint_testing::Log;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tracing::Level;

use crate::list_watch::script::*;

fn forbidden() -> Answer {
    Answer::Status(403, None, status(403, "Forbidden"))
}

fn in_pages() -> ReflectorOptions {
    ReflectorOptions::new(0).streaming_list(false).page_size(2)
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_holds_up_only_those_who_wait_for_it() {
    let script = vec![forbidden(), forbidden(), forbidden(), page(9, "", &[])];
    play_with(60, in_pages(), script, async |cluster: Cluster| {
        let (nodes, endpoints) = ([Kind::Nodes], [Kind::Endpoints]);
        assert!(!cluster.has_synced_kinds(nodes));
        cluster.apply::<kube_endpoint_core_model::Node>(StreamEvent::restarted(vec![], ResourceVersion(3)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        cluster.synced_kinds(nodes).await;
        assert!(cluster.has_synced_kinds(nodes) && cluster.has_synced_kinds([]));
        assert!(
            !cluster.has_synced_kinds(endpoints) && !cluster.has_synced_kinds([Kind::Nodes, Kind::Endpoints])
        );
        let status = cluster.status(Kind::Endpoints);
        let failure = status.failure.unwrap();
        assert!(!status.synced);
        assert_eq!(
            (failure.verb, failure.code, failure.reason),
            (ListWatchVerb::List, Some(403), WatchErrorReason::Api)
        );
        assert_eq!((failure.failures, failure.since.elapsed()), (2, Duration::from_secs(1)));
        cluster.synced_kinds([Kind::Nodes, Kind::Endpoints]).await;
        let status = cluster.status(Kind::Endpoints);
        assert_eq!((status.synced, status.failure), (true, None));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_logged_with_the_missing_permission() {
    let script = vec![
        Answer::Unreachable,
        Answer::Status(500, None, status(500, "InternalError")),
        forbidden(),
        Answer::Unreachable,
        page(9, "", &[]),
        forbidden(),
        Answer::Unreachable,
        Answer::Watch(vec![bookmark(15), WatchStep::Silence]),
    ];
    let log = Log::capture(Level::WARN);
    play_pages(60, script).await;
    insta::assert_snapshot!(without_delays(&log), @r#"
     WARN trying again resource="endpoints" verb="list" error="the API server cannot be reached: connection refused"
    ERROR cannot list this kind, for which controllers may wait resource="endpoints" verb="list" error="the API server answered 500 InternalError: so it is"
    ERROR a permission is missing (RBAC) resource="endpoints" verb="list" error="the API server answered 403 Forbidden: so it is" missing="verb list on resource endpoints in the core API group"
    ERROR cannot list this kind, for which controllers may wait resource="endpoints" verb="list" error="the API server cannot be reached: connection refused"
    ERROR a permission is missing (RBAC) resource="endpoints" verb="watch" error="the API server answered 403 Forbidden: so it is" missing="verb watch on resource endpoints in the core API group"
     WARN trying again resource="endpoints" verb="watch" error="the API server cannot be reached: connection refused"
    "#);
}

/// Returns the labels of the gauges that say why Endpoints fail, if not 0.
fn failing(snapshotter: &Snapshotter) -> Vec<String> {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let failing = metrics.filter(|(key, ..)| key.key().name() == "informer_failing");
    failing
        .filter(|(.., value)| *value == DebugValue::Gauge(1.0.into()))
        .map(|(key, ..)| {
            key.key().labels().map(|label| label.value().to_owned()).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_gauge_says_why_a_kind_fails_until_it_no_longer_does() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _current = metrics::set_default_local_recorder(&recorder);
    let script = vec![forbidden(), Answer::Unreachable, page(9, "", &[])];
    let mut seen = Vec::new();
    let observe = async |_: Cluster| {
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            seen.push(failing(&snapshotter));
        }
    };
    play_with(30, in_pages(), script, observe).await;
    assert_eq!(seen, [vec!["endpoints refused"], vec!["endpoints unreachable"], vec![], vec![]]);
}

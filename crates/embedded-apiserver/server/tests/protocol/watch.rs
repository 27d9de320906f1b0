//! Tests watches: their starts, events, bookmarks and ends.

use std::time::Duration;

use crate::protocol::common::*;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_begins_with_the_current_state() {
    let (_server, raw) = started();
    raw.post(PODS, &pod("b")).await.expect(201);
    raw.post(PODS, &pod("a")).await.expect(201);
    for query in ["watch=1", "watch=true&resourceVersion=0"] {
        let mut events = raw.watch(&format!("{PODS}?{query}")).await;
        assert_eq!(events.take(2).await, ["ADDED a@6", "ADDED b@5"], "{query}");
        assert!(events.is_idle());
    }
    let mut events = raw.watch(&format!("{PODS}?watch=1")).await;
    raw.post(PODS, &pod("c")).await.expect(201);
    assert_eq!(events.take(3).await, ["ADDED a@6", "ADDED b@5", "ADDED c@7"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_sends_later_changes() {
    let (server, raw) = started();
    let start = server.resource_version();
    raw.post(PODS, &pod("a")).await.expect(201);
    raw.post(SERVICES, &service("s")).await.expect(201);
    raw.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    let mut events = raw.watch(&format!("{PODS}?watch=1&resourceVersion={start}")).await;
    assert_eq!(events.take(2).await, ["ADDED a@5", "MODIFIED a@7"]);
    let mut late = raw.watch(&format!("{PODS}?watch=1&resourceVersion=7")).await;
    assert!(late.is_idle());
    raw.delete(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert_eq!(late.take(2).await, ["MODIFIED a@8", "DELETED a@9"]);
    assert_eq!(events.take(2).await, ["MODIFIED a@8", "DELETED a@9"]);
}

#[tokio::test(start_paused = true)]
async fn entering_and_leaving_a_selection_is_added_and_deleted() {
    let (_server, raw) = started();
    let mut blue = raw.watch(&format!("{PODS}?watch=1&labelSelector=color=blue")).await;
    let mut on_node = raw.watch(&format!("{PODS}?watch=1&fieldSelector=status.phase=Running")).await;
    raw.post(PODS, &pod("a")).await.expect(201);
    assert!(blue.is_idle());
    let color = async |color: &str| {
        raw.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"color": color}}})).await.expect(200);
    };
    color("blue").await;
    assert_eq!(blue.short().await, "ADDED a@6");
    let status = json!({"status": {"phase": "Running"}});
    raw.merge(&format!("{PODS}/a/status"), &status).await.expect(200);
    assert_eq!(blue.short().await, "MODIFIED a@7");
    assert_eq!(on_node.short().await, "ADDED a@7");
    color("red").await;
    let left = blue.next().await.unwrap();
    assert_eq!(short(&left), "DELETED a@8");
    assert_eq!(left["object"]["metadata"]["labels"]["color"], "blue", "the last state that was selected");
    color("green").await;
    raw.delete(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert!(blue.is_idle());
    assert_eq!(on_node.take(4).await, ["MODIFIED a@8", "MODIFIED a@9", "MODIFIED a@10", "DELETED a@11"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_a_namespace_or_a_name() {
    let (server, raw) = started();
    let other = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "other"},
        "spec": {"containers": []}});
    let mut one = raw.watch(&PODS.replace("/v1/", "/v1/watch/").replace("/pods", "/pods/a")).await;
    let mut all = raw.watch("/api/v1/pods?watch=1").await;
    server.load([other]).unwrap();
    raw.post(PODS, &pod("b")).await.expect(201);
    raw.post(PODS, &pod("a")).await.expect(201);
    assert_eq!(all.take(3).await, ["ADDED a@6", "ADDED b@7", "ADDED a@8"]);
    assert_eq!(one.short().await, "ADDED a@8");
    assert!(one.is_idle());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_before_the_end() {
    let (_server, raw) = started();
    let uri = format!("{PODS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=150");
    let mut events = raw.watch(&uri).await;
    let start = tokio::time::Instant::now();
    raw.post(SERVICES, &service("s")).await.expect(201);
    assert_eq!(events.short().await, "BOOKMARK @5", "the version moves on with other resources as well");
    assert_eq!(start.elapsed().as_secs(), 60);
    raw.post(PODS, &pod("a")).await.expect(201);
    assert_eq!(events.take(2).await, ["ADDED a@6", "BOOKMARK @6"]);
    assert_eq!(start.elapsed().as_secs(), 120);
    assert_eq!(events.short().await, "BOOKMARK @6");
    assert_eq!(start.elapsed().as_secs(), 148);
    assert_eq!(events.short().await, "(end)");
    assert_eq!(start.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_need_allow_watch_bookmarks() {
    let (_server, raw) = started();
    let mut events = raw.watch(&format!("{PODS}?watch=1&timeoutSeconds=600")).await;
    assert_eq!(events.short().await, "(end)");
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_ends_within_an_hour() {
    let (_server, raw) = started();
    let start = tokio::time::Instant::now();
    assert_eq!(raw.watch(&format!("{PODS}?watch=1")).await.short().await, "(end)");
    assert!((1800..3600).contains(&start.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_marked_bookmark() {
    let (_server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    let uri = format!(
        "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut events = raw.watch(&uri).await;
    assert_eq!(events.short().await, "ADDED a@5");
    let bookmark = events.next().await.unwrap();
    assert_eq!(short(&bookmark), "BOOKMARK @5");
    assert_eq!(bookmark["object"]["kind"], "Pod");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    raw.post(PODS, &pod("b")).await.expect(201);
    assert_eq!(events.short().await, "ADDED b@6");
    let none = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    assert!(raw.watch(&format!("{PODS}?{none}")).await.is_idle());
    let mut future = raw.watch(&format!("{uri}&resourceVersion=99")).await;
    assert_eq!(future.short().await, "ERROR Timeout: Too large resource version: 99, current: 6");
    let refused = raw.get(&format!("{PODS}?watch=1&sendInitialEvents=true")).await;
    assert!(
        refused.refused(422, "Invalid").contains("sendInitialEvents requires setting resourceVersionMatch")
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_is_an_error_event() {
    let (_server, raw) = start(EmbeddedApiServer::builder().history(2));
    for name in ["a", "b", "c", "d"] {
        raw.post(PODS, &pod(name)).await.expect(201);
    }
    let mut events = raw.watch(&format!("{PODS}?watch=1&resourceVersion=5")).await;
    let error = events.next().await.unwrap();
    assert_eq!(short(&error), "ERROR too old resource version: 5 (6)");
    assert_eq!(
        (error["object"]["code"].as_u64(), error["object"]["reason"].as_str()),
        (Some(410), Some("Expired"))
    );
    assert_eq!(events.short().await, "(end)");
    let mut events = raw.watch(&format!("{PODS}?watch=1&resourceVersion=6")).await;
    assert_eq!(events.take(2).await, ["ADDED c@7", "ADDED d@8"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_gets_expired() {
    let (_server, raw) = start(EmbeddedApiServer::builder().history(3));
    let mut events = raw.watch(&format!("{PODS}?watch=1")).await;
    assert!(events.is_idle());
    for number in 0..9 {
        raw.post(PODS, &pod(&format!("p{number}"))).await.expect(201);
    }
    assert_eq!(events.take(2).await, ["ERROR too old resource version: 4 (10)", "(end)"]);
}

#[tokio::test(start_paused = true)]
async fn close_watches_ends_open_watches() {
    let (server, raw) = started();
    let mut events = raw.watch(&format!("{PODS}?watch=1")).await;
    assert!(events.is_idle());
    server.close_watches();
    assert_eq!(events.short().await, "(end)");
    assert!(raw.watch(&format!("{PODS}?watch=1")).await.is_idle());
}

#[tokio::test(start_paused = true)]
async fn tables_describe_their_columns_once() {
    let (_server, raw) = started();
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut events = raw.watch_as(&format!("{PODS}?watch=1"), table).await;
    raw.post(PODS, &pod("a")).await.expect(201);
    raw.post(PODS, &pod("b")).await.expect(201);
    let (first, second) = (events.next().await.unwrap(), events.next().await.unwrap());
    assert!(first["object"]["columnDefinitions"].is_array());
    assert!(second["object"]["columnDefinitions"].is_null());
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test(start_paused = true)]
async fn many_watchers_see_the_same_events() {
    let (_server, raw) = started();
    let mut watchers = Vec::new();
    for _ in 0..50 {
        watchers.push(raw.watch(&format!("{PODS}?watch=1&timeoutSeconds=5")).await);
    }
    for number in 0..300 {
        raw.post(PODS, &pod(&format!("p{number:03}"))).await.expect(201);
    }
    tokio::time::advance(Duration::from_millis(1)).await;
    // The test reads all of them before the time of the first is over.
    for seen in futures::future::join_all(watchers.into_iter().map(drain)).await {
        assert_eq!((seen.len(), seen[299].as_str()), (300, "ADDED p299@304"));
    }
}

/// Writes more than the watcher reads, until the watch ends. Returns the times of its bookmarks and
/// of its end in seconds.
async fn backlogged(raw: &Raw, mut events: Events) -> (Vec<f64>, f64) {
    let start = tokio::time::Instant::now();
    let mut bookmarks = Vec::new();
    for change in 0..20_000 {
        for twice in 0..2 {
            let labels = json!({"change": format!("{change}-{twice}")});
            raw.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": labels}})).await.expect(200);
        }
        match events.short().await.as_str() {
            "(end)" => return (bookmarks, start.elapsed().as_secs_f64()),
            event if event.starts_with("BOOKMARK") => bookmarks.push(start.elapsed().as_secs_f64()),
            _ => {}
        }
        tokio::time::advance(Duration::from_millis(5)).await;
    }
    panic!("the watch does not end");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_has_a_backlog_gets_its_bookmarks_and_ends_in_time() {
    let interval = Duration::from_secs(2);
    let (_server, raw) = start(EmbeddedApiServer::builder().bookmark_interval(interval));
    raw.post(PODS, &pod("a")).await.expect(201);
    let uri = format!("{PODS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=6");
    let (bookmarks, end) = backlogged(&raw, raw.watch(&uri).await).await;
    // The watch looks at the time after each batch of 128 events, which the client reads in 0.64
    // seconds. A bookmark comes after the next batch.
    let after = |time: f64, due: f64, most: f64| (due..due + most).contains(&time);
    assert_eq!(bookmarks.len(), 2, "{bookmarks:?}");
    assert!(after(bookmarks[0], 2.0, 1.3) && after(bookmarks[1], 4.0, 1.3), "{bookmarks:?}");
    assert!(after(end, 6.0, 0.7), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_always_has_a_backlog_can_be_closed() {
    let (server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    let events = raw.watch(&format!("{PODS}?watch=1&timeoutSeconds=60")).await;
    let close = async {
        pass(2).await;
        server.close_watches();
    };
    let ((), (_, end)) = tokio::join!(biased; close, backlogged(&raw, events));
    // The client reads the rest of its batch and one more batch: each takes at most 0.64 seconds.
    assert!((2.0..3.3).contains(&end), "{end}");
}

/// Steps that are due at the same time come in one order: the end, then the end of a stall, then a
/// bookmark after the changes that it covers.
#[tokio::test(start_paused = true)]
async fn what_is_due_at_the_same_time_comes_in_one_order() {
    let check = async |stall: Option<u64>, timeout: u64, expected: &[(u64, &str)]| {
        let mut builder = EmbeddedApiServer::builder().bookmark_interval(Duration::from_secs(5));
        if let Some(stall) = stall {
            let fault = Fault::StallWatch(Duration::from_secs(stall));
            builder = builder.fault(FaultRule::on(fault, "watch", "pods"));
        }
        let (_server, raw) = start(builder);
        let uri = format!("{PODS}?watch=1&allowWatchBookmarks=true&timeoutSeconds={timeout}");
        let mut events = raw.watch(&uri).await;
        let begin = tokio::time::Instant::now();
        let change = async {
            pass(5).await;
            raw.post(PODS, &pod("a")).await.expect(201);
        };
        let read = async {
            let mut seen = Vec::new();
            while seen.last().is_none_or(|(_, event)| event != "(end)") {
                let event = events.short().await;
                seen.push((begin.elapsed().as_secs(), event));
            }
            seen
        };
        let ((), seen) = tokio::join!(biased; change, read);
        let seen: Vec<_> = seen.iter().map(|(second, event)| (*second, event.as_str())).collect();
        assert_eq!(seen, expected, "{stall:?}, {timeout} s");
    };
    check(None, 5, &[(3, "BOOKMARK @4"), (5, "(end)")]).await;
    check(None, 7, &[(5, "ADDED a@5"), (5, "BOOKMARK @5"), (7, "(end)")]).await;
    check(Some(5), 7, &[(5, "ADDED a@5"), (5, "BOOKMARK @5"), (7, "(end)")]).await;
    check(Some(5), 5, &[(5, "(end)")]).await;
    check(Some(9), 5, &[(5, "(end)")]).await;
}

//! Tests several API servers before one store, whose watch caches lag.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Lag, Replica};
use tokio::time::Instant;

use crate::protocol::common::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a current server, and another one before the same store whose cache of pods is a minute
/// behind and lacks pod `b` at 6.
async fn behind() -> (EmbeddedApiServer, Raw, Replica, Raw) {
    let (server, current) = started();
    current.post(PODS, &pod("a")).await.expect(201);
    let replica = server.replica(1);
    replica.add_lag(Lag { plural: Some("pods"), time: MINUTE, bunched: false });
    current.post(PODS, &pod("b")).await.expect(201);
    let lagging = Raw::of(replica.service());
    (server, current, replica, lagging)
}

#[tokio::test(start_paused = true)]
async fn reads_without_a_version_are_consistent_and_those_of_the_cache_lag() {
    let (_server, current, _replica, lagging) = behind().await;
    assert_eq!(names(&lagging.get(PODS).await.expect(200)), ["a", "b"]);
    assert_eq!(names(&lagging.get(&format!("{PODS}?limit=5")).await.expect(200)), ["a", "b"]);
    lagging.get(&format!("{PODS}/b")).await.expect(200);
    let exact = format!("{PODS}?resourceVersion=6&resourceVersionMatch=Exact");
    assert_eq!(names(&lagging.get(&exact).await.expect(200)), ["a", "b"]);
    for any in ["resourceVersion=0", "resourceVersion=5&resourceVersionMatch=NotOlderThan"] {
        let list = lagging.get(&format!("{PODS}?{any}")).await.expect(200);
        assert_eq!((names(&list), version_of(&list)), (vec!["a"], 5), "{any}");
        assert_eq!(names(&current.get(&format!("{PODS}?{any}")).await.expect(200)), ["a", "b"]);
    }
    lagging.get(&format!("{PODS}/b?resourceVersion=0")).await.refused(404, "NotFound");
    let services = lagging.post(SERVICES, &service("web")).await.expect(201);
    assert_eq!(version_of(&services), 7, "writes are consistent");
    tokio::time::sleep(MINUTE).await;
    let list = lagging.get(&format!("{PODS}?resourceVersion=0")).await.expect(200);
    assert_eq!((names(&list), version_of(&list)), (vec!["a", "b"], 7));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_needs_a_later_version_waits_for_the_cache_for_three_seconds() {
    let (_server, _current, _replica, lagging) = behind().await;
    let began = Instant::now();
    for path in [format!("{PODS}?resourceVersion=6"), format!("{PODS}/b?resourceVersion=6")] {
        let message = lagging.get(&path).await.refused(504, "Timeout");
        assert_eq!(message, "Timeout: Too large resource version: 6, current: 5", "{path}");
    }
    let state = format!("{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let refused = drain(lagging.watch(&state).await).await;
    assert_eq!(refused, ["ERROR Timeout: Too large resource version: 6, current: 5"]);
    assert_eq!(began.elapsed().as_secs(), 9);
    tokio::time::sleep(MINUTE - Duration::from_secs(11)).await;
    let list = lagging.get(&format!("{PODS}?resourceVersion=6")).await.expect(200);
    assert_eq!((names(&list), began.elapsed().as_secs()), (vec!["a", "b"], 60), "it waits no longer");
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_the_cache_has_read() {
    let (_server, current, replica, lagging) = behind().await;
    let bookmarks = "allowWatchBookmarks=true&timeoutSeconds=600";
    let mut watch = lagging.watch(&format!("{PODS}?watch=1&resourceVersion=5&{bookmarks}")).await;
    // The client opened it on the current server before, so it is silent until the cache has passed
    // its version.
    let mut moved = lagging.watch(&format!("{PODS}?watch=1&resourceVersion=7&{bookmarks}")).await;
    let began = Instant::now();
    tokio::time::sleep(MINUTE / 2).await;
    current.post(PODS, &pod("c")).await.expect(201);
    current.post(PODS, &pod("d")).await.expect(201);
    assert!(watch.is_idle() && moved.is_idle());
    assert_eq!(watch.take(2).await, ["ADDED b@6", "BOOKMARK @6"]);
    assert_eq!(began.elapsed().as_secs(), 60);
    assert_eq!(moved.short().await, "ADDED d@8");
    assert_eq!(began.elapsed().as_secs(), 90);
    assert_eq!(watch.take(2).await, ["ADDED c@7", "ADDED d@8"]);
    // After the end of a lag, no change overtakes an earlier one.
    current.post(PODS, &pod("e")).await.expect(201);
    assert_eq!(replica.remove_lag(1), 4);
    current.post(PODS, &pod("f")).await.expect(201);
    assert_eq!((replica.catches_up_at().unwrap() - began).as_secs(), 150);
    assert_eq!(watch.take(4).await, ["BOOKMARK @8", "ADDED e@9", "ADDED f@10", "BOOKMARK @10"]);
    assert_eq!(began.elapsed().as_secs(), 180);
    assert_eq!(replica.catches_up_at(), None);
    let state = lagging.watch(&format!("{PODS}?watch=1&resourceVersion=0&timeoutSeconds=1")).await;
    assert_eq!(drain(state).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_restarted_has_no_history() {
    let (server, current, replica, restarted) = behind().await;
    replica.restart();
    for raw in [&current, &restarted] {
        raw.post(PODS, &pod(if server.count("pods") == 2 { "c" } else { "d" })).await.expect(201);
    }
    let old = format!("{PODS}?watch=1&resourceVersion=5");
    assert_eq!(drain(restarted.watch(&old).await).await, ["ERROR too old resource version: 5 (6)"]);
    assert_eq!(current.watch(&old).await.short().await, "ADDED b@6");
    assert_eq!(restarted.watch(&old.replace('5', "6")).await.short().await, "ADDED c@7");
}

#[tokio::test(start_paused = true)]
async fn changes_may_arrive_together() {
    let (server, raw) = started();
    let replica = server.replica(1);
    replica.add_lag(Lag { plural: None, time: MINUTE, bunched: true });
    let mut watch = Raw::of(replica.service()).watch(&format!("{PODS}?watch=1&resourceVersion=4")).await;
    let began = Instant::now();
    for name in ["a", "b"] {
        tokio::time::sleep(Duration::from_secs(20)).await;
        raw.post(PODS, &pod(name)).await.expect(201);
    }
    assert_eq!(watch.take(2).await, ["ADDED a@5", "ADDED b@6"]);
    assert_eq!(began.elapsed().as_secs(), 60);
}

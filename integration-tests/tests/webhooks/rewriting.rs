//! Tests webhooks that rewrite slices and Endpoints at each write.

use std::time::Duration;

use serde_json::Value;

use crate::webhooks::cluster::{Cluster, Webhook, endpoints, objects, pod, server, settings_of_tests};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the list of a slice's endpoints or of the addresses of Endpoints.
fn list(object: &mut Value) -> Option<&mut Vec<Value>> {
    let pointer = if object["kind"] == "Endpoints" { "/subsets/0/addresses" } else { "/endpoints" };
    object.pointer_mut(pointer)?.as_array_mut()
}

fn label(object: &mut Value, value: &str) {
    object["metadata"]["labels"]["policy.example.com/checked"] = value.into();
}

/// The bound on the writes of an object in an hour, for a kind of webhook.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// The webhook changes no compared field, so the controllers write nothing again.
    Once,
    /// Each update leaves the object as the webhook has made it before, so the controllers repeat
    /// it after twice as long each time.
    Undone,
    /// Each update stores another object, so the controllers answer it after up to five minutes. A
    /// webhook that makes few different objects makes some again, which is answered sooner.
    Fought,
}

impl Bound {
    /// Returns the least and the most writes in the first hour and in the second.
    fn writes(self) -> [(usize, usize); 2] {
        match self {
            Self::Once => [(1, 1), (0, 0)],
            Self::Undone => [(12, 16), (1, 1)],
            Self::Fought => [(30, 80), (11, 20)],
        }
    }
}

const KINDS: [(&str, Bound, Webhook); 9] = [
    ("a label", Bound::Undone, |object, _| label(object, "yes")),
    ("another value of a label", Bound::Fought, |object, turn| label(object, &format!("request-{turn}"))),
    ("a label of ours removed", Bound::Undone, |object, _| {
        object["metadata"]["labels"].as_object_mut().unwrap().remove("team");
    }),
    ("another value of an annotation", Bound::Once, |object, turn| {
        object["metadata"]["annotations"]["policy.example.com/checked"] = format!("request-{turn}").into();
    }),
    ("the order", Bound::Once, |object, _| list(object).into_iter().for_each(|list| list.reverse())),
    ("another order", Bound::Once, |object, turn| {
        list(object).into_iter().filter(|list| !list.is_empty()).for_each(|list| {
            let by = turn % list.len();
            list.rotate_left(by);
        });
    }),
    ("a dropped endpoint", Bound::Undone, |object, _| {
        list(object).into_iter().for_each(|list| drop(list.pop()));
    }),
    ("another dropped endpoint", Bound::Fought, |object, turn| {
        list(object).into_iter().filter(|list| !list.is_empty()).for_each(|list| {
            list.remove(turn % list.len());
        });
    }),
    ("the owner removed", Bound::Once, |object, _| object["metadata"]["ownerReferences"] = Value::Null),
];

/// Returns a namespace whose Service and Endpoints have a label, with this number of pods.
fn labelled(pods: usize) -> Vec<Value> {
    let mut objects = objects("default", 10, pods);
    for object in &mut objects {
        object["metadata"]["labels"]["team"] = "shop".into();
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn writes_stay_bounded_whatever_a_webhook_rewrites() {
    for (name, bound, webhook) in KINDS {
        let cluster = Cluster::rewriting(server(labelled(3)), &settings_of_tests(100), webhook);
        for (least, most) in bound.writes() {
            cluster.pass(HOUR).await;
            let writes = cluster.writes();
            let is_bounded = writes.iter().all(|writes| (least..=most).contains(writes));
            assert!(is_bounded, "{name}: {writes:?} in an hour, {bound:?}");
            cluster.server.clear_request_log();
        }
        let is_once = matches!(bound, Bound::Once);
        for status in cluster.statuses() {
            let recent = &status.recent_foreign_writes;
            // The controllers see another order, and do nothing about it.
            let counts: Vec<u64> = recent.iter().map(|write| write.count).collect();
            let is_shown = if is_once { counts.iter().all(|count| *count == 1) } else { counts[0] >= 12 };
            assert!(is_shown && counts.len() <= 1, "{name}: {recent:?}");
        }
        let printed = cluster.printed_status();
        let says = "Endpoints default/web was written by another client or changed by a webhook";
        assert!(printed.contains(says) || is_once, "{name}: {printed}");
        // Updates that the server undoes are no news: a server that does not know a field does the
        // same.
        let events = cluster.server.list("events");
        let conflicts = events.iter().filter(|event| event["reason"] == "ForeignWriteConflict").count();
        assert_eq!(conflicts, if matches!(bound, Bound::Fought) { 3 } else { 0 }, "{name}: {events:?}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_service_with_many_slices_stay_bounded_too() {
    let stamp: Webhook = |object, turn| label(object, &format!("request-{turn}"));
    let cluster = Cluster::rewriting(server(labelled(60)), &settings_of_tests(3), stamp);
    for most in [40, 15] {
        cluster.pass(HOUR).await;
        let [_, writes, _] = cluster.writes();
        assert_eq!(cluster.published("default", "web").len(), 60);
        assert!((20 * 11..=20 * most).contains(&writes), "{writes} of 20 slices in an hour");
        cluster.server.clear_request_log();
    }
    cluster.stop().await;
}

/// Writes with other causes come at once, whatever the webhook does.
#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_unready_is_gone_at_once_in_spite_of_a_webhook() {
    let stamp: Webhook = |object, turn| label(object, &format!("request-{turn}"));
    let cluster = Cluster::rewriting(server(labelled(3)), &settings_of_tests(100), stamp);
    cluster.pass(HOUR).await;
    let addresses = ["192.0.2.2", "192.0.2.3"];
    cluster.server.load([pod("default", "web", 0, false), endpoints("default", "db", &addresses)]).unwrap();
    cluster.pass(Duration::from_millis(200)).await;
    assert_eq!(cluster.published("default", "web"), ["10.1.0.2", "10.1.0.3"]);
    assert_eq!(cluster.in_endpoints("default", "web"), ["10.1.0.2", "10.1.0.3"]);
    assert_eq!(cluster.published("default", "db"), addresses);
    cluster.stop().await;
}

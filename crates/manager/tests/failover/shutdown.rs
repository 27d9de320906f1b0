//! A leader that somebody tells to end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::replica::{
    EditRelease, Replica, add_services, assert_right, leader_and_standby, seconds, server_with, settings,
    writes_of,
};

/// Records the versions that each release of the Lease leaves. The edit changes nothing.
pub(crate) fn recording() -> (EditRelease, Arc<Mutex<Value>>) {
    let recorded = Arc::new(Mutex::new(Value::Null));
    let record = Arc::clone(&recorded);
    let edit: EditRelease = Arc::new(move |lease| {
        let text = lease["metadata"]["annotations"]["kube-endpoint-manager/last-writes"].as_str().unwrap();
        *record.lock().unwrap() = serde_json::from_str::<Value>(text).unwrap()["versions"].clone();
    });
    (edit, recorded)
}

fn newest_version(server: &EmbeddedApiServer, plural: &str) -> u64 {
    let versions =
        server.list(plural).into_iter().map(|object| object["metadata"]["resourceVersion"].clone());
    versions.map(|version| version.as_str().unwrap().parse().unwrap()).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn with_ten_thousand_keys_queued_the_lease_is_released_within_a_second() {
    let server = server_with(0).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    add_services(&server, 0..10_000);
    sleep(seconds(5)).await;
    let queued = leader.handle.controllers().endpoint_slice.as_ref().unwrap().pending();
    assert!(queued > 9_000, "{queued}");
    let start = Instant::now();
    assert!(leader.stop().await <= seconds(1));
    standby.led().await;
    assert!(start.elapsed() <= seconds(1), "{:?}", start.elapsed());
    // The successor goes on where the leader ended: it queues all keys, and creates nothing twice.
    let written = server.count("endpointslices");
    sleep(seconds(20)).await;
    assert!(standby.handle.controllers().endpoint_slice.as_ref().unwrap().pending() > 9_000);
    let slices = server.list("endpointslices");
    assert!(slices.len() >= written + 300, "{written} {}", slices.len());
    let owner = |slice: &Value| slice["metadata"]["labels"]["kubernetes.io/service-name"].to_string();
    let owners: BTreeSet<String> = slices.iter().map(owner).collect();
    assert_eq!(owners.len(), slices.len());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_sent_is_answered_before_the_lease_is_released() {
    let server = server_with(3).await;
    let (record, left) = recording();
    let (leader, standby) = leader_and_standby(&server, &settings(), record).await;
    let slow = Fault::DelayAnswer(Duration::from_millis(700));
    server.add_fault(FaultRule::on(slow, "create", "endpointslices"));
    add_services(&server, 3..4);
    sleep(Duration::from_millis(100)).await;
    let took = leader.stop().await;
    assert!(took >= Duration::from_millis(500) && took < seconds(1), "{took:?}");
    for plural in ["endpointslices", "endpoints"] {
        assert_eq!(left.lock().unwrap()[plural], newest_version(&server, plural).to_string());
    }
    standby.led().await;
    sleep(seconds(5)).await;
    assert_right(&server, 4, |_| true);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_abandoned_after_a_second_and_its_kind_is_left_out() {
    let server = server_with(3).await;
    let (record, left) = recording();
    let (leader, standby) = leader_and_standby(&server, &settings(), record).await;
    let unanswered = FaultRule::on(Fault::NeverAnswer { applied: true }, "create", "endpointslices").times(1);
    server.add_fault(unanswered);
    add_services(&server, 3..4);
    sleep(seconds(5)).await;
    let took = leader.stop().await;
    assert!(took >= seconds(1) && took < seconds(2), "{took:?}");
    assert_eq!(left.lock().unwrap().get("endpointslices"), None);
    assert!(left.lock().unwrap()["endpoints"].is_string());
    standby.led().await;
    sleep(seconds(5)).await;
    assert_right(&server, 4, |_| true);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_has_written_nothing_hands_on_what_was_left_to_it() {
    let server = server_with(3).await;
    let (record, left) = recording();
    let leader = Replica::start_with(&server, "a", &settings(), Arc::clone(&record));
    leader.led().await;
    let standby = Replica::start_with(&server, "b", &settings(), record);
    sleep(seconds(30)).await;
    leader.stop().await;
    let first = std::mem::take(&mut *left.lock().unwrap());
    assert_eq!(first["endpointslices"], newest_version(&server, "endpointslices").to_string());
    standby.led().await;
    standby.stop().await;
    assert_eq!(*left.lock().unwrap(), first);
    assert!(writes_of(&server, "b").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_stopped_leaves_the_lease_alone() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    assert!(standby.stop().await < seconds(1));
    sleep(seconds(30)).await;
    assert!(leader.leads());
    let early = Replica::start(&server, "c", &settings());
    assert!(early.stop().await < seconds(1));
}

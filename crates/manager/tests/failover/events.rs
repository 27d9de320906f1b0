//! The events about the Lease.

use std::sync::Arc;

use kube_endpoint_controllers::ManagerError;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use tokio::time::{Instant, sleep};

use super::replica::{Replica, leader_and_standby, seconds, server_with, settings};

/// Returns type, reason and message of all events about the Lease, in the order of their creation.
pub(crate) fn messages(server: &EmbeddedApiServer) -> Vec<String> {
    let lease = server.get("leases", "kube-system", "kube-endpoint-manager").unwrap();
    let mut events: Vec<_> =
        server.list("events").into_iter().filter(|it| it["involvedObject"]["kind"] == "Lease").collect();
    for event in &events {
        let (object, source) = (&event["involvedObject"], &event["source"]);
        assert_eq!(event["metadata"]["namespace"], "kube-system");
        assert_eq!(object["apiVersion"], "coordination.k8s.io/v1");
        assert_eq!(object["name"], "kube-endpoint-manager");
        assert_eq!(object["namespace"], "kube-system");
        assert_eq!(object["uid"], lease["metadata"]["uid"]);
        assert_eq!(source["component"], "kube-endpoint-manager");
    }
    let created = |event: &serde_json::Value| -> u64 {
        event["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    };
    events.sort_by_key(created);
    let text = |event: &serde_json::Value| {
        ["type", "reason", "message"].map(|field| event[field].as_str().unwrap().to_owned()).join(" ")
    };
    events.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn events_on_the_lease_tell_who_leads_and_who_leads_no_more() {
    let server = server_with(1).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    assert_eq!(messages(&server), ["Normal LeaderElection a became leader"]);
    leader.stop().await;
    standby.led().await;
    sleep(seconds(1)).await;
    let mut later = messages(&server).split_off(1);
    // Both replicas record their events at the same time.
    later.sort();
    assert_eq!(later, ["Normal LeaderElection a stopped leading", "Normal LeaderElection b became leader"]);
    assert!(standby.writes(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_the_lease_says_so_before_it_ends() {
    let server = server_with(1).await;
    let leader = Replica::start(&server, "a", &settings());
    leader.led().await;
    let fault = Fault::Refuse { status: 500, retry_after: None };
    server.add_fault(FaultRule::on(fault, "update", "leases"));
    let handle = leader.handle.clone();
    let ended = tokio::time::timeout(seconds(15), leader.ended).await.unwrap().unwrap();
    let error = ended.unwrap_err();
    assert!(matches!(error, ManagerError::LeaderElectionLost(_)), "{error}");
    assert!(error.to_string().contains("was not renewed within 10s"), "{error}");
    assert!(!*handle.leading().borrow());
    let stopped = "Normal LeaderElection a stopped leading";
    assert_eq!(messages(&server), ["Normal LeaderElection a became leader", stopped]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_no_answer_delays_the_end_by_a_second() {
    let server = server_with(1).await;
    let leader = Replica::start(&server, "a", &settings());
    leader.led().await;
    sleep(seconds(5)).await;
    let (received, log) = tokio::sync::mpsc::unbounded_channel();
    let is_event = move |request: &RequestInfo| {
        let matches = request.plural() == "events" && request.verb == "create";
        if matches {
            received.send(()).unwrap();
        }
        matches
    };
    server.add_fault(FaultRule::new(Fault::NeverAnswer { applied: false }, is_event));
    let start = Instant::now();
    leader.stop().await;
    assert_eq!(log.len(), 1, "the event was sent");
    assert!((seconds(1)..seconds(2)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(messages(&server), ["Normal LeaderElection a became leader"]);
}

//! A process without the lease writes nothing.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use tokio::time::{Instant, sleep};

use super::replica::{
    add_services, assert_right, leader_and_standby, pod, requests_of, seconds, server_with, settings,
    writes_of,
};

/// Returns the times of a replica's last renewal and last write of outputs, since the server's
/// start.
fn last_renewal_and_write(server: &EmbeddedApiServer, name: &str) -> (Duration, Duration) {
    let renewals = requests_of(server, name);
    let renewal = |it: &&_| {
        let it: &kube_endpoint_embedded_apiserver::LoggedRequest = it;
        it.request.plural() == "leases" && it.request.is_write() && it.status == 200
    };
    let renewed = renewals.iter().filter(renewal).map(|it| it.at).max().unwrap();
    (renewed, writes_of(server, name).iter().map(|it| it.at).max().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_requests_fail_writes_until_the_renew_deadline_and_not_longer() {
    let server = server_with(0).await;
    let mut settings = settings();
    (settings.qps, settings.burst) = (5.0, 1);
    let (leader, standby) = leader_and_standby(&server, &settings, Arc::new(|_| ())).await;
    // Enough work for minutes.
    add_services(&server, 0..500);
    sleep(seconds(10)).await;
    let lease = |request: &RequestInfo| request.user_agent.starts_with("a ") && request.plural() == "leases";
    server.add_fault(FaultRule::new(Fault::NeverAnswer { applied: false }, lease));
    server.break_watches(lease);
    let error = tokio::time::timeout(seconds(20), leader.ended).await.unwrap().unwrap().unwrap_err();
    assert!(error.to_string().starts_with("leader election lost"), "{error}");
    let (renewed, written) = last_renewal_and_write(&server, "a");
    assert!(written > renewed + seconds(9), "it used its time: {renewed:?} {written:?}");
    assert!(written < renewed + seconds(10), "{renewed:?} {written:?}");
    standby.led().await;
    sleep(seconds(300)).await;
    assert_right(&server, 500, |_| true);
    let first = writes_of(&server, "b").iter().map(|it| it.at).min().unwrap();
    assert!(first > written);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_answered_ends_before_the_renew_deadline() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    // The server handles the requests a minute late.
    let slow = |request: &RequestInfo| request.user_agent.starts_with("a ");
    server.add_fault(FaultRule::new(Fault::Delay(seconds(60)), slow));
    server.load([pod(1, false)]).unwrap();
    let began = Instant::now();
    let ended = tokio::time::timeout(seconds(20), leader.ended).await.unwrap().unwrap();
    assert!(ended.is_err() && began.elapsed() <= seconds(10), "{:?}", began.elapsed());
    standby.led().await;
    sleep(seconds(120)).await;
    assert_right(&server, 3, |number| number != 1);
    let late =
        writes_of(&server, "a").iter().filter(|it| it.status == 200 && it.request.verb == "update").count();
    assert_eq!(late, 0, "the abandoned requests were not carried out");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_stopped_and_continued_after_its_lease_expired_writes_nothing() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    standby.kill().await;
    server.clear_request_log();
    server.load([pod(1, false), pod(2, false)]).unwrap();
    // No task has run since the load: as after SIGSTOP, the work is queued while time goes on.
    tokio::time::advance(seconds(60)).await;
    let ended = tokio::time::timeout(seconds(5), leader.ended).await.unwrap().unwrap();
    assert!(ended.unwrap_err().to_string().starts_with("leader election lost"));
    let writes = writes_of(&server, "a");
    assert!(writes.is_empty(), "{writes:#?}");
    assert_right(&server, 3, |_| true);
}

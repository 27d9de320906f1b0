//! A process that takes the Lease of its former process back.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_controllers::Settings;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule, RequestInfo};
use tokio::time::sleep;

use super::events::messages;
use super::replica::{
    Replica, add_services, assert_right, leader_and_standby, pod, seconds, server_with, settings,
};
use super::shutdown::recording;

/// Returns the settings of the next process in the place of `a`, which has ended.
fn after_a() -> Settings {
    let mut settings = settings();
    settings.leader_election.as_mut().unwrap().former = Some("a".to_owned());
    settings
}

#[tokio::test(start_paused = true)]
async fn the_next_process_in_the_place_of_a_killed_leader_goes_on_at_once() {
    let server = server_with(20).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    leader.kill().await;
    server.load([pod(3, false)]).unwrap();
    let next = Replica::start(&server, "c", &after_a());
    let took = next.led().await;
    assert!(took < seconds(1), "{took:?}");
    sleep(seconds(1)).await;
    assert_right(&server, 20, |number| number != 3);
    sleep(seconds(60)).await;
    assert!(next.leads() && !standby.leads());
    let lease = server.get("leases", "kube-system", "kube-endpoint-manager").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease}");
    let want = [
        "Normal LeaderElection a became leader",
        "Normal LeaderElection c became leader",
        "Normal LeaseTakenBack c took the lease back from its former process a, which has ended",
    ];
    assert_eq!(messages(&server), want);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_process_holds_is_not_taken_back() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    leader.stop().await;
    standby.led().await;
    let next = Replica::start(&server, "c", &after_a());
    sleep(seconds(60)).await;
    assert!(!next.leads() && standby.leads());
}

/// The standby has complete caches, so it works before a process that cannot list does.
#[tokio::test(start_paused = true)]
async fn a_process_without_synced_caches_leaves_the_lease_to_the_standby() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    leader.kill().await;
    let refused = Fault::Refuse { status: 500, retry_after: None };
    let is_of_c = |request: &RequestInfo| request.user_agent.starts_with("c ") && request.plural() == "pods";
    let outage = server.add_fault(FaultRule::new(refused, is_of_c));
    let next = Replica::start(&server, "c", &after_a());
    sleep(seconds(5)).await;
    assert!(!next.leads() && !standby.leads());
    let took = standby.led().await;
    assert!(took > seconds(5) && took < seconds(11), "{took:?}");
    server.remove_fault(outage);
    sleep(seconds(60)).await;
    assert!(!next.leads() && standby.leads());
}

#[tokio::test(start_paused = true)]
async fn a_process_takes_the_lease_back_once_its_caches_are_synced() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    leader.kill().await;
    let is_of_c = |request: &RequestInfo| request.user_agent.starts_with("c ") && request.plural() == "pods";
    server.add_fault(FaultRule::new(Fault::Delay(seconds(4)), is_of_c).times(1));
    let next = Replica::start(&server, "c", &after_a());
    let took = next.led().await;
    assert!(took >= seconds(4) && took < seconds(6), "{took:?}");
    assert!(!standby.leads());
}

/// A write that the killed process had sent may be newer than the last one of the next process.
#[tokio::test(start_paused = true)]
async fn a_process_that_took_the_lease_back_leaves_no_last_writes_while_late_ones_may_follow() {
    for (later, is_known) in [(30, false), (300, true)] {
        let server = server_with(3).await;
        let (record, left) = recording();
        let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
        leader.kill().await;
        let next = Replica::start_with(&server, "c", &after_a(), record);
        next.led().await;
        sleep(seconds(later)).await;
        add_services(&server, 3..4);
        sleep(seconds(1)).await;
        next.stop().await;
        let versions = left.lock().unwrap().clone();
        assert_eq!(versions["endpointslices"].is_string(), is_known, "{versions}");
        assert!(versions["pods"].is_string(), "{versions}");
        standby.led().await;
        sleep(seconds(1)).await;
        assert_right(&server, 4, |_| true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_that_the_killed_process_had_sent_is_put_right_when_it_arrives() {
    let server = server_with(3).await;
    let (leader, _standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    let is_of_a = |request: &RequestInfo| request.user_agent.starts_with("a ") && request.verb == "create";
    server.add_fault(FaultRule::new(Fault::Delay(seconds(8)), is_of_a));
    add_services(&server, 3..5);
    sleep(Duration::from_millis(100)).await;
    // Its requests are on their way.
    let before = server.count("endpointslices");
    assert_eq!(before, 3);
    leader.kill().await;
    let next = Replica::start(&server, "c", &after_a());
    assert!(next.led().await < seconds(1));
    sleep(seconds(2)).await;
    assert_right(&server, 5, |_| true);
    sleep(seconds(20)).await;
    assert_right(&server, 5, |_| true);
}

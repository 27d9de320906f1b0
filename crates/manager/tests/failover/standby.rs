//! The standby while another process leads, and its take-over when nothing lags.

use std::sync::Arc;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, LoggedRequest};
use tokio::time::sleep;

use super::replica::{
    Replica, add_services, assert_right, leader_and_standby, pod, seconds, server_with, settings,
};

#[tokio::test(start_paused = true)]
async fn a_standby_takes_over_at_once_without_a_list_and_writes_only_what_has_changed() {
    let server = server_with(20).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    assert_right(&server, 20, |_| true);
    assert_eq!(standby.writes(&server).len(), 0);
    server.clear_request_log();
    assert!(leader.stop().await < seconds(1));
    assert!(standby.led().await < seconds(1));
    sleep(seconds(5)).await;
    assert_eq!(standby.writes(&server).len(), 0, "everything is right already");
    add_services(&server, 20..21);
    server.load([pod(3, false)]).unwrap();
    sleep(seconds(5)).await;
    assert_right(&server, 21, |number| number != 3);
    assert_eq!(standby.writes(&server).len(), 4, "a slice and Endpoints for each change");
    let requests = standby.requests(&server);
    assert_eq!(reads(&requests), VERSIONS);
}

/// The requests for the version of each kind.
const VERSIONS: [&str; 5] = [
    "list endpoints limit=1",
    "list endpointslices limit=1",
    "list nodes limit=1",
    "list pods limit=1",
    "list services limit=1",
];

/// Returns the reads, sorted, without those of Leases and without the options of watches.
fn reads(requests: &[LoggedRequest]) -> Vec<String> {
    let of = |it: &LoggedRequest| {
        let (verb, plural) = (it.request.verb, it.request.plural());
        let is_read = matches!(verb, "get" | "list" | "watch") && plural != "leases";
        let is_stream = it.request.query.contains("sendInitialEvents");
        let options = match verb {
            "watch" if is_stream => "of all objects",
            "watch" => "of events",
            _ => &it.request.query,
        };
        is_read.then(|| format!("{verb} {plural} {options}"))
    };
    let mut reads: Vec<String> = requests.iter().filter_map(of).collect();
    reads.sort();
    reads
}

#[tokio::test(start_paused = true)]
async fn after_the_leader_is_killed_the_standby_takes_over_when_the_lease_has_expired() {
    let server = server_with(20).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    leader.kill().await;
    server.load([pod(3, false)]).unwrap();
    server.clear_request_log();
    let took = standby.led().await;
    assert!(took > seconds(10) && took < seconds(16), "{took:?}");
    sleep(seconds(1)).await;
    assert_right(&server, 20, |number| number != 3);
    assert_eq!(standby.writes(&server).len(), 2);
    // Nobody knows the last writes of the leader, so the standby lists the outputs once.
    let lists = ["watch endpoints of all objects", "watch endpointslices of all objects"];
    assert_eq!(reads(&standby.requests(&server)), [&VERSIONS[..], &lists].concat());
}

/// Returns the kinds that a replica has listed, sorted.
fn listed(replica: &Replica, server: &EmbeddedApiServer) -> Vec<String> {
    let reads = reads(&replica.requests(server)).into_iter();
    reads
        .filter_map(|it| Some(it.strip_prefix("watch ")?.strip_suffix(" of all objects")?.to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_leader_lists_each_kind_once() {
    let server = server_with(5).await;
    let leader = Replica::start(&server, "a", &settings());
    leader.led().await;
    sleep(seconds(60)).await;
    assert_right(&server, 5, |_| true);
    let each = ["endpoints", "endpointslices", "nodes", "pods", "services"];
    assert_eq!(listed(&leader, &server), each);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_takes_the_lease_of_a_dead_leader_lists_the_outputs_again() {
    for dies_before_the_other_starts in [false, true] {
        let server = server_with(5).await;
        let leader = Replica::start(&server, "a", &settings());
        leader.led().await;
        sleep(seconds(30)).await;
        let next = if dies_before_the_other_starts {
            leader.kill().await;
            Replica::start(&server, "b", &settings())
        } else {
            let next = Replica::start(&server, "b", &settings());
            sleep(seconds(30)).await;
            leader.kill().await;
            next
        };
        next.led().await;
        sleep(seconds(60)).await;
        assert_right(&server, 5, |_| true);
        let outputs_twice =
            ["endpoints", "endpoints", "endpointslices", "endpointslices", "nodes", "pods", "services"];
        assert_eq!(listed(&next, &server), outputs_twice, "{dies_before_the_other_starts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_keeps_nothing_of_what_the_leader_does() {
    let server = server_with(5).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    for round in 0..20_usize {
        // Services that come and go, and pods that change.
        add_services(&server, 100 + round..101 + round);
        for number in 0..5 {
            server.load([pod(number, round % 2 == 0)]).unwrap();
        }
        sleep(seconds(2)).await;
    }
    let controllers = standby.handle.controllers();
    let slices = controllers.endpoint_slice.as_ref().unwrap();
    let endpoints = controllers.endpoints.as_ref().unwrap();
    let mirroring = controllers.mirroring.as_ref().unwrap();
    assert_eq!([slices.pending(), endpoints.pending(), mirroring.pending()], [0; 3]);
    let nothing = Default::default();
    assert_eq!(slices.state_counts(), nothing);
    assert_eq!(endpoints.state_counts(), nothing);
    assert_eq!(mirroring.state_counts(), nothing);
    // The leader's writes do not count as foreign, so nothing delays the first syncs.
    server.load([pod(0, true)]).unwrap();
    leader.stop().await;
    standby.led().await;
    sleep(seconds(1)).await;
    assert_eq!(slices.state_counts().foreign_changes, 0);
    let of_controllers = |event: &&serde_json::Value| event["reason"] != "LeaderElection";
    assert_eq!(server.list("events").iter().filter(of_controllers).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_removes_what_the_leader_before_left_of_deleted_services() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    let fault = FaultRule::on(Fault::LoseRequest, "delete", "endpoints");
    let fault = server.add_fault(fault);
    let client = kube::Client::new(server.service(), "default");
    let request = http::Request::delete("/api/v1/namespaces/default/services/s1").body(Vec::new()).unwrap();
    let _: serde_json::Value = client.request(request).await.unwrap();
    sleep(seconds(1)).await;
    leader.stop().await;
    standby.led().await;
    server.remove_fault(fault);
    sleep(seconds(30)).await;
    assert!(server.get("endpoints", "default", "s1").is_none());
    assert_eq!(server.list("endpointslices").len(), 2);
}

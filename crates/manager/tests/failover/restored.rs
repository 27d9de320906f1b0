//! The storage of the server goes back, as after a restore, and the controllers start again in the
//! same process.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_controllers::Settings;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::replica::{Replica, add_services, assert_right, pod, seconds, server_with, settings};
use super::shutdown::recording;

/// Records the times at which the manager builds its stores.
fn starts(replica: &Replica) -> Arc<Mutex<Vec<Instant>>> {
    struct Nothing;
    impl kube_endpoint_informer::Handler for Nothing {}

    let starts = Arc::new(Mutex::new(Vec::new()));
    let of = Arc::clone(&starts);
    replica.handle.add_handler(move |_| {
        of.lock().push(Instant::now());
        Arc::new(Nothing)
    });
    starts
}

fn lease(server: &EmbeddedApiServer) -> Value {
    server.list("leases").remove(0)["spec"].clone()
}

/// Waits until the manager has started again `count` times.
async fn started_again(starts: &Mutex<Vec<Instant>>, count: usize, longest: Duration) {
    let started = async {
        while starts.lock().len() <= count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(longest, started).await.expect("the manager starts again");
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_the_controllers_start_again_and_the_lease_is_kept() {
    for elects in [true, false] {
        let server = server_with(5).await;
        let settings = if elects { settings() } else { Settings::default() };
        let leader = Replica::start(&server, "a", &settings);
        leader.led().await;
        sleep(seconds(30)).await;
        assert_right(&server, 5, |_| true);
        let starts = starts(&leader);
        let backup = server.checkpoint();
        add_services(&server, 5..8);
        server.load([pod(3, false)]).unwrap();
        sleep(seconds(30)).await;
        assert_right(&server, 8, |number| number != 3);
        server.restore(&backup);
        // The new lists take three seconds.
        let of_all = |request: &RequestInfo| request.parameter("sendInitialEvents").is_some();
        server.add_fault(FaultRule::new(Fault::Delay(seconds(3)), of_all));
        started_again(&starts, 1, seconds(100)).await;
        assert!(!leader.handle.has_synced(), "the stores are empty");
        assert!(leader.leads());
        sleep(seconds(30)).await;
        assert!(leader.handle.has_synced());
        assert_right(&server, 5, |_| true);
        // The controllers see changes at versions that the server has given out before the restore.
        add_services(&server, 5..7);
        server.load([pod(1, false)]).unwrap();
        sleep(seconds(5)).await;
        assert_right(&server, 7, |number| number != 1);
        if elects {
            let lease = lease(&server);
            assert_eq!((&lease["holderIdentity"], &lease["leaseTransitions"]), (&json!("a"), &json!(0)));
        }
        assert_eq!(starts.lock().len(), 2, "it starts again once");
        assert!(leader.stop().await < seconds(1), "and it ends as before");
    }
}

/// The controllers keep Endpoints whose Service the process has never seen. (When a process starts,
/// it deletes such Endpoints if the controller made them.)
#[tokio::test(start_paused = true)]
async fn a_start_after_a_restore_cleans_nothing_up() {
    let server = server_with(3).await;
    let leader = Replica::start(&server, "a", &settings());
    leader.led().await;
    sleep(seconds(30)).await;
    let starts = starts(&leader);
    let endpoints = server.get("endpoints", "default", "s0").unwrap();
    let backup = server.checkpoint();
    add_services(&server, 3..5);
    sleep(seconds(30)).await;
    server.restore(&backup);
    let mut leftover = endpoints.clone();
    leftover["metadata"] = json!({"name": "gone", "namespace": "default",
        "labels": endpoints["metadata"]["labels"], "managedFields": endpoints["metadata"]["managedFields"]});
    server.load([leftover]).unwrap();
    started_again(&starts, 1, seconds(100)).await;
    sleep(seconds(60)).await;
    assert!(server.get("endpoints", "default", "gone").is_some());
    assert_right(&server, 3, |_| true);
}

/// The fence does not say of what kind the write was. The new controllers write each kind again.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_abandoned_before_a_start_keeps_the_last_version_unknown() {
    for is_abandoned in [false, true] {
        let server = server_with(3).await;
        let (record, left) = recording();
        let leader = Replica::start_with(&server, "a", &settings(), record);
        leader.led().await;
        sleep(seconds(30)).await;
        let starts = starts(&leader);
        let backup = server.checkpoint();
        if is_abandoned {
            let unanswered = Fault::NeverAnswer { applied: false };
            server.add_fault(FaultRule::on(unanswered, "create", "endpointslices").times(1));
        }
        add_services(&server, 3..6);
        sleep(seconds(1)).await;
        server.restore(&backup);
        started_again(&starts, 1, seconds(30)).await;
        sleep(seconds(5)).await;
        add_services(&server, 3..4);
        sleep(seconds(5)).await;
        assert_right(&server, 4, |_| true);
        leader.stop().await;
        let left = left.lock().unwrap();
        for plural in ["endpoints", "endpointslices"] {
            assert_eq!(left[plural].is_string(), !is_abandoned, "{left}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_start_again_once_in_ten_minutes_and_list_once_more_at_their_end() {
    let server = server_with(3).await;
    let leader = Replica::start(&server, "a", &settings());
    leader.led().await;
    sleep(seconds(30)).await;
    let starts = starts(&leader);
    let backup = server.checkpoint();
    for _ in 0..5 {
        add_services(&server, 3..6);
        sleep(seconds(60)).await;
        server.restore(&backup);
        sleep(seconds(30)).await;
    }
    sleep(seconds(600)).await;
    let times: Vec<Instant> = starts.lock().clone();
    assert_eq!(times.len(), 3, "the first start, and one for each ten minutes with a restore");
    assert!(times[2] - times[1] >= seconds(600), "{:?}", times[2] - times[1]);
    assert_right(&server, 3, |_| true);
    // No further restore happens, so the manager lists all kinds once, ten minutes after the last
    // start.
    server.clear_request_log();
    sleep(seconds(700)).await;
    assert_eq!(starts.lock().len(), 3);
    let requests = leader.requests(&server);
    let lists = requests.iter().filter(|it| it.request.query.contains("sendInitialEvents"));
    let mut lists: Vec<&str> = lists.map(|it| it.request.plural()).collect();
    lists.sort_unstable();
    assert_eq!(lists, ["endpoints", "endpointslices", "nodes", "pods", "services"]);
}

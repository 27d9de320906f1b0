//! The standby's watches lag by five seconds when the leader ends right after creates.

use std::sync::Arc;
use std::time::Duration;

use kube::client::Body;
use kube_endpoint_controllers::ReflectorOptions;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::ServiceExt;

use super::replica::{
    EditRelease, add_services, assert_right, leader_and_standby, pod, seconds, server_with, settings,
};

const ANNOTATION: &str = "kube-endpoint-manager/last-writes";

const OUTPUTS: &[&str] = &["endpoints", "endpointslices"];
const INPUTS: &[&str] = &["pods", "services"];
pub(crate) const ALL: &[&str] = &["endpoints", "endpointslices", "pods", "services", "nodes"];

/// Makes a replica's watches of these kinds show nothing for five seconds.
pub(crate) fn lag(server: &EmbeddedApiServer, name: &'static str, kinds: &'static [&str]) {
    let matches = move |request: &RequestInfo| {
        request.verb == "watch" && request.user_agent.starts_with(name) && kinds.contains(&request.plural())
    };
    server.add_fault(FaultRule::new(Fault::StallWatch(seconds(5)), matches));
    assert!(server.break_watches(matches) >= kinds.len());
}

/// Edits the versions in the annotation.
fn edit(change: impl Fn(&mut Value) + Send + Sync + 'static) -> EditRelease {
    Arc::new(move |lease| {
        let text = lease["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
        let mut left: Value = serde_json::from_str(text).unwrap();
        change(&mut left["versions"]);
        lease["metadata"]["annotations"][ANNOTATION] = left.to_string().into();
    })
}

/// Removes the annotation.
fn without_annotation() -> EditRelease {
    Arc::new(|lease| {
        lease["metadata"]["annotations"].as_object_mut().unwrap().remove(ANNOTATION).unwrap();
    })
}

/// Ends the leader right after it has created the outputs of new Services and changed those of
/// another. Then checks that the standby, whose watches lag, writes only what is still wrong.
async fn play(released: bool, edit_release: EditRelease, lagging: &'static [&str]) {
    let server = server_with(10).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), edit_release).await;
    lag(&server, "b", lagging);
    sleep(Duration::from_millis(1100)).await;
    add_services(&server, 10..20);
    server.load([pod(0, false)]).unwrap();
    sleep(Duration::from_millis(100)).await;
    assert_right(&server, 20, |number| number != 0);
    let versions = |plural: &str| -> Vec<Value> {
        server.list(plural).iter().map(|it| it["metadata"]["resourceVersion"].clone()).collect()
    };
    let before = [versions("endpointslices"), versions("endpoints")];
    server.clear_request_log();
    if released {
        leader.stop().await;
        assert!(standby.led().await < seconds(6));
    } else {
        leader.kill().await;
        standby.led().await;
    }
    // The previous leader has not seen this change.
    server.load([pod(1, false)]).unwrap();
    sleep(seconds(60)).await;
    assert_right(&server, 20, |number| number > 1);
    let refused = standby.writes(&server).into_iter().filter(|write| write.status >= 400).count();
    assert_eq!(refused, 0);
    let after = [versions("endpointslices"), versions("endpoints")];
    let changed = |(before, after): (&Vec<Value>, &Vec<Value>)| {
        before.iter().zip(after).filter(|(before, after)| before != after).count()
    };
    let changes: usize = before.iter().zip(&after).map(changed).sum();
    assert_eq!(changes, 2, "only the outputs of the changed pod were written");
}

#[tokio::test(start_paused = true)]
async fn a_released_leaders_creates_are_waited_for() {
    for lagging in [OUTPUTS, ALL] {
        play(true, Arc::new(|_| ()), lagging).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_the_leader_had_read_are_waited_for() {
    play(true, Arc::new(|_| ()), INPUTS).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_twice_without_the_annotation() {
    play(true, without_annotation(), OUTPUTS).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_twice_with_an_annotation_that_cannot_be_read() {
    for text in ["", "{}", "versions", r#"{"versions": {"endpointslices": "x"}}"#] {
        let garbage: EditRelease =
            Arc::new(move |lease| lease["metadata"]["annotations"][ANNOTATION] = text.into());
        play(true, garbage, OUTPUTS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_has_never_reached_blocks_nothing() {
    let far = edit(|versions| *versions = json!({"endpointslices": "999999999", "endpoints": "999999999"}));
    play(true, far, OUTPUTS).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_server_has_never_reached_is_not_handed_on() {
    let server = server_with(3).await;
    let far = edit(|versions| {
        *versions = json!({"endpointslices": "999999999999", "pods": "999999999999", "services": "7"});
    });
    let (leader, standby) = leader_and_standby(&server, &settings(), far).await;
    leader.stop().await;
    standby.led().await;
    add_services(&server, 3..4);
    sleep(seconds(5)).await;
    assert_right(&server, 4, |_| true);
    standby.stop().await;
    let lease = server.get("leases", "kube-system", "kube-endpoint-manager").unwrap();
    let left = lease["metadata"]["annotations"][ANNOTATION].as_str().unwrap();
    let left: Value = serde_json::from_str(left).unwrap();
    let newest: u64 = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    for kind in ["endpointslices", "pods", "services"] {
        let version: u64 = left["versions"][kind].as_str().unwrap().parse().unwrap();
        assert!((8..newest).contains(&version), "{kind} {version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_last_write_is_unknown_is_listed() {
    let one = edit(|versions| {
        versions.as_object_mut().unwrap().remove("endpointslices").unwrap();
    });
    play(true, one, OUTPUTS).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_twice_after_the_leader_is_killed() {
    play(false, Arc::new(|_| ()), ALL).await;
}

/// The network between the standby and the server fails, and is back when the leader dies.
/// Meanwhile the leader published changes, which the standby must not undo from what it had read
/// before.
#[tokio::test(start_paused = true)]
async fn inputs_whose_watch_failed_are_read_before_anything_is_written() {
    for kinds in [&["pods"][..], &["services"], INPUTS] {
        let server = server_with(10).await;
        let mut settings = settings();
        if let Some(election) = &mut settings.leader_election {
            election.lease_duration = seconds(5);
            election.renew_deadline = seconds(3);
            election.retry_period = seconds(1);
        }
        let (leader, standby) = leader_and_standby(&server, &settings, Arc::new(|_| ())).await;
        let fails = move |request: &RequestInfo| {
            request.user_agent.starts_with("b ") && kinds.contains(&request.plural())
        };
        let fault = server.add_fault(FaultRule::new(Fault::LoseRequest, fails));
        server.break_watches(fails);
        sleep(seconds(120)).await;
        server.load([pod(0, false)]).unwrap();
        for name in ["s8", "s9"] {
            let path = format!("/api/v1/namespaces/default/services/{name}");
            let answer =
                server.service().oneshot(http::Request::delete(path).body(Body::empty()).unwrap()).await;
            assert!(answer.unwrap().status().is_success());
        }
        sleep(seconds(5)).await;
        // The standby has just tried, and would not try again for 15 s or longer.
        let tries = || standby.requests(&server).iter().filter(|it| fails(&it.request)).count();
        server.clear_request_log();
        while tries() < kinds.len() {
            sleep(Duration::from_millis(100)).await;
        }
        server.clear_request_log();
        leader.kill().await;
        server.remove_fault(fault);
        let took = standby.led().await;
        assert!(took < seconds(8), "{kinds:?} {took:?}");
        sleep(seconds(60)).await;
        assert_right(&server, 8, |number| number != 0);
        let writes = standby.writes(&server);
        assert!(writes.is_empty(), "{kinds:?}: everything is right already: {writes:#?}");
    }
}

/// A proxy in front of the API server may answer so, in the form of an API server.
#[tokio::test(start_paused = true)]
async fn nothing_is_made_twice_if_the_question_about_a_version_is_answered_with_404() {
    let of_version = |request: &RequestInfo| {
        request.verb == "list" && request.query == "limit=1" && request.plural() == "endpointslices"
    };
    let server = server_with(10).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), without_annotation()).await;
    // The list of Endpoints must not wait until the watch of slices is back.
    lag(&server, "b", &["endpointslices"]);
    server.add_fault(FaultRule::new(Fault::Refuse { status: 404, retry_after: None }, of_version));
    sleep(Duration::from_millis(1100)).await;
    add_services(&server, 10..20);
    sleep(Duration::from_millis(100)).await;
    assert_right(&server, 20, |_| true);
    server.clear_request_log();
    leader.stop().await;
    standby.led().await;
    let answers = standby.requests(&server);
    assert!(answers.iter().any(|it| of_version(&it.request) && it.status == 404), "{answers:#?}");
    sleep(seconds(60)).await;
    assert_right(&server, 20, |_| true);
    assert_eq!(standby.writes(&server).len(), 0, "everything is right already");
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_that_the_standby_has_not_noticed_it_lists_first() {
    let server = server_with(10).await;
    let saved = server.checkpoint();
    let mut settings = settings();
    // By itself, the standby would notice the restore only after an hour.
    settings.reflectors = ReflectorOptions::new(0).silence(seconds(3600));
    let (leader, standby) = leader_and_standby(&server, &settings, Arc::new(|_| ())).await;
    leader.kill().await;
    server.silence_watches(|request| request.plural() != "leases");
    server.restore(&saved);
    // The server has lost all writes of the previous leader, and the caches still show them.
    assert!(server.list("endpointslices").is_empty());
    standby.led().await;
    sleep(seconds(60)).await;
    assert_right(&server, 10, |_| true);
}

#[tokio::test(start_paused = true)]
async fn the_versions_are_asked_for_until_the_server_answers() {
    let server = server_with(3).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    let lists = |request: &RequestInfo| {
        let is_of_version = request.verb == "list" && request.parameter("limit").is_some();
        is_of_version && OUTPUTS.contains(&request.plural())
    };
    server.add_fault(FaultRule::new(Fault::NeverAnswer { applied: false }, lists).times(2));
    server
        .add_fault(FaultRule::new(Fault::Refuse { status: 503, retry_after: None }, lists).after(2).times(4));
    leader.kill().await;
    let took = standby.led().await;
    assert!(took > seconds(18), "{took:?}");
    add_services(&server, 3..4);
    sleep(seconds(5)).await;
    assert_right(&server, 4, |_| true);
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_before_the_answer_about_a_version_are_no_restore() {
    let server = server_with(5).await;
    let (leader, standby) = leader_and_standby(&server, &settings(), Arc::new(|_| ())).await;
    let of_version = |request: &RequestInfo| request.query == "limit=1";
    server.add_fault(FaultRule::new(Fault::DelayAnswer(seconds(1)), of_version));
    server.clear_request_log();
    leader.stop().await;
    for round in 0..20 {
        server.load([pod(0, round % 2 == 0)]).unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    standby.led().await;
    let requests = standby.requests(&server);
    let versions = requests.iter().filter(|it| of_version(&it.request)).count();
    assert_eq!(versions, 5, "each kind, and the answers were late");
    let lists = requests.iter().filter(|it| it.request.query.contains("sendInitialEvents"));
    assert_eq!(lists.count(), 0);
    sleep(seconds(5)).await;
    assert_right(&server, 5, |number| number != 0);
}

//! Tests other clients that delete or edit the Lease, and hosts with different clocks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use http::Method;
use kube_endpoint_integration_tests::processes::{LEASE, Scene, Size};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::common::{APISERVER, TO_END, three_replicas, worst_since};

async fn request(scene: &Scene, method: Method, body: Option<Value>) -> Value {
    let mut request = http::Request::builder().method(method).uri(LEASE);
    if body.is_some() {
        request = request.header("content-type", "application/merge-patch+json");
    }
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    scene.client.request(request.body(body).unwrap()).await.unwrap()
}

async fn lease(scene: &Scene) -> Value {
    request(scene, Method::GET, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_lease_is_created_again_and_two_replicas_never_write_at_once() {
    let mut scene = three_replicas(Size::from_environment().sharing_cores()).await;
    scene.leader().await;
    let mark = scene.mark();
    let deleted = lease(&scene).await["metadata"]["uid"].take();
    // The replica that makes it anew may lead; the former leader may end.
    scene.replicas.iter_mut().for_each(|replica| replica.may_end = true);
    request(&scene, Method::DELETE, None).await;
    tokio::time::sleep(scene.size.lease.duration + scene.size.steady).await;
    let now = lease(&scene).await;
    assert!(now["metadata"]["uid"].is_string() && now["metadata"]["uid"] != deleted, "{now}");
    scene.finish().await;
    scene.assert_one_writer_at_a_time();
    let gap = worst_since(&mut scene, mark, "Lease deleted");
    assert!(gap < scene.size.longest_gap_after_kill(), "{gap:?}");
}

/// An administrator gives the Lease to a holder that does not exist. The leader stops writing, and
/// a standby takes over when the Lease has expired.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_given_to_another_holder_ends_the_leader() {
    let mut scene = three_replicas(Size::from_environment().sharing_cores()).await;
    let leader = scene.leader().await;
    let mark = scene.mark();
    let user = scene.replicas[leader].user.clone();
    scene.replicas[leader].may_end = true;
    request(&scene, Method::PATCH, Some(json!({"spec": {"holderIdentity": "an-administrator"}}))).await;
    let status = scene.replicas[leader].process.wait(TO_END).await;
    assert!(!status.success(), "a lost lease is an error: {status}");
    scene.leader_after(&user).await;
    scene.finish().await;
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 2);
    let gap = worst_since(&mut scene, mark, "Lease given to another holder");
    assert!(gap < scene.size.longest_gap_after_kill() + scene.size.lease.retry_period, "{gap:?}");
}

/// Returns a shared object that adds the seconds in the file `CLOCK_OFFSET` to the system time of
/// the program that preloads it.
fn clock_offset(scene: &Scene) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/clock_offset.c");
    let object = scene.folder().join("clock_offset.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&object).arg(source);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    object
}

/// Starts a replica whose clock is off. Returns the file with the offset.
fn start_with_offset(scene: &mut Scene, hours: i64) -> PathBuf {
    let object = clock_offset(scene);
    let offset = scene.folder().join(format!("offset-{hours}"));
    set_offset(&offset, hours);
    scene.start_replica_with(&[], |command| {
        command.env("LD_PRELOAD", object).env("CLOCK_OFFSET", &offset);
    });
    offset
}

fn set_offset(file: &Path, hours: i64) {
    std::fs::write(file, (hours * 3600).to_string()).unwrap();
}

/// Returns the difference between the time in the Lease and the system's, in seconds.
#[expect(clippy::disallowed_methods, reason = "the clock of real processes is compared with the system's")]
async fn offset_in_lease(scene: &Scene) -> i64 {
    let lease = lease(scene).await;
    let renewed: jiff::Timestamp = lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
    renewed.as_second() - jiff::Timestamp::now().as_second()
}

/// No replica compares a time in the Lease with its own clock, so a replica with a wrong clock
/// neither takes a held Lease nor makes the others wait. Nor does a replica whose clock somebody
/// sets.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_an_hour_off_changes_nothing() {
    let mut scene =
        Box::pin(Scene::with_replicas(APISERVER, Size::from_environment().sharing_cores(), 1)).await;
    let first = scene.leader().await;
    let first = scene.replicas[first].user.clone();
    let offset_of_fast = start_with_offset(&mut scene, 1);
    scene.wait_until_all_stand_by().await;
    tokio::time::sleep(scene.size.lease.duration + Duration::from_secs(1)).await;
    assert_eq!(scene.writers(), std::slice::from_ref(&first), "the Lease is held");
    assert!(offset_in_lease(&scene).await.abs() < 60);

    let mark = scene.mark();
    scene.signal(0, Signal::KILL);
    let fast = scene.leader_after(&first).await;
    let fast = scene.replicas[fast].user.clone();
    let offset = offset_in_lease(&scene).await;
    assert!((3500..3700).contains(&offset), "its clock is an hour ahead: {offset}");
    scene.remove(0);
    start_with_offset(&mut scene, -1);
    scene.wait_until_all_stand_by().await;
    tokio::time::sleep(scene.size.lease.duration + Duration::from_secs(1)).await;
    assert_eq!(scene.writers(), [first.clone(), fast.clone()], "the Lease is held");

    // Somebody sets the clock of the leader.
    set_offset(&offset_of_fast, 2);
    let is_set = async || {
        while !(7100..7300).contains(&offset_in_lease(&scene).await) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), is_set()).await.expect("its clock is two hours ahead now");
    assert_eq!(scene.writers(), [first, fast.clone()], "the Lease is held");

    scene.signal(0, Signal::KILL);
    scene.leader_after(&fast).await;
    let offset = offset_in_lease(&scene).await;
    assert!((-3700..-3500).contains(&offset), "its clock is an hour behind: {offset}");
    scene.finish().await;
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 3);
    let gap = worst_since(&mut scene, mark, "SIGKILL, clocks an hour off");
    assert!(gap < scene.size.longest_gap_after_kill(), "{gap:?}");
}

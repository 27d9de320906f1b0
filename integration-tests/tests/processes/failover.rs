//! Tests a leader that ends, dies or is stopped.

use std::time::Duration;

use kube_endpoint_integration_tests::processes::Size;
use rustix::process::Signal;

use crate::common::{LONGEST_GAP, TO_END, three_replicas, worst_since};

/// The leader releases the Lease, and a standby takes it at once.
#[tokio::test(flavor = "multi_thread")]
async fn after_sigterm_a_standby_goes_on_within_a_second() {
    let mut scene = three_replicas(Size::from_environment()).await;
    let leader = scene.leader().await;
    let mark = scene.mark();
    let ended = scene.signal(leader, Signal::TERM);
    let status = scene.replicas[leader].process.wait(TO_END).await;
    assert!(status.success(), "{status}");
    scene.leader_after(&ended).await;
    tokio::time::sleep(scene.size.steady).await;
    scene.finish().await;
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 2);
    let gap = worst_since(&mut scene, mark, "SIGTERM");
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

/// The Lease has to expire first.
#[tokio::test(flavor = "multi_thread")]
async fn after_sigkill_a_standby_goes_on_when_the_lease_has_expired() {
    let mut scene = three_replicas(Size::from_environment()).await;
    let leader = scene.leader().await;
    let mark = scene.mark();
    let killed = scene.signal(leader, Signal::KILL);
    scene.leader_after(&killed).await;
    tokio::time::sleep(scene.size.steady).await;
    scene.finish().await;
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 2);
    let gap = worst_since(&mut scene, mark, "SIGKILL");
    assert!(gap < scene.size.longest_gap_after_kill(), "{gap:?}");
    assert!(gap > scene.size.lease.duration / 2, "the leader was killed, so the gap cannot be {gap:?}");
}

/// A leader that continues after a stop longer than its lease believes that it still leads. It
/// writes nothing more and ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_writes_nothing_when_it_continues() {
    let mut scene = three_replicas(Size::from_environment()).await;
    let leader = scene.leader().await;
    let mark = scene.mark();
    let stopped = scene.signal(leader, Signal::STOP);
    // The server now handles the requests that the leader had sent before.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after_stop = scene.mark();
    scene.leader_after(&stopped).await;
    scene.signal(leader, Signal::CONT);
    let status = scene.replicas[leader].process.wait(TO_END).await;
    assert!(!status.success(), "a lost lease is an error: {status}");
    scene.finish().await;
    let written = |line: &&_| is_write_of(&stopped, line);
    let late: Vec<_> = scene.lines()[after_stop..].iter().filter(written).cloned().collect();
    // This is the event on the Lease that says that it has stopped leading.
    let (events, writes): (Vec<_>, Vec<_>) = late.into_iter().partition(|line| line.resource == "events");
    assert!(writes.is_empty(), "{writes:#?}");
    assert!(events.len() <= 1, "{events:#?}");
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 2);
    let gap = worst_since(&mut scene, mark, "SIGSTOP");
    assert!(gap < scene.size.longest_gap_after_kill(), "{gap:?}");
}

/// Returns true for a write by a user, except of the Lease: the server refuses that because another
/// process holds it.
fn is_write_of(user: &str, line: &kube_endpoint_integration_tests::processes::Line) -> bool {
    line.user == user && line.is_write() && (line.resource != "leases" || line.succeeded())
}

/// A new replica replaces each old one, and is ready before the next old one ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_leaves_no_gap_longer_than_a_second() {
    let mut scene = three_replicas(Size::from_environment()).await;
    let mark = scene.mark();
    for _ in 0..3 {
        scene.start_replica(&[]);
        scene.wait_until_all_stand_by().await;
        let old = scene.signal(0, Signal::TERM);
        let status = scene.replicas[0].process.wait(TO_END).await;
        assert!(status.success(), "{old}: {status}");
        scene.remove(0);
        scene.leader().await;
    }
    tokio::time::sleep(scene.size.steady).await;
    scene.finish().await;
    let writers = scene.assert_one_writer_at_a_time();
    assert!(writers.len() > 1, "the leader was among those that ended: {writers:?}");
    let gap = worst_since(&mut scene, mark, "rolling restart");
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

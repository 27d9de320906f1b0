//! The hand-over under load: who writes, and for how long nobody does.

use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Answer, Flips, answers, tenures, worst};
use rustix::process::Signal;

use crate::cluster::{Cluster, SIZE, Under};

/// How long the load runs before and after each hand-over.
const STEADY: Duration = Duration::from_secs(5);

/// How long a process has to end.
const TO_END: Duration = Duration::from_secs(30);

/// A kube-controller-manager of its own runs the loops.
#[tokio::test(flavor = "multi_thread")]
async fn the_loops_go_from_upstream_to_us_and_back_by_the_name_of_the_lease() {
    let Some(cluster) = Box::pin(Cluster::from_environment()).await else { return };
    let mut upstream = cluster.start_upstream("upstream-1", Under::NameOfLease);
    cluster.settled().await;
    let flips = Flips::start(cluster.client.clone(), SIZE);
    let mut ours = cluster.start_ours("ours", &["--compatibility=upstream"]);
    cluster.wait_for_watch("ours").await;
    tokio::time::sleep(STEADY).await;

    let to_us = cluster.mark();
    upstream.signal(Signal::TERM);
    upstream.wait(TO_END).await;
    cluster.wait_for_holder("ours").await;
    tokio::time::sleep(STEADY).await;

    let _upstream = cluster.start_upstream("upstream-2", Under::NameOfLease);
    tokio::time::sleep(STEADY).await;
    let back = cluster.mark();
    ours.signal(Signal::TERM);
    assert!(ours.wait(TO_END).await.success());
    cluster.wait_for_holder("upstream-2").await;
    tokio::time::sleep(STEADY).await;
    flips.stop().await;
    cluster.settled().await;
    check(&cluster, ["upstream-1", "ours", "upstream-2"], to_us, back);
}

/// The loops are in the kube-controller-manager that runs everything else.
#[tokio::test(flavor = "multi_thread")]
async fn the_loops_go_from_upstream_to_us_and_back_by_leader_migration() {
    let Some(cluster) = Box::pin(Cluster::from_environment()).await else { return };
    let mut upstream = cluster.start_upstream("upstream-1", Under::LeaderMigration);
    cluster.wait_for_holder("upstream-1").await;
    tokio::time::sleep(STEADY).await;
    if let Some(status) = upstream.exit_status() {
        // Kubernetes 1.36 gives the informers of a process a name, and refuses the second set that a migration needs.
        let log = upstream.log();
        assert!(log.contains("is already registered"), "{status}\n{log}");
        println!(
            "skipped: this kube-controller-manager cannot run a leader migration; use one of version 1.35"
        );
        return;
    }
    cluster.settled().await;
    let flips = Flips::start(cluster.client.clone(), SIZE);
    let mut ours = cluster.start_ours("ours", &["--compatibility=upstream"]);
    cluster.wait_for_watch("ours").await;
    tokio::time::sleep(STEADY).await;

    let to_us = cluster.mark();
    upstream.signal(Signal::TERM);
    let mut without_loops = cluster.start_upstream_without_loops("upstream-2");
    upstream.wait(TO_END).await;
    cluster.wait_for_holder("ours").await;
    cluster.wait_for_main_holder("upstream-2").await;
    tokio::time::sleep(STEADY).await;

    // kube-controller-manager campaigns for the Lease of the loops when it holds its main Lease.
    without_loops.signal(Signal::TERM);
    without_loops.wait(TO_END).await;
    let _upstream = cluster.start_upstream("upstream-3", Under::LeaderMigration);
    cluster.wait_for_main_holder("upstream-3").await;
    tokio::time::sleep(STEADY).await;
    let back = cluster.mark();
    ours.signal(Signal::TERM);
    assert!(ours.wait(TO_END).await.success());
    cluster.wait_for_holder("upstream-3").await;
    tokio::time::sleep(STEADY).await;
    flips.stop().await;
    cluster.settled().await;
    check(&cluster, ["upstream-1", "ours", "upstream-3"], to_us, back);
}

/// A kube-controller-manager that runs everything under its main Lease, as most do. Replicas of ours wait for a Lease that
/// is reserved, until the last kube-controller-manager with the loops has ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_loops_go_to_us_when_an_administrator_releases_the_lease() {
    let Some(cluster) = Box::pin(Cluster::from_environment()).await else { return };
    let mut upstream = cluster.start_upstream("upstream-1", Under::MainLease);
    cluster.settled().await;
    let flips = Flips::start(cluster.client.clone(), SIZE);
    cluster.reserve_lease().await;
    let _ours = cluster.start_ours("ours", &["--compatibility=upstream"]);
    cluster.wait_for_watch("ours").await;
    tokio::time::sleep(SIZE.lease.duration + STEADY).await;

    let mark = cluster.mark();
    upstream.signal(Signal::TERM);
    let _without_loops = cluster.start_upstream_without_loops("upstream-2");
    upstream.wait(TO_END).await;
    cluster.release_lease().await;
    cluster.wait_for_holder("ours").await;
    tokio::time::sleep(STEADY).await;
    flips.stop().await;
    cluster.settled().await;

    let lines = cluster.lines();
    let writers: Vec<String> = tenures(&lines).into_iter().map(|tenure| tenure.user).collect();
    assert_eq!(writers, ["upstream-1", "ours"]);
    let gap = worst(&answers(&lines[mark..], "endpointslices"));
    println!("from upstream to us, released by hand: a change waited {:.2} s at most", gap.as_secs_f64());
    assert!(gap < Duration::from_secs(3), "{gap:?}");
}

/// Checks who wrote, in order, and how long changes waited since the requests with these numbers.
fn check(cluster: &Cluster, expected: [&str; 3], to_us: usize, back: usize) {
    let lines = cluster.lines();
    let tenures = tenures(&lines);
    let writers: Vec<&str> = tenures.iter().map(|tenure| &*tenure.user).collect();
    assert_eq!(writers, expected, "{tenures:#?}");
    let limit = SIZE.lease.duration + Duration::from_secs(3);
    let back = lines[back].arrival();
    let found: Vec<Answer> =
        ["endpointslices", "endpoints"].iter().flat_map(|it| answers(&lines[to_us..], it)).collect();
    let (to_us, back) = found.into_iter().partition::<Vec<_>, _>(|answer| answer.changed < back);
    for (what, answers) in [("from upstream to us", to_us), ("back", back)] {
        let gap = worst(&answers);
        println!("{what}: a change waited {:.2} s at most", gap.as_secs_f64());
        assert!(gap <= limit, "{what}: {gap:?}");
    }
}

/// For comparison: two replicas of kube-controller-manager, whose standby starts cold when the Lease has expired.
#[tokio::test(flavor = "multi_thread")]
async fn upstream_hands_over_to_upstream() {
    let Some(cluster) = Box::pin(Cluster::from_environment()).await else { return };
    let mut leader = cluster.start_upstream("upstream-1", Under::NameOfLease);
    cluster.settled().await;
    let _standby = cluster.start_upstream("upstream-2", Under::NameOfLease);
    let flips = Flips::start(cluster.client.clone(), SIZE);
    tokio::time::sleep(STEADY).await;
    let mark = cluster.mark();
    leader.signal(Signal::TERM);
    leader.wait(TO_END).await;
    cluster.wait_for_holder("upstream-2").await;
    tokio::time::sleep(STEADY).await;
    flips.stop().await;
    cluster.settled().await;
    let lines = cluster.lines();
    let writers: Vec<String> = tenures(&lines).into_iter().map(|tenure| tenure.user).collect();
    assert_eq!(writers, ["upstream-1", "upstream-2"]);
    let gap = worst(&answers(&lines[mark..], "endpointslices"));
    println!("from upstream to upstream: a change waited {:.2} s at most", gap.as_secs_f64());
    assert!(gap > Duration::from_secs(1), "the lease has to expire, so the gap cannot be {gap:?}");
}

//! Tests the hand-over under load: the writers, and the gaps between them.

use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Answer, Flips, Line, Process, answers, tenures, worst};
use rustix::process::Signal;

use crate::handover::cluster::{Cluster, SIZE, Under};

/// How long the load runs before and after each hand-over.
const STEADY: Duration = Duration::from_secs(5);

/// The time limit for the end of a process.
const TO_END: Duration = Duration::from_secs(30);

/// A hand-over under load: the outputs are complete when it begins.
struct HandOver {
    cluster: Cluster,
    flips: Flips,
}

impl HandOver {
    /// Waits until the outputs are complete, then starts the load.
    async fn begin(cluster: Cluster) -> Self {
        cluster.settled().await;
        let flips = Flips::start(cluster.client.clone(), SIZE, 0);
        Self { cluster, flips }
    }

    /// Starts this project's binary, which stands by with complete caches.
    async fn start_ours(&self) -> Process {
        let ours = self.cluster.start_ours("ours", &["--compatibility=upstream"]);
        self.cluster.wait_for_watch("ours").await;
        tokio::time::sleep(STEADY).await;
        ours
    }

    /// Stops the process of this project, and waits until `user` has led for a while. Returns the
    /// number of requests at the stop.
    async fn back_to(&self, user: &str, mut ours: Process) -> usize {
        let mark = self.cluster.mark();
        ours.signal(Signal::TERM);
        assert!(ours.wait(TO_END).await.success());
        self.leads(user).await;
        mark
    }

    /// Waits until `user` has held the Lease of the loops for a while.
    async fn leads(&self, user: &str) {
        self.cluster.wait_for_holder(user).await;
        tokio::time::sleep(STEADY).await;
    }

    /// Ends the load, and waits until the outputs are complete. Checks the order of the writers,
    /// and returns the requests.
    async fn end(self, expected: &[&str]) -> Vec<Line> {
        self.flips.stop().await;
        self.cluster.settled().await;
        let lines = self.cluster.lines();
        let tenures = tenures(&lines);
        let writers: Vec<&str> = tenures.iter().map(|tenure| &*tenure.user).collect();
        assert_eq!(writers, expected, "{tenures:#?}");
        lines
    }
}

/// Stops a process with SIGTERM and waits for its end.
async fn stop(process: &mut Process) {
    process.signal(Signal::TERM);
    process.wait(TO_END).await;
}

/// A kube-controller-manager of its own runs the loops.
pub(crate) async fn the_loops_go_from_upstream_to_us_and_back_by_the_name_of_the_lease() {
    let cluster = Box::pin(Cluster::from_environment()).await;
    let mut upstream = cluster.start_upstream("upstream-1", Under::NameOfLease);
    let hand_over = HandOver::begin(cluster).await;
    let ours = hand_over.start_ours().await;

    let to_us = hand_over.cluster.mark();
    stop(&mut upstream).await;
    hand_over.leads("ours").await;

    let _upstream = hand_over.cluster.start_upstream("upstream-2", Under::NameOfLease);
    tokio::time::sleep(STEADY).await;
    let back = hand_over.back_to("upstream-2", ours).await;
    let lines = hand_over.end(&["upstream-1", "ours", "upstream-2"]).await;
    check_gaps(&lines, to_us, back);
}

/// The loops are in the kube-controller-manager that runs everything else.
pub(crate) async fn the_loops_go_from_upstream_to_us_and_back_by_leader_migration() {
    let cluster = Box::pin(Cluster::from_environment()).await;
    let mut upstream = cluster.start_upstream("upstream-1", Under::LeaderMigration);
    cluster.wait_for_holder("upstream-1").await;
    tokio::time::sleep(STEADY).await;
    if let Some(status) = upstream.exit_status() {
        // Kubernetes 1.36 gives the informers of a process a name, and refuses the second set that
        // a migration needs.
        let log = upstream.log();
        assert!(log.contains("is already registered"), "{status}\n{log}");
        println!(
            "skipped: this kube-controller-manager cannot run a leader migration; use one of version 1.35"
        );
        return;
    }
    let hand_over = HandOver::begin(cluster).await;
    let ours = hand_over.start_ours().await;

    let cluster = &hand_over.cluster;
    let to_us = cluster.mark();
    upstream.signal(Signal::TERM);
    let mut without_loops = cluster.start_upstream_without_loops("upstream-2");
    upstream.wait(TO_END).await;
    cluster.wait_for_main_holder("upstream-2").await;
    hand_over.leads("ours").await;

    // kube-controller-manager campaigns for the Lease of the loops when it holds its main Lease.
    stop(&mut without_loops).await;
    let _upstream = cluster.start_upstream("upstream-3", Under::LeaderMigration);
    cluster.wait_for_main_holder("upstream-3").await;
    tokio::time::sleep(STEADY).await;
    let back = hand_over.back_to("upstream-3", ours).await;
    let lines = hand_over.end(&["upstream-1", "ours", "upstream-3"]).await;
    check_gaps(&lines, to_us, back);
}

/// A kube-controller-manager that runs everything under its main Lease, as most do. Replicas of
/// ours wait for a reserved Lease, until the last kube-controller-manager with the loops has ended.
pub(crate) async fn the_loops_go_to_us_when_an_administrator_releases_the_lease() {
    let cluster = Box::pin(Cluster::from_environment()).await;
    let mut upstream = cluster.start_upstream("upstream-1", Under::MainLease);
    let hand_over = HandOver::begin(cluster).await;
    let cluster = &hand_over.cluster;
    cluster.reserve_lease().await;
    let _ours = hand_over.start_ours().await;
    tokio::time::sleep(SIZE.lease.duration).await;

    let mark = cluster.mark();
    upstream.signal(Signal::TERM);
    let _without_loops = cluster.start_upstream_without_loops("upstream-2");
    upstream.wait(TO_END).await;
    cluster.release_lease().await;
    hand_over.leads("ours").await;
    let lines = hand_over.end(&["upstream-1", "ours"]).await;
    let gap = worst(&answers(&lines[mark..], "endpointslices"));
    println!("from upstream to us, released by hand: a change waited {:.2} s at most", gap.as_secs_f64());
    assert!(gap < Duration::from_secs(3), "{gap:?}");
}

/// For comparison: two replicas of kube-controller-manager, whose standby starts cold when the
/// Lease has expired.
pub(crate) async fn upstream_hands_over_to_upstream() {
    let cluster = Box::pin(Cluster::from_environment()).await;
    let mut leader = cluster.start_upstream("upstream-1", Under::NameOfLease);
    let hand_over = HandOver::begin(cluster).await;
    let _standby = hand_over.cluster.start_upstream("upstream-2", Under::NameOfLease);
    tokio::time::sleep(STEADY).await;
    let mark = hand_over.cluster.mark();
    stop(&mut leader).await;
    hand_over.leads("upstream-2").await;
    let lines = hand_over.end(&["upstream-1", "upstream-2"]).await;
    let gap = worst(&answers(&lines[mark..], "endpointslices"));
    println!("from upstream to upstream: a change waited {:.2} s at most", gap.as_secs_f64());
    assert!(gap > Duration::from_secs(1), "the lease has to expire, so the gap cannot be {gap:?}");
}

/// Checks how long changes waited since the requests with these numbers: the first of the hand-over
/// to us, and of that back.
fn check_gaps(lines: &[Line], to_us: usize, back: usize) {
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

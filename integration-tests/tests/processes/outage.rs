//! Tests a server that is away for longer than the lease, and a full disk.

use std::path::Path;
use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Scene, Size};

use crate::common::{APISERVER, LONGEST_GAP, longest_gap_after_outage, three_replicas, worst_since};

/// The leader ends because it could not renew its Lease, as client-go's does. The standbys wait for
/// the server.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_longer_than_the_lease_ends_only_the_leader() {
    let mut scene = three_replicas(Size::from_environment()).await;
    let leader = scene.leader().await;
    let user = scene.replicas[leader].user.clone();
    scene.replicas[leader].may_end = true;
    scene.server.stop_listening();
    tokio::time::sleep(scene.size.outage).await;
    let mark = scene.mark();
    scene.server.listen_again();
    assert!(!scene.replicas[leader].process.wait(scene.size.lease.duration).await.success());
    scene.leader_after(&user).await;
    // The load notices that the server is back.
    tokio::time::sleep(Duration::from_secs(1) + scene.size.steady).await;
    // Checks that the others run.
    scene.finish().await;
    assert_eq!(scene.assert_one_writer_at_a_time().len(), 2);
    let gap = worst_since(&mut scene, mark, "server back");
    assert!(gap < longest_gap_after_outage(&scene.size), "{gap:?}");
}

/// Writing to standard error fails. The manager goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_nothing() {
    let mut scene = Box::pin(Scene::start(APISERVER, Size::from_environment())).await;
    let full = Path::new("/dev/full");
    assert!(std::fs::write(full, "x").is_err(), "it is not full");
    scene.start_replica_logging_to(&["-v=4"], full);
    scene.settled().await;
    scene.start_flips();
    let mark = scene.mark();
    tokio::time::sleep(scene.size.steady * 2).await;
    scene.finish().await;
    let gap = worst_since(&mut scene, mark, "full disk");
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

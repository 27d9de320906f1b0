//! Tests one manager without leader election.

use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Scene, Size};
use rustix::process::Signal;

use crate::common::{APISERVER, TO_END, longest_gap_after_outage, worst_since};

const ALONE: &str = "--leader-elect=false";

/// Longer than the queue takes at the rate of the test.
const SHUTDOWN: &str = "--controller-shutdown-timeout=60s";

/// SIGTERM comes while each Service has an unwritten change: the process works off the queue before
/// it ends.
#[tokio::test(flavor = "multi_thread")]
async fn queued_changes_are_written_before_the_process_ends() {
    // A rate at which the queue is far from empty when the signal comes.
    let size = Size { qps: 20, ..Size::from_environment() };
    let mut scene = Box::pin(Scene::start(APISERVER, size)).await;
    let only = scene.start_replica(&[ALONE, SHUTDOWN]);
    scene.wait_until("half of the outputs are written", |scene| written(scene) >= scene.size.services).await;
    let before = written(&mut scene);
    assert!(before < 2 * scene.size.services, "the queue is not empty");
    scene.signal(only, Signal::TERM);
    let status = scene.replicas[only].process.wait(TO_END * 3).await;
    assert!(status.success(), "{status}");
    // The manager creates each output once, and complete.
    assert_eq!(written(&mut scene), 2 * scene.size.services);
    assert_eq!(scene.settled().await.writes_of_a_new_manager(), Vec::<String>::new());
}

fn written(scene: &mut Scene) -> usize {
    scene.lines().iter().filter(|line| line.writes_output() && line.succeeded()).count()
}

/// The server closes its port and comes back with the same objects.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_server_ends_nothing_and_loses_nothing() {
    let mut scene = Box::pin(Scene::start(APISERVER, Size::from_environment())).await;
    let only = scene.start_replica(&[ALONE]);
    scene.settled().await;
    scene.start_flips();
    tokio::time::sleep(scene.size.steady).await;
    scene.server.stop_listening();
    tokio::time::sleep(scene.size.outage / 2).await;
    let away = scene.mark();
    tokio::time::sleep(scene.size.outage / 2).await;
    let mark = scene.mark();
    assert_eq!(mark, away, "the server answered requests while it was away");
    scene.server.listen_again();
    tokio::time::sleep(Duration::from_secs(1) + scene.size.steady).await;
    assert!(scene.replicas[only].process.exit_status().is_none(), "the process is still the same one");
    scene.finish().await;
    let gap = worst_since(&mut scene, mark, "server back");
    assert!(gap < longest_gap_after_outage(&scene.size), "{gap:?}");
}

//! Measures the memory of an idle replica.

use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Memory, Pages, Scene, Size, free_port};
use kube_endpoint_testing::MetricsPage;

use crate::common::APISERVER;

/// The maximum resident memory of an idle replica.
const LIMIT: u64 = 16 * 1_000 * 1_000;

/// The replica has serving and the Lease, no traces, and got a probe and a scrape. The code of a
/// debug build alone exceeds the limit, so the limit holds only for its anonymous memory.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_replica_takes_at_most_16_megabytes() {
    let size = Size { services: 0, ..Size::from_environment() };
    let mut scene = Box::pin(Scene::start(APISERVER, size)).await;
    let pages = Pages::on(free_port());
    let [port, address] = pages.flags();
    let replica = scene.start_replica(&[&port, &address]);
    scene.wait_until_all_stand_by().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(pages.read("/readyz").await.unwrap().0, 200);
    let page = MetricsPage::new(pages.metrics().await.unwrap());
    assert_eq!(page.sum("leader_election_master_status", &[]), 1.0);
    tokio::time::sleep(size.idle).await;
    let process = &scene.replicas[replica].process;
    let Memory { resident, anonymous, .. } = process.memory().unwrap();
    println!("idle: {} KB resident, {} KB of it anonymous", resident / 1_000, anonymous / 1_000);
    assert!(anonymous < LIMIT, "{anonymous} bytes");
    if std::env::var_os("KEM_BINARY").is_some() {
        assert!(resident < LIMIT, "{resident} bytes");
    }
}

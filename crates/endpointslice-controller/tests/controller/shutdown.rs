//! Tests the shutdown of the controller.

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpointslice_controller::PlanOptions;
use tokio::time::Instant;

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{pod, service};

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_queued_keys() {
    let options = changed(|options| options.workers = 1);
    let mut harness = Harness::start(&server([pod("a", 1, true)]), options).await;
    harness.fault(Fault::Delay(seconds(3)), "create", usize::MAX);
    for number in 0..50 {
        harness.create(&service(&format!("web-{number:02}"))).await;
    }
    harness.pass(seconds(1)).await;
    let start = Instant::now();
    harness.controller.shut_down();
    harness.stopped().await;
    assert!((148_900..149_200).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(harness.requests(), ["create endpointslices 201"; 50]);
    assert_eq!(harness.endpoints("web-49"), ["10.1.0.1"]);
    assert_eq!(harness.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_all_writes_of_a_sync_in_progress() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    let mut harness =
        Harness::start(&server((1..4).map(|number| pod(&format!("p{number}"), number, true))), options).await;
    harness.fault(Fault::Delay(seconds(1)), "create", usize::MAX);
    harness.create(&service("web")).await;
    harness.pass(millis(500)).await;
    harness.controller.shut_down();
    harness.stopped().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
}

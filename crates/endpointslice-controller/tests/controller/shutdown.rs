//! The end of the controller.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpointslice_controller::{ControllerOptions, PlanOptions};
use tokio::time::Instant;

use crate::objects::{pod, service};
use crate::world::{World, millis, seconds, server};

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_shut_down_takes_no_more_work() {
    let mut world = World::with([pod("a", 1, true)]).await;
    world.controller.shut_down();
    world.stopped().await;
    world.create(&service("web")).await;
    world.pass(seconds(5)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert_eq!(world.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_is_queued_is_left_and_the_write_on_its_way_is_finished() {
    let options = ControllerOptions { workers: 1, ..ControllerOptions::default() };
    let mut world = World::start(&server([pod("a", 1, true)]), options).await;
    world.fault(Fault::Delay(seconds(3)), "create", usize::MAX);
    for number in 0..50 {
        world.create(&service(&format!("web-{number:02}"))).await;
    }
    world.pass(seconds(1)).await;
    let start = Instant::now();
    world.controller.shut_down();
    world.stopped().await;
    assert!((1900..2100).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(world.requests(), ["create endpointslices 201"]);
    assert_eq!(world.endpoints("web-00"), ["10.1.0.1"]);
    assert_eq!(world.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_writes_of_a_sync_that_is_under_way_are_finished() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let mut world =
        World::start(&server((1..4).map(|number| pod(&format!("p{number}"), number, true))), options).await;
    world.fault(Fault::Delay(seconds(1)), "create", usize::MAX);
    world.create(&service("web")).await;
    world.pass(millis(500)).await;
    world.controller.shut_down();
    world.stopped().await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
}

#[tokio::test(start_paused = true)]
async fn retries_and_pauses_hold_up_no_shutdown() {
    for retry_after in [None, Some(200)] {
        let mut world = World::with([pod("a", 1, true)]).await;
        world.fault(Fault::Refuse { status: 429, retry_after }, "create", usize::MAX);
        world.create(&service("web")).await;
        world.pass(seconds(50)).await;
        let start = Instant::now();
        world.controller.shut_down();
        world.stopped().await;
        assert!(start.elapsed() < millis(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_still_waits_for_its_stores_can_be_shut_down() {
    let server = server([]);
    let stall = Fault::Delay(seconds(3600));
    server.add_fault(FaultRule::new(stall, |request| request.plural() == "pods"));
    let mut world = World::begin(&server, ControllerOptions::default());
    world.pass(seconds(10)).await;
    world.controller.shut_down();
    world.stopped().await;
}

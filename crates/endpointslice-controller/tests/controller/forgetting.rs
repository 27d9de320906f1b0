//! Tests that no state stays in memory for deleted Services.

use kube_endpoint_controller_runtime::StateCounts;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpointslice_controller::PlanOptions;
use serde_json::json;

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{node, pod, pod_on, service};

#[tokio::test(start_paused = true)]
async fn no_state_is_kept_for_deleted_services() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(2);
    let options = changed(|options| {
        options.plan = plan;
        options.batch_period = millis(500);
    });
    let pods =
        (1..6).map(|number| pod_on(["a", "b"][usize::from(number % 2)], &format!("p{number}"), number, true));
    let nodes = [node("a", "zone-a", 4), node("b", "zone-b", 4), node("node", "zone-a", 4)];
    let server = server(pods);
    server.load(nodes).unwrap();
    let harness = Harness::start(&server, options).await;
    // Some writes fail, some answers are lost, and the cache sometimes lags.
    let refuse = Fault::Refuse { status: 500, retry_after: None };
    let busy = Fault::Refuse { status: 429, retry_after: Some(3) };
    let (mut turn, faults) = (0, [refuse, Fault::ApplyAndLoseAnswer, Fault::LoseRequest, busy]);
    for round in 0..6u32 {
        for number in 0..20 {
            let mut made = service(&format!("web-{number}"));
            let annotations =
                json!({"service.kubernetes.io/topology-mode": if number % 2 == 0 { "Auto" } else { "" }});
            made["metadata"]["annotations"] = annotations;
            harness.create(&made).await;
            if number % 5 == 0 {
                turn += 1;
                for verb in ["create", "update", "delete"] {
                    harness.fault(faults[turn % faults.len()].clone(), verb, 2);
                }
            }
        }
        harness.pass(millis(700)).await;
        harness.load([pod("extra", 9, round % 2 == 0)]);
        harness
            .server
            .add_fault(FaultRule::on(Fault::StallWatch(seconds(2)), "watch", "endpointslices").times(1));
        harness.server.close_watches();
        harness.pass(seconds(u64::from(round % 3))).await;
        for number in 0..20 {
            harness.delete("services", &format!("web-{number}")).await;
        }
    }
    harness.pass(seconds(600)).await;
    assert_eq!(harness.controller.state_counts(), StateCounts::default());
    assert_eq!(harness.controller.pending(), 0);
    assert_eq!(harness.server.count("endpointslices"), 0);
    for gauge in ["endpoints_desired", "num_endpoint_slices", "desired_endpoint_slices"] {
        assert_eq!(harness.metric(&format!("endpoint_slice_controller_{gauge}")), 0.0, "{gauge}");
    }
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn state_is_kept_once_for_each_service() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    for number in 0..20 {
        harness.create(&service(&format!("web-{number}"))).await;
    }
    for number in 2..10 {
        harness.load([pod("b", number, true)]);
        harness.pass(seconds(2)).await;
    }
    let want = StateCounts { trigger_times: 20, reported: 20, own: 20, ..StateCounts::default() };
    assert_eq!(harness.controller.state_counts(), want);
    harness.nothing_is_remembered().await;
}

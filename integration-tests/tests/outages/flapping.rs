//! Tests pods that flap thirty times a second behind ten Services, while the API server answers
//! 429.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use tokio::time::sleep;

use crate::outages::bed::{Bed, mirrored_endpoints, pod, seconds};

const SERVICES: usize = 10;
const PODS: usize = 5;

/// Flaps for half a minute. The server refuses `refused` of `of` writes. Returns the last state.
async fn flap(bed: &Bed, refused: usize, of: usize, retry_after: u32) -> Vec<bool> {
    let fault = Fault::Refuse { status: 429, retry_after: Some(retry_after) };
    let count = AtomicUsize::new(0);
    bed.server.add_fault(FaultRule::new(fault, move |request| {
        let is_write = request.method != "GET" && matches!(request.plural(), "endpoints" | "endpointslices");
        is_write && count.fetch_add(1, Ordering::Relaxed) % of < refused
    }));
    let mut ready = vec![true; PODS];
    for change in 0..1001 {
        let number = change * 7 % PODS;
        ready[number] = !ready[number];
        bed.load(pod(number, ready[number]));
        if change % 10 == 0 {
            bed.load(mirrored_endpoints(change / 10 % 100 + 1));
        }
        sleep(Duration::from_millis(30)).await;
    }
    bed.load(mirrored_endpoints(200));
    ready
}

#[tokio::test(start_paused = true)]
async fn the_last_state_is_right_within_30_seconds_of_the_end() {
    for (refused, of, retry_after) in [(1, 1, 1), (1, 1, 20), (9, 10, 1), (1, 2, 5)] {
        let bed = Bed::start(SERVICES).await;
        bed.change([true; PODS], 1);
        bed.pass(5).await;
        bed.server.clear_request_log();
        let ready = flap(&bed, refused, of, retry_after).await;
        assert!(!bed.wrong(&ready, 200).is_empty(), "the last change has not been written");
        let writes = bed.writes();
        let of_kind = |plural: &str, mirrored: bool| {
            let kind = writes.iter().filter(|it| it.request.plural() == plural && it.status == 429);
            kind.filter(|it| it.request.name.starts_with("mirrored") == mirrored).count()
        };
        for refusals in
            [of_kind("endpoints", false), of_kind("endpointslices", false), of_kind("endpointslices", true)]
        {
            assert!(refusals > 1, "{refusals} refusals");
        }
        bed.server.clear_faults();
        let took = bed.right_after(&ready, 200).await;
        assert!(took <= seconds(30), "{took:?} with {refused} of {of}, Retry-After {retry_after}");
        bed.pass(300).await;
        bed.expect(&ready, 200);
        bed.stop().await;
    }
}

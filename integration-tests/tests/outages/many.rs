//! Tests many Services that fail together.

use std::collections::BTreeMap;

use kube_endpoint_controllers::Gates;
use kube_endpoint_integration_tests::running_manager::settings;

use crate::outages::bed::{Bed, refuse, seconds};

const SERVICES: usize = 1000;

/// The limit of writes a second, and at once, of each controller.
const QPS: u32 = 100;

#[tokio::test(start_paused = true)]
async fn a_thousand_services_are_written_at_the_rate_limit_after_an_outage() {
    let mut settings = settings(Gates::default());
    settings.qps = f64::from(QPS);
    settings.burst = QPS;
    let bed = Bed::start_with(SERVICES, Some(&settings)).await;
    bed.expect([true], 1);
    bed.writes_meet(refuse(500));
    bed.change([false], 2);
    bed.pass(400).await;
    let failed = bed.writes().len();
    assert!(failed > 2 * SERVICES, "{failed} writes have failed");
    bed.server.clear_faults();
    bed.server.clear_request_log();
    let took = bed.right_after(&[false], 2).await;
    // There are ten seconds of writes after a probe.
    assert!(took <= seconds(40), "{took:?}");
    let mut by_second = BTreeMap::<_, u32>::new();
    for write in bed.writes() {
        let controller = (write.request.plural(), write.received.as_secs());
        *by_second.entry(controller).or_default() += 1;
    }
    assert!(by_second.values().all(|count| *count <= 2 * QPS + 1), "{by_second:?}");
    let over = by_second.values().filter(|count| **count > QPS + 1).count();
    assert!(over <= 2, "the burst comes once: {by_second:?}");
    bed.stop().await;
}

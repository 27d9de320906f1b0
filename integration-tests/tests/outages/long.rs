//! Tests an outage of hours: the load of probes does not depend on the number of keys.

use crate::outages::bed::{Bed, refuse, seconds};

#[tokio::test(start_paused = true)]
async fn one_probe_for_each_verb_every_20_seconds_whatever_the_number_of_keys() {
    let mut extra = Vec::new();
    for services in [1, 50] {
        let bed = Bed::start(services).await;
        bed.writes_meet(refuse(500));
        bed.change([false], 2);
        bed.pass(3600).await;
        bed.server.clear_request_log();
        bed.pass(3600).await;
        let writes = bed.writes();
        assert!(writes.iter().all(|write| write.request.verb == "update" && write.status == 500));
        // The controllers retry each key every 5 to 6 minutes.
        let keys = 2 * services + 1;
        extra.push(writes.len() - keys * 11);
        bed.server.clear_faults();
        let took = bed.right_after(&[false], 2).await;
        assert!(took <= seconds(30), "{took:?}");
        bed.stop().await;
    }
    assert!(extra.iter().all(|extra| (150..=260).contains(extra)), "{extra:?}");
}

//! Tests failing writes of a quiet cluster, while a pod turns unready and mirrored Endpoints
//! change.

use std::sync::atomic::{AtomicUsize, Ordering};

use kube_endpoint_controllers::Gates;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_integration_tests::running_manager::settings;

use crate::outages::bed::{Bed, mirrored_endpoints, refuse, seconds, service, skipped_endpoints};

/// The longest time between two writes in the last minute of the outage.
const PROBED: u64 = 21;

#[tokio::test(start_paused = true)]
async fn slices_endpoints_and_mirrored_slices_are_right_within_30_seconds_of_the_end() {
    let faults = [500, 503, 504, 429, 400, 401, 403, 422].map(refuse).into_iter().chain([Fault::LoseRequest]);
    for (fault, duration) in faults.zip([200, 203, 205, 207, 209, 211, 213, 217, 219]) {
        let bed = Bed::start(1).await;
        bed.writes_meet(fault.clone());
        bed.change([false], 2);
        bed.pass(duration).await;
        let writes = bed.writes();
        assert!(writes.iter().all(|write| write.status != 200), "{fault:?}");
        // These are the retries of three keys, and a probe every 20 s.
        assert!((30..60).contains(&writes.len()), "{} writes: {fault:?}", writes.len());
        let late = |pair: &[kube_endpoint_embedded_apiserver::LoggedRequest]| {
            pair[1].received - pair[0].received > seconds(PROBED)
        };
        assert!(!writes.windows(2).any(late), "{fault:?}");
        bed.server.clear_faults();
        bed.server.clear_request_log();
        let took = bed.right_after(&[false], 2).await;
        assert!(took <= seconds(30), "{took:?} after {fault:?}");
        // The first success shows the other controllers that the outage has ended.
        let writes: Vec<u128> = bed.writes().iter().map(|write| write.received.as_millis()).collect();
        assert_eq!(writes.len(), 3);
        assert!(writes[2] - writes[0] < 1000, "{writes:?}");
        bed.pass(600).await;
        bed.expect([false], 2);
        bed.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn creates_and_deletes_are_made_within_30_seconds_of_the_end() {
    let bed = Bed::start(2).await;
    bed.writes_meet(refuse(500));
    bed.load(service("web-new"));
    bed.load(skipped_endpoints());
    bed.pass(200).await;
    let writes = bed.writes();
    for verb in ["create", "delete"] {
        assert!(writes.iter().any(|write| write.request.verb == verb && write.status == 500), "{verb}");
    }
    assert_eq!((bed.server.count("endpoints"), bed.server.count("endpointslices")), (3, 3));
    bed.server.clear_faults();
    let took = bed
        .after(|| {
            (bed.server.count("endpoints"), bed.server.count("endpointslices"), bed.mirrored()) == (4, 3, 0)
        })
        .await;
    assert!(took <= seconds(30), "{took:?}");
    bed.stop().await;
}

/// The controller deletes mirrored slices once the server has confirmed that their Endpoints are
/// not to be mirrored now.
#[tokio::test(start_paused = true)]
async fn what_a_sync_asks_the_server_is_probed_as_its_writes_are() {
    let bed = Bed::start(1).await;
    bed.server.add_fault(FaultRule::on(refuse(500), "get", "endpoints"));
    bed.load(skipped_endpoints());
    bed.pass(200).await;
    let log = bed.server.request_log();
    let asked = log.iter().filter(|it| it.request.plural() == "endpoints" && it.status == 500).count();
    assert!((10..30).contains(&asked), "{asked} questions");
    assert_eq!(bed.mirrored(), 1);
    bed.server.clear_faults();
    let took = bed.after(|| bed.mirrored() == 0).await;
    assert!(took <= seconds(30), "{took:?}");
    bed.stop().await;
}

/// The manager gives up a write without an answer after a minute, and does not sync its key
/// meanwhile.
#[tokio::test(start_paused = true)]
async fn writes_that_are_never_answered_are_repeated_within_a_minute_of_the_end() {
    for duration in [150, 170, 190, 3600] {
        let bed = Bed::start(1).await;
        bed.writes_meet(Fault::NeverAnswer { applied: false });
        bed.change([false], 2);
        bed.pass(duration).await;
        let writes = bed.writes();
        assert!(writes.len() >= 6 && writes.iter().all(|write| write.status == 0), "{writes:?}");
        bed.server.clear_faults();
        let took = bed.right_after(&[false], 2).await;
        assert!(took <= seconds(61), "{took:?} after {duration} s");
        bed.stop().await;
    }
}

/// Writes of slices, with the same verb, succeed all the time.
#[tokio::test(start_paused = true)]
async fn endpoints_are_right_within_30_seconds_though_only_their_writes_failed() {
    let bed = Bed::start(1).await;
    bed.server.add_fault(FaultRule::on(refuse(500), "update", "endpoints"));
    bed.change([false], 1);
    for second in 0..400 {
        bed.load(mirrored_endpoints(second % 200 + 1));
        bed.pass(1).await;
    }
    let writes = bed.writes();
    let failed = writes.iter().filter(|write| write.status == 500).count();
    // These are its retries, and one try every 10 s.
    assert!((30..60).contains(&failed), "{failed} writes");
    assert!(writes.iter().filter(|write| write.status == 200).count() > 300);
    bed.server.clear_faults();
    let took = bed.right_after(&[false], 200).await;
    assert!(took <= seconds(30), "{took:?}");
    bed.stop().await;
}

#[tokio::test(start_paused = true)]
async fn keys_whose_failures_alternate_are_right_within_30_seconds_of_the_end() {
    let bed = Bed::start(2).await;
    // The faults come in turn, whichever object a write is for.
    let faults = [500, 409, 503, 422, 504, 403].map(refuse).into_iter().chain([Fault::LoseRequest]);
    for (turn, fault) in faults.enumerate() {
        let count = AtomicUsize::new(0);
        bed.server.add_fault(FaultRule::new(fault, move |request| {
            let is_write =
                request.method != "GET" && matches!(request.plural(), "endpoints" | "endpointslices");
            is_write && count.fetch_add(1, Ordering::Relaxed) % 7 == turn
        }));
    }
    bed.change([false], 2);
    bed.pass(600).await;
    let statuses: Vec<u16> = bed.writes().iter().map(|write| write.status).collect();
    for status in [500, 409, 503, 422, 504, 403, 0] {
        assert!(statuses.contains(&status), "{status}");
    }
    assert!(statuses.len() < 400, "{} writes", statuses.len());
    bed.server.clear_faults();
    let took = bed.right_after(&[false], 2).await;
    assert!(took <= seconds(30), "{took:?}");
    bed.stop().await;
}

/// Two keys fail for hours: the controller retries both every 5 to 6 minutes, and probes one every
/// 20 s.
#[tokio::test(start_paused = true)]
async fn no_probe_is_sent_before_the_end_of_a_pause_that_the_server_asks_for() {
    let bed = Bed::start(2).await;
    bed.server.add_fault(FaultRule::on(refuse(500), "update", "endpoints"));
    bed.change([false], 1);
    bed.pass(3600).await;
    bed.server.clear_request_log();
    for _ in 0..5 {
        bed.server.clear_faults();
        let pause = Fault::Refuse { status: 503, retry_after: Some(50) };
        bed.server.add_fault(FaultRule::on(pause, "update", "endpoints").times(1));
        bed.server.add_fault(FaultRule::on(refuse(500), "update", "endpoints").after(1));
        bed.pass(200).await;
    }
    let writes = bed.writes();
    let pauses = writes.windows(2).filter(|pair| pair[0].status == 503);
    let gaps: Vec<u64> = pauses.map(|pair| (pair[1].received - pair[0].at).as_secs()).collect();
    assert_eq!(gaps.len(), 5);
    // The other key's own retry may come meanwhile.
    assert!(gaps.iter().filter(|gap| **gap < 50).count() <= 2, "{gaps:?}");
    assert!(gaps.iter().filter(|gap| (50..56).contains(*gap)).count() >= 3, "{gaps:?}");
    bed.server.clear_faults();
    assert!(bed.right_after(&[false], 1).await <= seconds(80));
    bed.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_starts_during_the_outage_is_right_within_30_seconds_of_the_end() {
    let mut bed = Bed::start_with(1, None).await;
    bed.writes_meet(refuse(500));
    bed.start_manager(&settings(Gates::default()));
    bed.pass(200).await;
    assert!(bed.writes().iter().any(|write| write.status == 500));
    bed.server.clear_faults();
    let took = bed.right_after(&[true], 1).await;
    assert!(took <= seconds(30), "{took:?}");
    bed.stop().await;
}

/// Upstream's profile retries fifteen times, and nothing probes.
#[tokio::test(start_paused = true)]
async fn with_the_upstream_profile_a_key_is_dropped() {
    let bed = Bed::start_with(1, Some(&settings(Gates::upstream()))).await;
    bed.writes_meet(refuse(500));
    bed.change([false], 2);
    bed.pass(200).await;
    let endpoints = bed.writes().iter().filter(|write| write.request.plural() == "endpoints").count();
    assert_eq!(endpoints, 16);
    bed.server.clear_faults();
    bed.pass(3600).await;
    assert_eq!(bed.wrong(&[false], 2), ["endpoints web-0000"]);
    bed.stop().await;
}

//! Tests with keys whose writes fail for a long time.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};

use crate::bed::{TestBed, key};

const HOUR: u64 = 3600;

fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

/// Adds a fault on creates that lasts `seconds` from now on.
pub(crate) fn outage(bed: &TestBed, fault: Fault, seconds: u64) {
    let rule = FaultRule::on(fault, "create", "endpointslices");
    bed.server.add_fault(rule.during(Duration::ZERO..Duration::from_secs(seconds)));
}

#[tokio::test(start_paused = true)]
async fn a_key_is_never_dropped_and_succeeds_within_six_minutes_of_the_end_of_any_failure() {
    // The runtime probes after a common failure every 20 s.
    for (status, tries, longest) in [
        (413, 10..=12, 360),
        (403, 180..=193, 21),
        (422, 180..=193, 21),
        (500, 180..=193, 21),
        (503, 180..=193, 21),
    ] {
        let bed = TestBed::new();
        outage(&bed, refuse(status), 6 * HOUR);
        bed.fill();
        bed.pass(5 * HOUR).await;
        let slow = bed.controller.slow_retries(&ObjectKey::default(), 10);
        assert_eq!(slow.len(), 1);
        assert_eq!(slow[0].key, key());
        assert!(slow[0].error.starts_with("failed to create default/web-"), "{}", slow[0].error);
        bed.syncs();
        bed.pass(HOUR).await;
        let hourly = bed.syncs().len();
        assert!(tries.contains(&hourly), "{hourly} retries in an hour: {status}");
        bed.pass(longest).await;
        assert_eq!(bed.server.count("endpointslices"), 1, "{status}");
        assert!(bed.controller.slow_retries(&ObjectKey::default(), 10).is_empty());
        assert_eq!(bed.controller.state_counts().failing, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_a_key_is_dropped_after_fifteen_retries() {
    let options = RuntimeOptions { slow_retries: false, ..RuntimeOptions::default() };
    let bed = TestBed::with(RuntimeOptions { min_resync_period: Duration::ZERO, ..options.clone() });
    outage(&bed, refuse(403), HOUR);
    bed.fill();
    bed.pass(48 * HOUR).await;
    assert_eq!(bed.syncs().len(), 16);
    assert_eq!(bed.controller.pending(), 0);
    assert_eq!(bed.server.count("endpointslices"), 0);
    // The resync still syncs a dropped key.
    let bed = TestBed::with(options);
    outage(&bed, refuse(403), HOUR);
    bed.fill();
    bed.pass(25 * HOUR).await;
    assert_eq!(bed.server.count("endpointslices"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_failure_is_recorded_when_the_error_changes() {
    for (slow_retries, expected) in [(true, 2), (false, 16)] {
        let bed = TestBed::with(RuntimeOptions { slow_retries, ..RuntimeOptions::default() });
        bed.fault_on_create(refuse(403), 8);
        bed.server.add_fault(FaultRule::on(refuse(500), "create", "endpointslices").after(8).times(8));
        bed.fill();
        bed.pass(HOUR).await;
        let failed = bed.syncs().iter().filter(|(_, how)| how == "failed").count();
        assert_eq!(failed, 16);
        assert_eq!(bed.recorded_events(), expected, "{slow_retries}");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_failed_in_an_outage_are_synced_when_one_write_succeeds() {
    for (status, woken) in [(503, true), (401, true), (403, true), (422, true), (413, false)] {
        let bed = TestBed::new();
        outage(&bed, refuse(status), 2000);
        let keys: Vec<_> = (0..20).map(|number| ObjectKey::new("default", format!("web-{number}"))).collect();
        bed.fill_with(keys);
        bed.pass(1999).await;
        assert_eq!(bed.server.count("endpointslices"), 0);
        let before = bed.syncs().len();
        assert!(before >= 20 * 16, "all retries failed");
        bed.pass(1).await;
        bed.add_service("new");
        bed.pass(2).await;
        let done = bed.server.count("endpointslices");
        if woken {
            assert_eq!(done, 21, "{status}");
        } else {
            assert!(done < 5, "{done} after {status}: a refusal says nothing about other objects");
        }
    }
}

/// The outage outlasts all retries of the endpoints controller for one key. Ten thousand keys that
/// fail together share one bucket of ten retries a second, so the last one would wait for a quarter
/// of an hour.
#[tokio::test(start_paused = true)]
async fn ten_thousand_keys_are_tried_within_30_seconds_of_the_end_of_an_outage_of_200_seconds() {
    const KEYS: usize = 10_000;
    let bed = TestBed::new();
    outage(&bed, refuse(503), 200);
    bed.fill_with((0..KEYS).map(|number| ObjectKey::new("default", format!("web-{number:05}"))));
    bed.pass(199).await;
    assert_eq!(bed.server.count("endpointslices"), 0);
    let failed = bed.syncs().len();
    assert!(failed >= KEYS, "all keys have failed: {failed} syncs");
    bed.pass(31).await;
    assert_eq!(bed.server.count("endpointslices"), KEYS);
    let mut by_second = BTreeMap::<u64, usize>::new();
    // The bed does not update its stores, so later syncs of a key find a stale cache and send
    // nothing.
    for (second, _) in bed.syncs().into_iter().filter(|(_, how)| how != "Stale") {
        *by_second.entry(second).or_default() += 1;
    }
    // The pass wakes 1000 keys in a second, and 10 more are due for a retry. The bed has no rate
    // limit.
    let most = by_second.values().max().unwrap();
    assert!((900..=1030).contains(most), "{most} writes in one second");
    assert_eq!(bed.controller.state_counts().failing, 0);
}

#[tokio::test(start_paused = true)]
async fn probes_use_up_no_retry() {
    let bed = TestBed::new();
    outage(&bed, refuse(500), HOUR);
    bed.fill();
    let slow = || bed.controller.slow_retries(&ObjectKey::default(), 10).len();
    // The fifteenth retry comes after 5 ms times two to the power of fifteen.
    bed.pass(160).await;
    assert_eq!(slow(), 0);
    // The first sync and 14 retries, and probes at intervals of 20 s.
    assert_eq!(bed.syncs().len(), 15 + 6);
    bed.pass(4).await;
    // A probe and the last retry have followed.
    assert_eq!((bed.syncs().len(), slow()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_stale_between_its_failures_backs_off() {
    let bed = TestBed::new();
    bed.fault_on_create(refuse(413), usize::MAX);
    bed.script.defer_every_other_sync();
    bed.fill();
    bed.pass(600).await;
    let failures: Vec<u64> =
        bed.syncs().into_iter().filter(|(_, how)| how == "failed").map(|(second, _)| second).collect();
    assert!((10..=25).contains(&failures.len()), "{} failures in ten minutes", failures.len());
}

//! Tests of the resync.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;
use kube_endpoint_core_model::ObjectKey;

use crate::bed::TestBed;

#[tokio::test(start_paused = true)]
async fn every_service_is_synced_once_more_over_ten_minutes_at_a_random_time() {
    const KEYS: u32 = 3000;
    const HOUR: u64 = 3600;
    let bed = TestBed::new();
    bed.fill_with((0..KEYS).map(|number| ObjectKey::new("default", format!("web-{number:04}"))));
    bed.pass(10).await;
    bed.show_slices();
    bed.pass(10).await;
    bed.syncs();
    bed.pass(12 * HOUR - 30).await;
    assert_eq!(bed.syncs(), []);
    bed.pass(12 * HOUR + 700).await;
    let syncs = bed.syncs();
    assert_eq!(syncs.len(), KEYS as usize);
    let (first, last) = (syncs[0].0, syncs[syncs.len() - 1].0);
    assert!((590..=610).contains(&(last - first)), "from {first} to {last}");
    assert!((12 * HOUR..24 * HOUR).contains(&first));
    assert!(syncs.iter().all(|(_, how)| how == "1 slices found"), "they find nothing to do");
}

#[tokio::test(start_paused = true)]
async fn a_period_of_zero_turns_the_resync_off() {
    let bed =
        TestBed::with(RuntimeOptions { min_resync_period: Duration::ZERO, ..RuntimeOptions::default() });
    bed.fill();
    bed.pass(1).await;
    bed.show_slices();
    bed.pass(10).await;
    bed.syncs();
    bed.pass(48 * 3600).await;
    assert_eq!(bed.syncs(), []);
}

//! Tests with another client that changes the outputs.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;
use kube_endpoint_core_model::{EndpointSlice, ResourceVersion};
use kube_endpoint_informer::StreamEvent;

use crate::bed::{TestBed, at};

/// Creates a bed whose slice has been written and is in the cache.
async fn written(options: RuntimeOptions) -> TestBed {
    let bed = TestBed::with(options);
    bed.fill();
    bed.pass(0).await;
    bed.show_slices();
    bed.pass(5).await;
    assert_eq!(bed.server.count("endpointslices"), 1);
    bed.syncs();
    bed
}

impl TestBed {
    /// Deletes the slice each second as another client. Returns the seconds of the syncs that found
    /// no slice.
    async fn fight(&self, seconds: u64) -> Vec<u64> {
        let mut syncs = Vec::new();
        for _ in 0..seconds {
            self.delete_slices().await;
            self.show_slices();
            self.pass_exactly(Duration::from_secs(1)).await;
            self.show_slices();
            syncs.extend(
                self.syncs().into_iter().filter(|(_, how)| how == "0 slices found").map(|(at, _)| at),
            );
        }
        syncs
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_to_a_change_comes_after_a_second_and_to_a_deletion_at_once() {
    let bed = written(RuntimeOptions::default()).await;
    bed.change_slices().await;
    bed.show_slices();
    bed.pass_exactly(Duration::from_millis(900)).await;
    assert_eq!(bed.syncs(), []);
    bed.pass_exactly(Duration::from_millis(200)).await;
    assert_eq!(bed.syncs(), [at(6, "1 slices found")]);
    bed.delete_slices().await;
    bed.show_slices();
    bed.pass_exactly(Duration::from_millis(20)).await;
    assert_eq!(bed.syncs(), [at(6, "0 slices found")]);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_keeps_coming_back_is_answered_ever_more_slowly_and_reported_once() {
    let bed = written(RuntimeOptions::default()).await;
    let syncs = bed.fight(3600).await;
    let gaps: Vec<u64> = syncs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.windows(2).all(|pair| pair[0] <= pair[1] + 1), "{gaps:?}");
    assert!((12..=22).contains(&syncs.len()), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 303), "{gaps:?}");
    assert_eq!(bed.recorded_events(), 1);
    // The other client stops for twenty minutes. The controller then answers its next deletion
    // within two seconds.
    for _ in 0..40 {
        bed.pass(30).await;
        bed.show_slices();
    }
    bed.syncs();
    bed.delete_slices().await;
    bed.show_slices();
    bed.pass(2).await;
    assert_eq!(bed.syncs().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_every_change_is_answered_at_once() {
    let bed = written(RuntimeOptions { foreign_write_backoff: false, ..RuntimeOptions::default() }).await;
    let syncs = bed.fight(60).await;
    assert!(syncs.len() >= 55, "{syncs:?}");
    assert_eq!(bed.recorded_events(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_changes_when_the_service_is_gone() {
    let bed = written(RuntimeOptions::default()).await;
    bed.fight(60).await;
    assert!(bed.controller.state_counts().foreign_changes > 0);
    bed.cluster.apply(StreamEvent::<kube_endpoint_core_model::Service>::restarted(
        Vec::new(),
        ResourceVersion(2000),
    ));
    bed.cluster.apply(StreamEvent::<EndpointSlice>::restarted(Vec::new(), ResourceVersion(2000)));
    bed.pass(600).await;
    assert_eq!(bed.controller.state_counts(), Default::default());
}

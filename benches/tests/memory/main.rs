//! Measures the bytes that the stores hold for each pod. Fails if they exceed 110 % of the figure
//! in the test.
//!
//! The figures are requested bytes, without the overhead of an allocator.
#![allow(clippy::print_stdout, reason = "a test that passes shows its figure when asked to")]

mod fill;

use fill::{Size, fill};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Each case has the bytes for each of 15,000 pods of 1,000 Services on 500 nodes, at most and in
/// the end.
#[test]
fn the_stores_hold_no_more_for_each_pod_than_before() {
    // This is one test, because the allocations of another one would count.
    for (unique_labels, at_most, in_the_end) in [(false, 871, 791), (true, 975, 909)] {
        let size = Size { pods: 15_000, services: 1_000, nodes: 500, namespaces: 50, unique_labels };
        ALLOCATED.reset_peak_usage();
        let before = ALLOCATED.current_usage();
        let filled = fill(size);
        let each = |now: usize| now.saturating_sub(before) / size.pods;
        let (peak, held) = (each(ALLOCATED.peak_usage()), each(ALLOCATED.current_usage()));
        let what = if unique_labels { "unique label sets" } else { "shared label sets" };
        println!("{what}: at most {peak}, in the end {held} bytes for each pod; {}", filled.describe());
        let counts = "15000 pods, 1000 services, 500 nodes, 1000 endpointslices, 1000 endpoints";
        assert!(filled.describe().starts_with(counts), "{}", filled.describe());
        for (when, now, figure) in [("at most", peak, at_most), ("in the end", held, in_the_end)] {
            assert!(
                now * 100 <= figure * 110,
                "{what}: {when} {now} bytes for each pod, which is more than 110 % of {figure}: make it less, or say \
                 in docs/performance.md why not, and change the figure"
            );
            // A figure that is much too high would let later changes pass.
            assert!(
                now * 110 >= figure * 100,
                "{what}: {when} {now} bytes for each pod, which is much less than {figure}: lower the figure"
            );
        }
    }
}

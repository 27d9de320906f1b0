//! The CPU time of planning after one pod changed, in this process.

use std::hint::black_box;

use kube_endpoint_benches::planned_service::{PlannedService, Size};
use rustix::time::{ClockId, clock_gettime};

use crate::plot::{Chart, Line};
use crate::progress::Progress;
use crate::statistics::median;

const ENDPOINTS: [usize; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];

/// How many changes this plans at each size. Planning from all pods takes long enough that fewer
/// give the same median.
const CHANGES: usize = 301;
const CHANGES_FROM_ALL: usize = 31;

/// Measures planning at all sizes up to a limit.
pub(super) fn time_by_endpoints(limit: usize) -> Chart {
    let line = |name: &str| Line { name: name.to_owned(), points: Vec::new() };
    let mut lines = [line("slices, from all pods"), line("slices, from the changed pod"), line("Endpoints")];
    let sizes: Vec<usize> = ENDPOINTS.into_iter().filter(|size| *size <= limit).collect();
    let progress = Progress::steps("planning", 2 * sizes.len());
    for size in sizes {
        let (slices, endpoints) = plan(size, false, CHANGES_FROM_ALL);
        progress.step();
        let (from_changed, _) = plan(size, true, CHANGES);
        progress.step();
        for (line, time) in lines.iter_mut().zip([slices, from_changed, endpoints]) {
            line.points.push((size as f64, time));
        }
    }
    Chart {
        name: "planning-by-endpoints".into(),
        title: "CPU of planning after one pod has changed".into(),
        x: "endpoints of the Service".into(),
        x_is_linear: false,
        y: "microseconds".into(),
        y_is_logarithmic: true,
        lines: lines.into(),
    }
}

/// Returns the medians of planning slices and Endpoints, in microseconds.
fn plan(endpoints: usize, incremental: bool, changes: usize) -> (f64, f64) {
    let mut service = PlannedService::new(Size { services: 1, pods: endpoints, other_pods: 0 });
    let (mut of_slices, mut of_endpoints) = (Vec::new(), Vec::new());
    for change in 0..changes {
        // The pod is among the first addresses, so that it changes the Endpoints, too, which hold a
        // thousand at most.
        let flipped = service.flipped(change * 37 % endpoints.min(500));
        service.apply(flipped);
        let pods = if incremental { service.read_changed() } else { service.read_all() };
        service.trigger_time(&pods);
        let start = cpu_microseconds();
        let slices = black_box(service.plan_slices(&pods));
        let middle = cpu_microseconds();
        let endpoints = black_box(service.plan_endpoints());
        let end = cpu_microseconds();
        of_slices.push(middle - start);
        of_endpoints.push(end - middle);
        service.store_slices(slices);
        service.store_endpoints(endpoints);
    }
    (median(&of_slices).unwrap_or_default(), median(&of_endpoints).unwrap_or_default())
}

/// Returns the CPU time of this thread. Unlike the time of day, it does not pass while other
/// programs run.
fn cpu_microseconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_up_to_the_limit_has_three_figures() {
        let chart = time_by_endpoints(1_000);
        assert_eq!(chart.lines.len(), 3);
        for line in chart.lines {
            assert_eq!(line.points.len(), 1, "{}", line.name);
            assert!(line.points[0].0 == 1_000.0 && line.points[0].1 > 0.0, "{line:?}");
        }
    }
}

//! Plans of a Service after one of its pods became ready or unready, by its number of pods; plans
//! of a Service without slices, without changes, and after half of a rollout.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use kube_endpoint_benches::planned_service::{PlannedService, Pods, Size};
use kube_endpoint_core_model::protobuf::ObjectToWrite;
use tokio::time::Instant;

const SIZES: [usize; 4] = [1_000, 5_000, 10_000, 100_000];

/// Returns the only Service of a namespace.
fn size(pods: usize) -> Size {
    Size { services: 1, pods, other_pods: 0 }
}

/// Returns the time of `rounds` rounds. Each round flips another pod.
fn flips(
    service: &mut PlannedService,
    rounds: u64,
    round: impl Fn(&mut PlannedService, Pods, &mut Duration),
) -> Duration {
    let mut total = Duration::ZERO;
    for number in 0..rounds {
        // The pod is among the first thousand addresses, so that each flip changes the Endpoints,
        // too.
        let flipped = service.flipped(usize::try_from(number * 37).unwrap_or_default() % 500);
        service.apply(flipped);
        let pods = service.read_changed();
        round(service, pods, &mut total);
    }
    total
}

/// Runs `work` and adds its time to `total`.
fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = black_box(work());
    *total += start.elapsed();
    result
}

fn one_pod_flipped(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one pod flipped, pods");
    for pods in SIZES {
        let mut service = PlannedService::new(size(pods));
        group.bench_function(BenchmarkId::new("slices, from the changed pod", pods), |bencher| {
            bencher.iter_custom(|rounds| {
                flips(&mut service, rounds, |service, pods, total| {
                    let written = timed(total, || service.plan_slices(&pods));
                    assert_eq!(written.len(), 1);
                    service.store_slices(written);
                })
            });
        });
        let mut service = PlannedService::new(size(pods));
        group.bench_function(BenchmarkId::new("slices, from event to bodies", pods), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut total = Duration::ZERO;
                for number in 0..rounds {
                    let flipped = service.flipped(usize::try_from(number * 37).unwrap_or_default() % 500);
                    let slices = timed(&mut total, || {
                        service.apply(flipped);
                        let pods = service.read_changed();
                        service.trigger_time(&pods);
                        let slices = service.plan_slices(&pods);
                        black_box(slices[0].to_protobuf());
                        slices
                    });
                    service.store_slices(slices);
                }
                total
            });
        });
        if pods > 10_000 {
            continue;
        }
        let mut service = PlannedService::new(size(pods));
        group.bench_function(BenchmarkId::new("slices, from all pods", pods), |bencher| {
            bencher.iter_custom(|rounds| {
                flips(&mut service, rounds, |service, _, total| {
                    let pods = service.read_all();
                    let written = timed(total, || service.plan_slices(&pods));
                    assert_eq!(written.len(), 1);
                    service.store_slices(written);
                })
            });
        });
        let mut service = PlannedService::new(size(pods));
        group.bench_function(BenchmarkId::new("Endpoints", pods), |bencher| {
            bencher.iter_custom(|rounds| {
                flips(&mut service, rounds, |service, _, total| {
                    let written = timed(total, || service.plan_endpoints());
                    assert!(written.is_some());
                    service.store_endpoints(written);
                })
            });
        });
    }
    group.finish();
}

fn whole_plans(criterion: &mut Criterion) {
    const PODS: usize = 5_000;
    let mut group = criterion.benchmark_group("plan of slices, 5,000 pods");
    let mut service = PlannedService::without_plans(size(PODS));
    let pods = service.read_all();
    group.bench_function("no slices", |bencher| bencher.iter(|| service.plan_slices(&pods)));
    let mut service = PlannedService::new(size(PODS));
    let pods = service.read_all();
    assert!(service.plan_slices(&pods).is_empty());
    group.bench_function("nothing to do", |bencher| bencher.iter(|| service.plan_slices(&pods)));
    service.replace_half();
    let pods = service.read_all();
    assert!(service.plan_slices(&pods).len() > 1);
    group.bench_function("half of the pods replaced", |bencher| bencher.iter(|| service.plan_slices(&pods)));
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    one_pod_flipped(&mut criterion);
    whole_plans(&mut criterion);
    criterion.final_summary();
}

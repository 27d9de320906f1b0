//! Applies one pod event, and finds the Services that it affects. The time must not depend on the
//! number of Services or of other pods.

use criterion::{BenchmarkId, Criterion};
use kube_endpoint_benches::planned_service::{PlannedService, Size};
use kube_endpoint_informer::StreamEvent;

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("membership");
    for (services, other_pods) in [(100, 0), (10_000, 0), (100, 49_900)] {
        let mut service = PlannedService::without_plans(Size { services, pods: 100, other_pods });
        let unready = service.flipped(0);
        service.apply(unready.clone());
        let ready = service.flipped(0);
        let mut moved = ready.clone();
        moved.labels = moved.labels.with("app", "other-1");
        let cluster = service.cluster();
        let size = format!("{services} Services, {} pods", 100 + other_pods);
        for (name, other) in [("readiness flips", unready), ("labels change", moved)] {
            group.bench_function(BenchmarkId::new(name, &size), |bencher| {
                bencher.iter(|| {
                    cluster.apply(StreamEvent::Applied(other.clone()));
                    cluster.apply(StreamEvent::Applied(ready.clone()));
                });
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    events(&mut criterion);
    criterion.final_summary();
}

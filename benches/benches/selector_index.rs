//! Finds the Services that one pod event affects. The time must not depend on the number of Services.

use criterion::{BenchmarkId, Criterion};
use kube_endpoint_benches::{flipped, pods, service};
use kube_endpoint_core_model::{ObjectKey, Pod, ResourceVersion};
use kube_endpoint_informer::{Cluster, Kind, StreamEvent};

/// Pods of the workload whose pod changes.
const PODS: usize = 100;

/// A namespace with `services` Services, of which one selects pods.
fn cluster(services: usize) -> (Cluster, Pod) {
    let cluster = Cluster::new([Kind::Pods, Kind::Services]);
    let all = (0..services).map(|number| service(&format!("web-{number}"))).collect();
    cluster.apply(StreamEvent::restarted(all, ResourceVersion(1)));
    let pods: Vec<Pod> = pods("web-0", PODS).iter().map(|pod| Pod::clone(pod)).collect();
    let one = pods[0].clone();
    cluster.apply(StreamEvent::restarted(pods, ResourceVersion(1)));
    assert_eq!(cluster.services_of_pod(&one.key), [ObjectKey::new(one.key.namespace.clone(), "web-0")]);
    (cluster, one)
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("membership");
    for services in [100, 10_000] {
        let (cluster, ready) = cluster(services);
        let unready = flipped(&ready, "web-0", 0, false);
        group.bench_function(BenchmarkId::new("readiness flips, Services", services), |bencher| {
            bencher.iter(|| {
                cluster.apply(StreamEvent::Applied(unready.clone()));
                cluster.apply(StreamEvent::Applied(ready.clone()));
            });
        });
        let mut moved = ready.clone();
        moved.labels = moved.labels.with("app", "web-1");
        group.bench_function(BenchmarkId::new("labels change, Services", services), |bencher| {
            bencher.iter(|| {
                cluster.apply(StreamEvent::Applied(moved.clone()));
                cluster.apply(StreamEvent::Applied(ready.clone()));
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    events(&mut criterion);
    criterion.final_summary();
}

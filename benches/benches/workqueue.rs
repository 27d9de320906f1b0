//! The queue: adds and processes keys, adds them again while they are queued, and adds them after a
//! delay.

use std::time::Duration;

use criterion::{Criterion, Throughput};
use kube_endpoint_benches::{keys, take_all};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_workqueue::{WorkQueue, endpoint_slice_rate_limiter};

const KEYS: usize = 10_000;

fn queue() -> WorkQueue<ObjectKey> {
    WorkQueue::new("bench", endpoint_slice_rate_limiter())
}

fn queues(criterion: &mut Criterion) {
    let keys = keys(KEYS);
    let mut group = criterion.benchmark_group("workqueue, 10,000 keys");
    group.throughput(Throughput::Elements(KEYS as u64));
    group.bench_function("add, get, done", |bencher| {
        let queue = queue();
        bencher.iter(|| {
            keys.iter().for_each(|key| queue.add(key.clone()));
            take_all(&queue);
        });
    });
    group.bench_function("add what waits already", |bencher| {
        let queue = queue();
        keys.iter().for_each(|key| queue.add(key.clone()));
        bencher.iter(|| keys.iter().for_each(|key| queue.add(key.clone())));
        assert_eq!(queue.len(), KEYS);
    });
    group.bench_function("delay a key that is delayed already", |bencher| {
        let queue = queue();
        let delay = Duration::from_secs(3600);
        bencher.iter(|| keys.iter().for_each(|key| queue.add_after(key.clone(), delay)));
        assert_eq!(queue.waiting_len(), KEYS);
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    queues(&mut criterion);
    criterion.final_summary();
}

//! Reading pods of a real cluster from JSON: straight into views, and into a tree of everything, for comparison.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use kube_endpoint_benches::{pods_as_json, recorded};
use kube_endpoint_core_model::{Intern, Interner, Pod};
use serde_json::Value;

fn decode(criterion: &mut Criterion) {
    let texts: Vec<String> = recorded("Pod").iter().map(Value::to_string).collect();
    let mut group = criterion.benchmark_group("decode/recorded pods");
    group.throughput(Throughput::Bytes(texts.iter().map(|text| text.len() as u64).sum()));
    group.bench_function("view", |bencher| {
        bencher.iter(|| texts.iter().map(|text| read::<Pod>(text)).collect::<Vec<_>>());
    });
    group.bench_function("tree", |bencher| {
        bencher.iter(|| texts.iter().map(|text| read::<Value>(text)).collect::<Vec<_>>());
    });
    group.finish();

    // As in a list, equal parts of pods are shared.
    let texts: Vec<String> = pods_as_json("web", 1000).iter().map(Value::to_string).collect();
    let mut group = criterion.benchmark_group("decode/1,000 pods of one workload");
    group.throughput(Throughput::Elements(texts.len() as u64));
    group.bench_function("view, interned", |bencher| {
        bencher.iter(|| {
            let mut interner = Interner::default();
            let interned = |text: &String| {
                let mut pod: Pod = read(text);
                pod.intern(&mut interner);
                pod
            };
            texts.iter().map(interned).collect::<Vec<_>>()
        });
    });
    group.finish();
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(black_box(text)).expect("a recorded pod can be read")
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    decode(&mut criterion);
    criterion.final_summary();
}

//! Decodes recorded answers of a real API server: from protobuf and from JSON straight into views;
//! for comparison, from JSON into a tree of everything, and from protobuf with messages derived
//! with prost. Also encodes the objects that controllers write.

mod prost_pod;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use kube_endpoint_benches::{
    decode_echo, pods_as_json, recorded, recorded_list_in_json, recorded_list_in_protobuf,
};
use kube_endpoint_core_model::protobuf::{FromProtobuf, ObjectToWrite};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Intern, Interner, Node, Pod, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;
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

    for kind in ["pods", "services", "nodes", "endpointslices", "endpoints"] {
        match kind {
            "pods" => both_encodings::<Pod>(criterion, kind),
            "services" => both_encodings::<Service>(criterion, kind),
            "nodes" => both_encodings::<Node>(criterion, kind),
            "endpointslices" => both_encodings::<EndpointSlice>(criterion, kind),
            _ => both_encodings::<Endpoints>(criterion, kind),
        }
    }

    encode::<EndpointSlice>(criterion, "endpointslices");
    encode::<Endpoints>(criterion, "endpoints");

    // As in a list, pods share equal parts.
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

/// Decodes the same list in both encodings.
fn both_encodings<T: FromProtobuf + DeserializeOwned + Intern>(criterion: &mut Criterion, kind: &str) {
    let (json, protobuf) = (recorded_list_in_json(kind), recorded_list_in_protobuf(kind));
    assert_eq!(json.len(), protobuf.len());
    let mut group = criterion.benchmark_group(format!("decode/{kind} of a list"));
    group.throughput(Throughput::Elements(json.len() as u64));
    let mut interner = Interner::default();
    group.bench_function("protobuf", |bencher| {
        bencher.iter(|| {
            let view =
                |item: &Vec<u8>| T::from_protobuf(black_box(item), &mut interner).expect("a recorded object");
            protobuf.iter().map(view).collect::<Vec<_>>()
        });
    });
    let mut interner = Interner::default();
    group.bench_function("JSON", |bencher| {
        bencher.iter(|| {
            let mut view = |item: &String| {
                let mut view: T = read(item);
                view.intern(&mut interner);
                view
            };
            json.iter().map(&mut view).collect::<Vec<_>>()
        });
    });
    if kind == "pods" {
        let mut interner = Interner::default();
        group.bench_function("protobuf, derived with prost", |bencher| {
            bencher.iter(|| {
                let view = |item: &Vec<u8>| prost_pod::view(black_box(item), &mut interner);
                protobuf.iter().map(view).collect::<Vec<_>>()
            });
        });
    }
    let mut interner = Interner::default();
    group.bench_function("echo of a write", |bencher| {
        bencher.iter(|| {
            let metadata = |item: &Vec<u8>| decode_echo(black_box(item), &mut interner);
            protobuf.iter().map(metadata).collect::<Vec<_>>()
        });
    });
    group.finish();
}

/// Encodes the views of a list.
fn encode<T: FromProtobuf + ObjectToWrite + Serialize>(criterion: &mut Criterion, kind: &str) {
    let mut interner = Interner::default();
    let view = |item: &Vec<u8>| T::from_protobuf(item, &mut interner).expect("a recorded object");
    let views: Vec<T> = recorded_list_in_protobuf(kind).iter().map(view).collect();
    let mut group = criterion.benchmark_group(format!("encode/{kind} of a list"));
    group.throughput(Throughput::Elements(views.len() as u64));
    group.bench_function("protobuf", |bencher| {
        bencher.iter(|| views.iter().map(|view| black_box(view).to_protobuf()).collect::<Vec<_>>());
    });
    group.bench_function("JSON", |bencher| {
        bencher.iter(|| views.iter().map(|view| serde_json::to_vec(black_box(view))).collect::<Vec<_>>());
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

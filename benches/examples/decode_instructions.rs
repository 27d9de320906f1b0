//! Decodes recorded objects, to be run under a tool that counts instructions:
//!
//! ```sh
//! cargo build --release -p kube-endpoint-benches --example decode_instructions
//! for rounds in 1 101; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/decode_instructions pods protobuf $rounds
//! done
//! ```
//!
//! The arguments are a kind (`pods`, `services`, `nodes`, `endpointslices`, `endpoints`), what to do (`json`, `protobuf`;
//! `prost` for pods only; `metadata`, which is what the echo of a write costs; `encode-json` and `encode-protobuf` for the
//! two kinds that are written) and a number of rounds; a round takes each object of the kind once. The difference of two
//! runs, divided by the difference of the rounds and by the printed number of objects, is the cost of one object.

#![allow(clippy::print_stdout, reason = "this is its output")]

use std::hint::black_box;

use kube_endpoint_benches::{recorded_list_in_json, recorded_list_in_protobuf};
use kube_endpoint_core_model::protobuf::{
    FromProtobuf, ObjectToWrite, fields_after_metadata, identity, object_meta,
};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Intern, Interner, Node, Pod, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[path = "decode_instructions/prost_pod.rs"]
mod prost_pod;

fn repeat<I, T>(rounds: usize, items: &[I], decode: impl Fn(&I, &mut Interner) -> T) -> usize {
    let mut interner = Interner::default();
    for _ in 0..rounds {
        // As in a store, the views of a list are held.
        let views: Vec<T> = items.iter().map(|item| decode(black_box(item), &mut interner)).collect();
        black_box(views);
    }
    items.len()
}

fn run<T: FromProtobuf + DeserializeOwned + Intern + 'static>(
    kind: &str,
    decoder: &str,
    rounds: usize,
) -> usize {
    match decoder {
        "json" => repeat(rounds, &recorded_list_in_json(kind), |item, interner| {
            let mut view: T = serde_json::from_str(item).expect("a recorded object can be decoded");
            view.intern(interner);
            view
        }),
        "protobuf" => repeat(rounds, &recorded_list_in_protobuf(kind), |item, interner| {
            T::from_protobuf(item, interner).expect("a recorded object can be decoded")
        }),
        "prost" => repeat(rounds, &recorded_list_in_protobuf(kind), |item, interner| {
            prost_pod::view::<T>(item, interner)
        }),
        "metadata" => repeat(rounds, &recorded_list_in_protobuf(kind), |item, interner| {
            let key = identity(item).key;
            (key, fields_after_metadata(item).map(<[u8]>::len), object_meta(item, interner))
        }),
        other => panic!("{other:?} is no decoder"),
    }
}

/// As [`run`], and encodes the objects of a kind that is written.
fn run_written<T>(kind: &str, what: &str, rounds: usize) -> usize
where
    T: FromProtobuf + DeserializeOwned + Intern + ObjectToWrite + Serialize + 'static,
{
    let views = || {
        let mut interner = Interner::default();
        let view =
            |item: &Vec<u8>| T::from_protobuf(item, &mut interner).expect("a recorded object can be decoded");
        recorded_list_in_protobuf(kind).iter().map(view).collect::<Vec<T>>()
    };
    match what {
        "encode-protobuf" => repeat(rounds, &views(), |view, _| view.to_protobuf()),
        "encode-json" => repeat(rounds, &views(), |view, _| serde_json::to_vec(view)),
        decoder => run::<T>(kind, decoder, rounds),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, decoder, rounds] = &arguments[..] else { panic!("expected KIND DECODER ROUNDS") };
    let rounds = rounds.parse().expect("ROUNDS is a number");
    let objects = match kind.as_str() {
        "pods" => run::<Pod>(kind, decoder, rounds),
        "services" => run::<Service>(kind, decoder, rounds),
        "nodes" => run::<Node>(kind, decoder, rounds),
        "endpointslices" => run_written::<EndpointSlice>(kind, decoder, rounds),
        "endpoints" => run_written::<Endpoints>(kind, decoder, rounds),
        other => panic!("{other:?} is no kind"),
    };
    println!("{objects} objects");
}

//! Syncs of one Service after one of its pods became ready or unready, to be run under a tool that counts instructions:
//!
//! ```sh
//! cargo build --release -p kube-endpoint-benches --example sync_instructions
//! for rounds in 2 12; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/sync_instructions slices full 1000 $rounds
//! done
//! ```
//!
//! The arguments are a step, `full` or `incremental`, the number of pods and a number of rounds; each round flips another pod.
//! The difference of two runs, divided by the difference of the rounds, is the cost of one flip. Steps: `membership` applies
//! the event to the store and reads the pods of the Service, `trigger-time` computes the time to publish, `slices` and
//! `endpoints` plan, `encode-slices` and `encode-endpoints` also encode the planned object. Each step includes `membership`.
//!
//! The memory that the states take is the difference between the two modes in the last `mem_heap_B` of
//! `valgrind --tool=massif target/release/examples/sync_instructions membership MODE 10000 0`.

#![allow(clippy::print_stdout, reason = "this is its output")]

use std::hint::black_box;

use kube_endpoint_benches::sync::{Bed, Pods};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [step, mode, count, rounds] = &arguments[..] else { panic!("expected STEP MODE PODS ROUNDS") };
    let count: usize = count.parse().expect("PODS is a number");
    let rounds: usize = rounds.parse().expect("ROUNDS is a number");
    let incremental = match mode.as_str() {
        "full" => false,
        "incremental" => true,
        other => panic!("{other:?} is no mode"),
    };
    let mut bed = Bed::new(count, incremental);
    let mut done = 0;
    for round in 0..rounds {
        // Among the first addresses, so that the flip changes Endpoints that hold no more than a thousand.
        let pods = bed.flip(round * 37 % count.min(500));
        done += match step.as_str() {
            "membership" => usize::from(!matches!(&pods, Pods::All(pods) if pods.is_empty())),
            "trigger-time" => bed.trigger_time(&pods),
            "slices" => bed.plan_slices(&pods, false),
            "encode-slices" => bed.plan_slices(&pods, true),
            "endpoints" => bed.plan_endpoints(&pods, false),
            "encode-endpoints" => bed.plan_endpoints(&pods, true),
            other => panic!("{other:?} is no step"),
        };
        black_box(pods);
    }
    assert_eq!(done, rounds, "each flip is one write");
    println!("{rounds} rounds");
    // What it holds is what the last snapshot of a heap profiler shows.
    std::mem::forget(bed);
}

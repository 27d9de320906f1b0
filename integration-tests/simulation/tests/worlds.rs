//! Judges a sample of the small worlds. `just worlds` judges all of them.

use std::thread;

use kube_endpoint_simulation::worlds::{Judged, World, Worlds};

/// The size of the sample.
const SAMPLE: u64 = 100_000;

#[test]
fn one_plan_puts_100_000_small_worlds_right() {
    let numbers: Vec<u64> = Worlds::sample(SAMPLE).collect();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let judge = |numbers: &[u64]| {
        let mut judged = Judged::default();
        for number in numbers {
            let world = World::of(*number);
            match world.judge() {
                Ok(one) => judged.add(one),
                Err(broken) => panic!("world {number}: {}: {}\n{world}", broken.law, broken.detail),
            }
        }
        judged
    };
    let mut judged = Judged::default();
    thread::scope(|scope| {
        let chunks = numbers.chunks(numbers.len().div_ceil(threads));
        let running: Vec<_> = chunks.map(|chunk| scope.spawn(move || judge(chunk))).collect();
        for one in running {
            judged.add(one.join().unwrap());
        }
    });
    println!("{judged:#?}");
    assert_eq!(judged.worlds, SAMPLE);
    assert!(judged.with_writes > SAMPLE * 9 / 10, "{judged:?}");
    assert!(judged.states_between > SAMPLE && judged.kept > SAMPLE / 4, "{judged:?}");
}

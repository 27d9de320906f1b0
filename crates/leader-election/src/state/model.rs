//! A model test: several candidates on one simulated Lease, with clocks that differ, lost and late
//! answers, watches that lose events, and processes that are suspended, stopped and killed, and
//! that take the Lease back from the former process in their place.
//!
//! The laws:
//!
//! - At no time do two candidates have an [`until`](Leadership::Leading) that has not passed.
//! - The last writes that a new leader learns of include all writes of all leaders before.
//! - No candidate sends more than three requests a second on average.
//! - When faults stop, somebody leads within a lease duration and a retry period, and stays the
//!   leader.

mod candidate;
mod world;

use proptest::prelude::*;

use super::*;
use world::World;

/// Real time, in microseconds since the beginning.
type Micros = u64;

const SECOND: Micros = 1_000_000;
const FAULTS_END: Micros = 120 * SECOND;
const END: Micros = 200 * SECOND;

/// The random parameters of a case.
#[derive(Clone, Copy, Debug)]
struct Setup {
    seed: u64,
    candidates: usize,
    /// How many of 100 requests and events go wrong.
    faults: u32,
    /// The mean time between two suspensions, stops and kills of a process, in seconds.
    disturbances: u64,
    has_watch: bool,
}

fn setups() -> impl Strategy<Value = Setup> {
    (any::<u64>(), 2..5_usize, 0..70_u32, 2..40_u64, any::<bool>()).prop_map(
        |(seed, candidates, faults, disturbances, has_watch)| Setup {
            seed,
            candidates,
            faults,
            disturbances,
            has_watch,
        },
    )
}

fn options(index: usize, process: u64) -> ElectorOptions {
    ElectorOptions::new("kube-system", "l", format!("candidate-{index}-{process}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn there_is_one_leader_at_a_time_and_one_soon_after_faults(setup in setups()) {
        let mut world = World::new(setup);
        world.run();
        let at_end: Vec<usize> = (0..setup.candidates).filter(|index| world.candidates[*index].leads(END)).collect();
        prop_assert_eq!(at_end.len(), 1, "{:?}", world.leaders);
        let after: Vec<&(Micros, usize)> = world.leaders.iter().filter(|(at, _)| *at > FAULTS_END).collect();
        prop_assert!(after.len() <= 1, "leadership changes without a fault: {:?}", world.leaders);
        if let [(at, _)] = after[..] {
            // The slowest clock runs at nine tenths.
            let bound = (15 + 2) * SECOND * 10 / 9 + SECOND / 2;
            prop_assert!(at - FAULTS_END <= bound, "{} us without a leader", at - FAULTS_END);
        }
    }
}

#[test]
fn the_model_reaches_what_it_is_about() {
    let mut changes = 0;
    let (mut told, mut took_back) = (0, 0);
    for seed in 0..20 {
        let setup = Setup { seed, candidates: 3, faults: 30, disturbances: 10, has_watch: seed % 2 == 0 };
        let mut world = World::new(setup);
        world.run();
        changes += world.leaders.len();
        told += world.told;
        took_back += world.took_back;
    }
    assert!(changes > 60, "{changes} leaders in 20 runs");
    assert!(told > 5, "{told} leaders were told about last writes");
    assert!(took_back > 5, "{took_back} leaders took the Lease back");
}

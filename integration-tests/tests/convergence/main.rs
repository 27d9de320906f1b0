//! Property test of all controllers together under random changes and faults: once the faults stop, the outputs converge
//! to what controllers write that see the same inputs for the first time, and the controllers stop writing.
//!
//! The cases are random with a fixed seed. `CONVERGENCE_SEED` sets another seed and `CONVERGENCE_CASES` their number.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod cluster;
mod objects;
mod operations;

use cluster::Cluster;
use operations::{Op, ops};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

const CASES: u32 = 48;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn runner() -> TestRunner {
    let cases = from_environment("CONVERGENCE_CASES").map_or(CASES, |cases| cases as u32);
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&from_environment("CONVERGENCE_SEED").unwrap_or(1).to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let config = Config { cases, max_shrink_iters: 400, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, rng)
}

fn run(seed: u64, ops: &[Op]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let mut cluster = Cluster::start(seed).await;
        for op in ops {
            cluster.play(op).await;
        }
        cluster.settle().await;
        cluster.writes_nothing().await?;
        cluster.equals_output_of_new_controllers().await?;
        cluster.has_no_slices_from_pods_beside_mirrored_ones()?;
        cluster.restart_writes_nothing().await
    })
}

#[test]
fn outputs_converge_after_random_changes_and_faults() {
    let outcome = runner().run(&(proptest::prelude::any::<u64>(), ops()), |(seed, ops)| {
        run(seed, &ops).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, (seed, ops))) => panic!("{reason}\nseed {seed}, after {ops:#?}"),
        Err(error) => panic!("{error}"),
    }
}

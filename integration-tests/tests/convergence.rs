//! All controllers together, while everything goes wrong: whatever happens, when it stops they come to what controllers
//! would write that see the same inputs for the first time, and then leave it alone.
//!
//! Cases are random and always the same. `CONVERGENCE_SEED` names others, and `CONVERGENCE_CASES` how many.

#![expect(clippy::unwrap_used, reason = "a helper of tests that fails is a test that fails")]

mod chaos;

use chaos::cluster::Cluster;
use chaos::ops::{Op, ops};
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
        cluster.does_not_write().await?;
        cluster.is_what_fresh_controllers_write().await?;
        cluster.has_no_slices_beside_mirrored_ones()?;
        cluster.is_taken_over_without_a_write().await
    })
}

#[test]
fn whatever_happens_all_is_well_in_the_end() {
    let outcome = runner().run(&(proptest::prelude::any::<u64>(), ops()), |(seed, ops)| {
        run(seed, &ops).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, (seed, ops))) => panic!("{reason}\nseed {seed}, after {ops:#?}"),
        Err(error) => panic!("{error}"),
    }
}

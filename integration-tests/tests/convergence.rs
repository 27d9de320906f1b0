//! Property test of all controllers together under random changes and faults: once the faults stop, the outputs converge
//! to what controllers write that see the same inputs for the first time, and the controllers stop writing.
//!
//! The cases are random with a fixed seed. `CONVERGENCE_SEED` sets another seed and `CONVERGENCE_CASES` their number.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::time::Duration;

use kube_endpoint_integration_tests::simulation::{Cluster, Op, ops};
use kube_endpoint_manager_core::{Gate, Gates, Settings};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

const CASES: u32 = 48;

/// Settings with small slices. The bits of the seed choose the options that affect concurrency and timing.
fn settings(seed: u64) -> Settings {
    let bit = |number: u32| seed >> number & 1 == 1;
    let batch_period = |number| Duration::from_millis(if bit(number) { 700 } else { 0 });
    let mut settings = Settings::default();
    settings.gates = Gates::default().with(Gate::SliceCompaction, bit(8));
    settings.qps = if bit(9) { 20.0 } else { -1.0 };
    settings.max_endpoints_per_slice = 3;
    settings.endpoint_slice_workers = if bit(10) { 1 } else { 5 };
    settings.endpoint_slice_batch_period = batch_period(11);
    settings.endpoints_batch_period = batch_period(12);
    settings.mirroring_batch_period = batch_period(13);
    settings
}

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
        let mut cluster = Cluster::start(seed, &settings(seed));
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

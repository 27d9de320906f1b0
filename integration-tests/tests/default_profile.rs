//! Plays the recordings with the default feature gates, and checks that only the expected steps
//! differ.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::sync::Mutex;

use kube_endpoint_controllers::Gates;
use kube_endpoint_integration_tests::conformance::{
    Parts, Scenario, TestBed, play, recordings, upstream_settings,
};

/// The expected differences: the scenario, its first differing step, and the gate that causes it.
const EXPECTED: &[(&str, &str, &str)] = &[
    ("selector-removed-and-restored", "the selector goes", "OrphanedSliceCleanup"),
    ("topology-node-without-zone", "its zone label arrives", "NodeZoneResync"),
];

/// Returns the steps of a scenario whose outputs differ from the recording.
fn differences(name: &str) -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(Box::pin(async {
        let mut settings = upstream_settings(Parts::ALL);
        settings.gates = Gates::default();
        let bed = TestBed::in_process_with(&settings).await.unwrap();
        let scenario = Scenario::recorded(name).unwrap();
        let failures = play(&bed, &scenario, Parts::ALL).await.unwrap();
        failures.into_iter().map(|failure| failure.step).collect()
    }))
}

#[test]
fn only_gated_steps_differ_from_the_recordings() {
    let names: Vec<String> =
        recordings().unwrap().iter().map(|file| Scenario::read(file).unwrap().name).collect();
    let waiting = Mutex::new(names);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop();
                    let Some(name) = next else { break };
                    // Later steps may differ because of the first one.
                    if let Some(step) = differences(&name).into_iter().next() {
                        found.lock().unwrap().push((name, step));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort();
    let expected: Vec<(String, String)> =
        EXPECTED.iter().map(|(name, step, _)| ((*name).to_owned(), (*step).to_owned())).collect();
    assert_eq!(found, expected);
}

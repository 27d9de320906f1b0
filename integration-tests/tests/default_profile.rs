//! The recordings again, with everything on that goes past upstream by default: only what is meant to differ differs.

#![expect(clippy::unwrap_used, reason = "a helper of tests that fails is a test that fails")]

use std::sync::Mutex;

use kube_endpoint_integration_tests::conformance::{
    Parts, Scenario, World, play, recordings, upstream_settings,
};
use kube_endpoint_manager_core::{Gates, Settings};

/// The scenario and the step in which ours differs by default, and the gate that makes it so.
const MEANT: &[(&str, &str, &str)] = &[
    ("selector-removed-and-restored", "the selector goes", "OrphanedSliceCleanup"),
    ("topology-node-without-zone", "its zone label arrives", "NodeZoneResync"),
];

/// The steps of a scenario that do not end as recorded.
fn differences(name: &str) -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(Box::pin(async {
        let settings = Settings { gates: Gates::default(), ..upstream_settings(Parts::ALL) };
        let world = World::in_process_with(&settings).await.unwrap();
        let scenario = Scenario::recorded(name).unwrap();
        let failures = play(&world, &scenario, Parts::ALL).await.unwrap();
        failures.into_iter().map(|failure| failure.step).collect()
    }))
}

#[test]
fn only_what_gates_name_differs_from_the_recordings() {
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
                    // What follows a step that differs may differ because of it.
                    if let Some(step) = differences(&name).into_iter().next() {
                        found.lock().unwrap().push((name, step));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort();
    let meant: Vec<(String, String)> =
        MEANT.iter().map(|(name, step, _)| ((*name).to_owned(), (*step).to_owned())).collect();
    assert_eq!(found, meant);
}

//! Tests that a run depends only on its seed, its start time and its inputs: two processes send the
//! same requests at the same times, write the same log and the same metrics, and leave the same
//! objects.
//!
//! The standard library's hash maps have other keys in each map and in each process, so an order
//! that depends on one differs between two runs.
#![allow(clippy::unwrap_used)]

mod run;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The environment variable that names the file for a child process's transcript.
const OUTPUT: &str = "DETERMINISM_TRANSCRIPT";

/// Fails with the first line that differs.
#[track_caller]
fn assert_same(one: &str, two: &str) {
    let (mut lines_of_one, mut lines_of_two) = (one.lines(), two.lines());
    let mut before = Vec::new();
    loop {
        match (lines_of_one.next(), lines_of_two.next()) {
            (None, None) => return,
            (one, two) if one == two => before.extend(one),
            (one, two) => panic!(
                "line {} differs:\n  {one:?}\n  {two:?}\nafter\n  {}",
                before.len() + 1,
                before[before.len().saturating_sub(10)..].join("\n  ")
            ),
        }
    }
}

#[track_caller]
fn assert_contains(transcript: &str, words: &[&str]) {
    let found = transcript.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(found, "no line has all of {words:?}:\n{transcript}");
}

/// Returns the transcript of a run in another process.
fn of_another_process(seed: u64, path: &Path) -> String {
    let test = "determinism::two_processes_with_one_seed_do_the_same";
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test]).env(OUTPUT, path).env("DETERMINISM_SEED", seed.to_string());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn two_processes_with_one_seed_do_the_same() {
    if let Some(path) = std::env::var_os(OUTPUT) {
        let seed = std::env::var("DETERMINISM_SEED").unwrap().parse().unwrap();
        std::fs::write(path, run::transcript(seed)).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, seed: u64| of_another_process(seed, &folder.path().join(OsStr::new(name)));
    // Not in this process: `tracing` decides once for all threads which log lines are written, so
    // those of tests that run at the same time would decide with.
    let (one, two) = (of("one", 3), of("two", 3));
    assert_same(&one, &two);
    assert!(one != of("other", 4), "the seed has no effect");
    // The comparison covers these events.
    for words in [
        ["request", "POST", "/endpointslices", " 201"].as_slice(),
        &["request", "PUT", "/endpoints/", " 200"],
        &["request", "DELETE", "/endpointslices/", " 200"],
        &["request", "PUT", "/leases/", " 200"],
        &["request", "PUT", "/endpointslices/", " 429"],
        &["request", "PUT", "/endpoints/", " 500"],
        &["request", "POST", "/endpointslices", " 0"],
        &["log", "the controllers begin"],
        &["metric", "endpoint_slice_controller_changes"],
        &["object", "\"kind\":\"Event\""],
        &["object", "endpointslicemirroring-controller.k8s.io"],
    ] {
        assert_contains(&one, words);
    }
}

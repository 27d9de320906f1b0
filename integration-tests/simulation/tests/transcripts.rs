//! Tests that the same history gives the same run, event for event.

use std::process::Command;

use kube_endpoint_simulation::text::Field;
use kube_endpoint_simulation::{History, Profile, simulate_with_transcript};

/// Returns the first lines of two transcripts that differ.
fn difference<'a>(one: &'a [String], other: &'a [String]) -> Option<String> {
    let at = one.iter().zip(other).position(|(one, other)| one != other);
    let at = at.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())))?;
    let around = |lines: &'a [String]| lines[at.saturating_sub(5)..lines.len().min(at + 3)].join("\n");
    Some(format!("line {at}:\n{}\n--- and ---\n{}", around(one), around(other)))
}

fn transcript(history: &History) -> Vec<String> {
    let outcome = simulate_with_transcript(history);
    outcome.transcript.into_iter().map(|line| line.text).collect()
}

#[test]
fn two_runs_of_a_history_have_one_transcript() {
    for profile in Profile::ALL {
        let history = History::with_profile(*profile, 4);
        let (one, other) = (transcript(&history), transcript(&history));
        assert!(one.len() > 200, "{}: {} lines", profile.word(), one.len());
        assert_eq!(difference(&one, &other), None, "{}", profile.word());
    }
}

/// Processes hash differently.
#[test]
fn two_processes_have_one_transcript() {
    for profile in [Profile::Churn, Profile::Leaders, Profile::Stale] {
        let play = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_simulate"));
            command.args(["--seed", "5", "--transcript", "--profile", profile.word()]);
            let output = command.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (one, other) = (play(), play());
        assert!(one.len() > 300, "{}: {one:?}", profile.word());
        assert_eq!(difference(&one, &other), None, "{}", profile.word());
        assert_eq!(Profile::read(profile.word()), Some(profile));
    }
}

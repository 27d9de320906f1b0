//! Describes a failure for a person: the shrunk history and a timeline of it.

use std::fmt::Write;

use crate::history::History;
use crate::play::simulate_with_transcript;
use crate::runner::{or_panic, simulate_or_panic};
use crate::shrink::shrink;
use crate::watcher::{LineKind, Violation};

/// The maximum number of histories to try for a shorter one.
const TRIES: usize = 150;
/// The maximum number of lines of a timeline before the violation.
const LONGEST_TIMELINE: usize = 120;

/// Makes a failing history shorter and describes it: the rule, the history as text, and the steps
/// with the writes between them.
pub fn report(history: &History, violation: &Violation) -> String {
    let is_same =
        |shorter: &History| simulate_or_panic(shorter).violation.is_some_and(|it| it.rule == violation.rule);
    let shrunk = shrink(history, TRIES, is_same);
    let outcome = or_panic(|| simulate_with_transcript(&shrunk));
    let violation = outcome.violation.as_ref().unwrap_or(violation);
    let mut text = format!("seed {}: {violation}\n\n{shrunk}\ntimeline:\n", history.setup.seed);
    let until = crate::text::Field::write(&violation.at);
    let lines = outcome.transcript.iter();
    let lines: Vec<&str> = lines
        .filter(|line| matches!(line.kind, LineKind::Step | LineKind::Process | LineKind::Write))
        .map(|line| line.text.as_str())
        .filter(|line| *line <= until.as_str() || line.starts_with(&until))
        .collect();
    let skipped = lines.len().saturating_sub(LONGEST_TIMELINE);
    if skipped > 0 {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  ({skipped} lines before)");
    }
    for line in &lines[skipped..] {
        let _ = writeln!(text, "  {line}");
    }
    let _ = writeln!(text, "  {violation}");
    text
}

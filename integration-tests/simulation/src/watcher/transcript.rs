//! The transcript of a run. The same history gives the same lines.

use std::time::Duration;

use crate::text::Field;

/// The subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A step of the history, or the begin or end of its consequences.
    Step,
    /// A process started, ended or leads.
    Process,
    /// A write of a manager.
    Write,
    /// Another request.
    Request,
    /// A change of an object.
    Change,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub kind: LineKind,
    /// The line, with its time.
    pub text: String,
}

/// The lines so far, if the caller wants them.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    lines: Option<Vec<Line>>,
}

impl Transcript {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self { lines: is_wanted.then(Vec::new) }
    }

    /// Adds a line. It makes the text only if the caller wants it.
    pub(crate) fn add(&mut self, at: Duration, kind: LineKind, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(Line { kind, text: format!("{} {}", at.write(), text()) });
        }
    }

    /// Takes the lines out. The transcript goes on without them.
    pub(crate) fn take(&mut self) -> Vec<Line> {
        self.lines.take().unwrap_or_default()
    }
}

//! Findings: a code, its severity, and a message.

use std::fmt;

use serde::Serialize;

use crate::facts::remedy::Remedy;
use crate::findings::Code;
use crate::findings::code::Severity;
use crate::findings::evidence::Evidence;

/// A finding. `Display` prints the message, one sentence without a full stop.
pub trait Problem: fmt::Display {
    /// Returns the code.
    fn code(&self) -> Code;

    /// Returns the severity.
    fn severity(&self) -> Severity {
        self.code().severity()
    }
}

/// The serialised form of a finding: code, name, severity, message, the fields of its remedy, the
/// fields that it rests on, and its data as `details`.
#[derive(Serialize)]
pub(crate) struct Found<'a, P> {
    code: Code,
    name: &'static str,
    severity: Severity,
    message: String,
    #[serde(flatten)]
    remedy: Remedy,
    evidence: &'a [Evidence],
    details: &'a P,
}

impl<'a, P: Problem> Found<'a, P> {
    pub(crate) fn new(problem: &'a P, remedy: Remedy, evidence: &'a [Evidence]) -> Self {
        Self {
            code: problem.code(),
            name: problem.code().name(),
            severity: problem.severity(),
            message: problem.to_string(),
            remedy,
            evidence,
            details: problem,
        }
    }
}

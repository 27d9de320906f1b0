//! Findings: a code, its severity, a message, and a remedy.

use std::fmt;

use serde::Serialize;

use crate::{Code, Severity};

/// A finding. `Display` prints the message, one sentence without a full stop.
pub trait Problem: fmt::Display {
    /// Returns the code.
    fn code(&self) -> Code;

    /// Returns the remedy, one sentence without a full stop.
    fn remedy(&self) -> String;

    /// Returns the severity.
    fn severity(&self) -> Severity {
        self.code().severity()
    }
}

/// Adds the namespace to the commands of a remedy, except those that are about nodes.
pub(crate) fn in_namespace(remedy: &str, namespace: &str) -> String {
    let of_nodes = "kubectl auth can-i list nodes";
    let parts = remedy.split(of_nodes);
    let parts: Vec<String> =
        parts.map(|part| part.replace("kubectl ", &format!("kubectl -n {namespace} "))).collect();
    // kubectl accepts no flag before the name of a plugin.
    let plugin = format!("kubectl -n {namespace} endpoints cleanup");
    parts.join(of_nodes).replace(&plugin, &format!("kubectl endpoints cleanup -n {namespace}"))
}

/// The serialised form of a finding: code, name, severity, message, remedy, and its data as
/// `details`.
#[derive(Serialize)]
pub(crate) struct Found<'a, P> {
    code: Code,
    name: &'static str,
    severity: Severity,
    message: String,
    remedy: String,
    details: &'a P,
}

impl<'a, P: Problem> Found<'a, P> {
    /// `remedy` is that of the problem, with the names that its commands need.
    pub(crate) fn new(problem: &'a P, remedy: String) -> Self {
        Self {
            code: problem.code(),
            name: problem.code().name(),
            severity: problem.severity(),
            message: problem.to_string(),
            remedy,
            details: problem,
        }
    }
}

//! Findings: a code, its severity, a sentence that says what was found, and one that says what to do.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{Code, Severity};

/// Something that can be found. `Display` says what was found, as one sentence without a full stop.
pub trait Problem: fmt::Display {
    /// Returns the code.
    fn code(&self) -> Code;

    /// Returns what to do, as one sentence without a full stop.
    fn remedy(&self) -> String;

    /// Returns the severity.
    fn severity(&self) -> Severity {
        self.code().severity()
    }
}

/// Adds the namespace to the commands of a remedy.
pub(crate) fn in_namespace(remedy: &str, namespace: &str) -> String {
    remedy.replace("kubectl ", &format!("kubectl -n {namespace} "))
}

/// The serialised form of a finding.
#[derive(Serialize)]
struct Serialised<'a, P> {
    code: Code,
    name: &'static str,
    severity: Severity,
    message: String,
    remedy: String,
    details: &'a P,
}

/// Serialises a problem with code, name, severity, message, remedy, and its data as `details`.
///
/// # Errors
///
/// Those of the serialiser.
pub(crate) fn serialize<P: Problem + Serialize, S: Serializer>(
    problem: &P,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Serialised {
        code: problem.code(),
        name: problem.code().name(),
        severity: problem.severity(),
        message: problem.to_string(),
        remedy: problem.remedy(),
        details: problem,
    }
    .serialize(serializer)
}

/// Serialises a list of problems as [`serialize`] does each.
///
/// # Errors
///
/// Those of the serialiser.
pub(crate) fn serialize_all<P: Problem + Serialize, S: Serializer>(
    problems: &[P],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    struct One<'a, P>(&'a P);

    impl<P: Problem + Serialize> Serialize for One<'_, P> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serialize(self.0, serializer)
        }
    }

    serializer.collect_seq(problems.iter().map(One))
}

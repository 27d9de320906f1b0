//! Writes lint reports in SARIF 2.1.0 (OASIS), which code hosts and CI systems show. They have the
//! properties that GitHub's code scanning requires of an upload ("SARIF support for code scanning"
//! in its documentation), and keep to its limits.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::answers::lint::{Lint, LintReport};
use crate::findings::Code;
use crate::findings::code::Severity;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The number of results that GitHub accepts in one run. The report has the worst first.
const MAX_RESULTS: usize = 25_000;

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

impl LintReport {
    /// Returns the report as a SARIF log with one run. Its rules are all codes, even those without
    /// a result. `version` is that of the program.
    ///
    /// Each result has a logical location, `namespace/kind/name`, and a physical one of the same
    /// path, which need not be a file. The invocation has a notification for each kind that could
    /// not be read.
    pub fn sarif(&self, version: &str) -> Value {
        let rule = |code: &Code| {
            let page = code.address();
            json!({
                "id": code.id(),
                "name": code.name(),
                "shortDescription": {"text": code.title()},
                "fullDescription": {"text": code.title()},
                "help": {
                    "text": format!("Causes, an example and the remedy: {page}"),
                    "markdown": format!("[Causes, an example and the remedy]({page})"),
                },
                "helpUri": page,
                "defaultConfiguration": {"level": level(code.severity())},
                "properties": {"tags": ["kubernetes", "endpoints"]},
            })
        };
        let left_out = self.problems.len().saturating_sub(MAX_RESULTS);
        let left_out = (left_out > 0).then(|| format!("{left_out} more results were left out."));
        let notes = self.not_read.iter().cloned().chain(left_out);
        let notes: Vec<Value> =
            notes.map(|note| json!({"level": "warning", "message": {"text": note}})).collect();
        let mut numbers: BTreeMap<_, usize> = BTreeMap::new();
        let results = self.problems.iter().take(MAX_RESULTS).map(|lint| {
            let number = numbers.entry((&lint.kind, &lint.object, lint.code)).or_default();
            *number += 1;
            result(lint, *number)
        });
        let results: Vec<Value> = results.collect();
        json!({
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "kubectl-diagnose-svc",
                    "semanticVersion": version,
                    "informationUri": Code::page(),
                    "rules": Code::ALL.iter().map(rule).collect::<Vec<_>>(),
                }},
                "invocations": [{
                    "executionSuccessful": self.not_read.is_empty(),
                    "toolExecutionNotifications": notes,
                }],
                "results": results,
            }],
        })
    }
}

/// Returns a result. `number` counts the results with one object and code: their messages have ages
/// and counts, by which nobody would recognise them in the next run.
fn result(lint: &Lint, number: usize) -> Value {
    let Lint { kind, object, code, severity, remedy, .. } = lint;
    let [said, advised] = lint.sentences();
    let kind_in_path = kind.to_lowercase();
    let parts = [&*object.namespace, &kind_in_path, &*object.name];
    let path = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    json!({
        "ruleId": code.id(),
        "ruleIndex": Code::ALL.iter().position(|other| other == code),
        "level": level(*severity),
        "message": {"text": format!("{kind} {object}: {said} {advised}")},
        "properties": {"commands": remedy.commands().collect::<Vec<_>>()},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": &path},
                "region": {"startLine": 1, "startColumn": 1, "endLine": 1, "endColumn": 1},
            },
            "logicalLocations": [{
                "name": &*object.name,
                "fullyQualifiedName": &path,
                "kind": "resource",
            }],
        }],
        "partialFingerprints": {"primaryLocationLineHash": format!("{path}/{}/{number}", code.id())},
    })
}

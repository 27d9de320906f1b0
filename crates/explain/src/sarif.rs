//! Lint reports in SARIF 2.1.0 (OASIS), which code hosts and CI systems show.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::lint::{Lint, LintReport};
use crate::{Code, Severity};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

impl LintReport {
    /// Returns the report as a SARIF log with one run. Objects are logical locations: `namespace/kind/name`. `version` is
    /// that of the program, and `help` the address of the page that describes the codes.
    pub fn sarif(&self, version: &str, help: &str) -> Value {
        let codes: BTreeSet<Code> = self.problems.iter().map(|lint| lint.code).collect();
        let codes: Vec<Code> = codes.into_iter().collect();
        let rule = |code: &Code| {
            json!({
                "id": code.id(),
                "name": code.name(),
                "shortDescription": {"text": code.title()},
                "helpUri": format!("{help}#{}-{}", code.id().to_lowercase(), code.name()),
                "defaultConfiguration": {"level": level(code.severity())},
            })
        };
        json!({
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "kubectl-endpoints",
                    "version": version,
                    "informationUri": help,
                    "rules": codes.iter().map(rule).collect::<Vec<_>>(),
                }},
                "results": self.problems.iter().map(|lint| result(lint, &codes)).collect::<Vec<_>>(),
            }],
        })
    }
}

fn result(lint: &Lint, codes: &[Code]) -> Value {
    let Lint { kind, object, code, severity, message, remedy, .. } = lint;
    let path = format!("{}/{}/{}", object.namespace, kind.to_lowercase(), object.name);
    json!({
        "ruleId": code.id(),
        "ruleIndex": codes.binary_search(code).unwrap_or_default(),
        "level": level(*severity),
        "message": {"text": format!("{kind} {object}: {message}. {remedy}.")},
        "locations": [{"logicalLocations": [{
            "name": &*object.name,
            "fullyQualifiedName": &path,
            "kind": "resource",
        }]}],
        "partialFingerprints": {"objectAndCode/v1": format!("{path}/{}", code.id())},
    })
}

//! Prints reports about many Services: lint, diff and render.

use super::document::{Document, Emphasis, Layout, command, plain, span};
use super::explanation::{number, sentence};
use super::table::Table;
use crate::answers::diff::{Diff, Verb};
use crate::answers::lint::LintReport;
use crate::answers::render::Rendered;
use crate::findings::code::Severity;
use crate::models::leftovers::{Cleanup, Outcome};

impl LintReport {
    /// Returns a table of the problems, and their numbers. A wide table has the remedies, too, and
    /// is not wrapped.
    pub fn text(&self, layout: Layout) -> Document {
        let mut document = Document::default();
        let all = &["SEVERITY", "CODE", "OBJECT", "PROBLEM", "REMEDY"];
        let mut table = match layout.wide {
            true => Table::new(0, all),
            false => Table::new(0, &all[..4]).wrapped(layout.columns),
        };
        for lint in &self.problems {
            let object = match lint.kind {
                "Service" => lint.object.to_string(),
                kind => format!("{kind} {}", lint.object),
            };
            table.row([
                span(lint.severity.to_string(), lint.severity.emphasis()),
                plain(lint.code.id()),
                span(object, Emphasis::Strong),
                plain(&*lint.message),
                plain(&*lint.remedy.sentence),
            ]);
            for step in lint.remedy.steps.iter().filter(|step| layout.wide && step.command().is_some()) {
                table.below(command("  ", step));
            }
        }
        table.add_to(&mut document);
        let count = |severity| self.problems.iter().filter(|lint| lint.severity == severity).count();
        let errors = count(Severity::Error);
        let warnings = count(Severity::Warning);
        let emphasis = match (errors, warnings) {
            (0, 0) => Emphasis::Good,
            (0, _) => Emphasis::Warning,
            _ => Emphasis::Bad,
        };
        document.blank();
        let numbers = format!(
            "{}, {} in {}.",
            number(errors, "error"),
            number(warnings, "warning"),
            number(self.services, "Service")
        );
        document.line([span(numbers, emphasis)]);
        document
    }
}

impl Diff {
    /// Returns the changes, each followed by a unified diff of the object.
    pub fn text(&self) -> Document {
        let mut document = Document::default();
        for change in &self.changes {
            let (sign, emphasis) = match change.verb {
                Verb::Create => ("+ create", Emphasis::Good),
                Verb::Update => ("~ update", Emphasis::Warning),
                Verb::Delete => ("- delete", Emphasis::Bad),
            };
            let object = format!(" {} {}", change.kind, change.object);
            document.line([span(sign, emphasis), span(object, Emphasis::Strong)]);
            for line in change.unified.lines() {
                let emphasis = match line {
                    line if line.starts_with("---") || line.starts_with("+++") => Emphasis::Strong,
                    line if line.starts_with('-') => Emphasis::Bad,
                    line if line.starts_with('+') => Emphasis::Good,
                    line if line.starts_with("@@") => Emphasis::Dim,
                    _ => Emphasis::None,
                };
                document.line([span(line, emphasis)]);
            }
        }
        if self.is_empty() {
            let (text, emphasis) = match self.not_read.is_empty() {
                true => ("Nothing would change.", Emphasis::Good),
                false => ("Nothing would change in what could be read.", Emphasis::Warning),
            };
            document.line([span(text, emphasis)]);
        }
        document
    }
}

impl Cleanup {
    /// Returns a table of the leftovers, and the results of cleaning them up.
    pub fn text(&self, layout: Layout) -> Document {
        let mut document = Document::default();
        let count =
            |wanted: &[Outcome]| self.items.iter().filter(|item| wanted.contains(&item.outcome)).count();
        for item in &self.items {
            let (word, emphasis) = match item.outcome {
                Outcome::Found => ("left over", Emphasis::Warning),
                Outcome::Deleted => ("deleted", Emphasis::Good),
                Outcome::Gone => ("gone", Emphasis::Good),
                Outcome::Kept => ("kept", Emphasis::None),
                Outcome::Unchecked => ("unchecked", Emphasis::Warning),
                Outcome::Failed => ("failed", Emphasis::Bad),
            };
            let object = format!("  {} {}", item.kind, item.object);
            document.line([span(format!("{word:9}"), emphasis), span(object, Emphasis::Strong)]);
            for text in [&item.reason, &item.message].into_iter().filter(|text| !text.is_empty()) {
                let lead = vec![plain(" ".repeat(11))];
                document.sentence(lead, &sentence(text), Emphasis::None, layout.columns);
            }
        }
        document.blank();
        let (found, deleted) = (count(&[Outcome::Found]), count(&[Outcome::Deleted, Outcome::Gone]));
        let (kept, unchecked) = (count(&[Outcome::Kept]), count(&[Outcome::Unchecked]));
        let (mut text, emphasis) = match (found, deleted, count(&[Outcome::Failed])) {
            (0, 0, 0) if unchecked > 0 => {
                ("Nothing that could be checked is left over.".to_owned(), Emphasis::Warning)
            }
            (0, 0, 0) => ("Nothing is left over.".to_owned(), Emphasis::Good),
            (0, deleted, 0) => (format!("{deleted} deleted."), Emphasis::Good),
            (0, deleted, failed) => (format!("{deleted} deleted, {failed} not deleted."), Emphasis::Bad),
            (found, ..) => (format!("{found} left over; --yes deletes them."), Emphasis::Warning),
        };
        for (count, what) in [(kept, "kept"), (unchecked, "could not be checked")] {
            if count > 0 {
                text.push_str(&format!(" {count} {what}."));
            }
        }
        document.line([span(text, emphasis)]);
        document
    }
}

/// Returns a table of rendered objects, one row for each.
pub fn rendered(all: &[Rendered]) -> Document {
    let mut document = Document::default();
    let mut table = Table::new(0, &["NAMESPACE", "SERVICE", "KIND", "TYPE", "PORTS", "ENDPOINTS", "READY"]);
    for one in all {
        let (namespace, name) = (&*one.object.namespace, &*one.object.name);
        for slice in &one.slices {
            let ready =
                slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false)).count();
            let ports: Vec<String> = slice.ports.iter().map(ToString::to_string).collect();
            table.row([
                plain(namespace),
                plain(name),
                plain("EndpointSlice"),
                plain(slice.address_type.as_str()),
                plain(ports.join(" ")),
                plain(slice.endpoints.len().to_string()),
                plain(ready.to_string()),
            ]);
        }
        for endpoints in &one.endpoints {
            let (ready, not_ready) = endpoints.subsets.counts();
            table.row([
                plain(namespace),
                plain(name),
                plain("Endpoints"),
                plain(""),
                plain(""),
                plain((ready + not_ready).to_string()),
                plain(ready.to_string()),
            ]);
        }
    }
    table.add_to(&mut document);
    let left_out = all.iter().flat_map(|one| one.verdicts.iter().map(move |verdict| (one, verdict)));
    for (one, verdict) in left_out {
        if let kube_endpoint_core_model::Verdict::LeftOut(reason) = &verdict.verdict {
            let message = format!("{}: pod {} is left out: {reason}", one.object, verdict.pod.name);
            document.line([span(sentence(&message), Emphasis::Warning)]);
        }
    }
    document
}

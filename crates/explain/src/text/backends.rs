//! Prints the explanation of an object that sends clients to Services.

use std::collections::BTreeSet;

use super::document::{Document, Emphasis, Layout, Span, plain, span};
use super::explanation::{near_services, numbered, sentence};
use super::table::Table;
use crate::answers::backends::{Backend, BackendsExplanation};
use crate::answers::explanation::Status;
use crate::facts::references::GATEWAY;
use crate::findings::Code;

/// The most backends and the most advice that are printed, unless the layout is wide.
const ITEMS: usize = 20;

impl BackendsExplanation {
    /// Returns the explanation as text.
    pub fn text(&self, layout: Layout) -> Document {
        let mut document = Document::default();
        let is_selected = !self.backends.is_empty() || !self.of.is_workload();
        let (word, emphasis) = match !is_selected {
            true => ("NOT SELECTED", Emphasis::Warning),
            false => (self.status.word(), self.status.emphasis()),
        };
        document.line([span(word, emphasis), plain("  "), span(self.of.to_string(), Emphasis::Strong)]);
        document.sentence(Vec::new(), &sentence(&self.message), Emphasis::None, layout.columns);
        for said in &self.reported {
            let of = if self.of.kind == GATEWAY { "status of " } else { "its status: " };
            let said = sentence(&format!("{of}{said}"));
            document.sentence(Vec::new(), &said, Emphasis::Dim, layout.columns);
        }
        let shown = if layout.wide { usize::MAX } else { ITEMS };
        if is_selected || self.idle.is_some() {
            document.heading("What to do");
        }
        if self.to_do.is_empty() && (is_selected || self.idle.is_some()) {
            let advice = match (&self.idle, self.status) {
                (Some(idle), _) => idle.advice(),
                (None, Status::Unknown) => "name files that have its Services, too".to_owned(),
                (None, _) => "nothing".to_owned(),
            };
            document.sentence(vec![plain("  ")], &sentence(&advice), Emphasis::None, layout.columns);
        }
        for (at, it) in self.to_do.iter().take(shown).enumerate() {
            let advice = &it.advice;
            let mut lead = numbered(Some(at), advice.code, advice.severity.emphasis());
            let indent: usize = lead.iter().map(|span| span.text.chars().count()).sum();
            let finding = match &it.service {
                Some(service) => sentence(&format!("{service}: {}", advice.message)),
                None => sentence(&advice.message),
            };
            document.sentence(lead, &finding, Emphasis::None, layout.columns);
            lead = vec![plain(" ".repeat(indent))];
            document.remedy(lead, &advice.remedy, Emphasis::None, layout.columns);
        }
        near_services(&mut document, "its pods", (&self.nearly, &self.not_selecting), layout);
        if self.backends.is_empty() {
            return document;
        }
        let services: BTreeSet<_> = self.backends.iter().map(|it| &it.service).collect();
        document.heading(format!("Services ({})", services.len()));
        let mut table = Table::new(2, &["CLIENTS", "SERVICE", "PORT", "STATUS", "BECAUSE"]);
        if !layout.wide {
            table = table.wrapped(layout.columns);
        }
        let is_in_full = self.of.is_workload() || self.of.kind == GATEWAY;
        let told = |backend: &Backend| -> Vec<Code> {
            let printed = self.to_do.iter().take(shown);
            printed
                .filter(|it| it.service.as_ref() == Some(&backend.service))
                .map(|it| it.advice.code)
                .collect()
        };
        for backend in self.backends.iter().take(shown) {
            table.row(row(backend, is_in_full, &told(backend)));
            let others = backend.routes.iter().skip(1).filter(|_| is_in_full).take(shown);
            others.for_each(|route| table.below(vec![plain(format!("  {route}"))]));
        }
        table.add_to(&mut document);
        document
    }
}

/// Returns the row of a backend. `told` are the codes of the printed advice. In full, others tell
/// the routes but the first.
fn row(backend: &Backend, is_in_full: bool, told: &[Code]) -> [Span; 5] {
    let verdict = &backend.verdict;
    let routes = match &*backend.routes {
        [first, rest @ ..] if !is_in_full && !rest.is_empty() => format!("{first} and {} more", rest.len()),
        all => all.first().cloned().unwrap_or_default(),
    };
    let because = match verdict.code {
        Code::Published => verdict.message.clone(),
        // The advice has the message.
        code if told.contains(&code) => code.to_string(),
        code => format!("{code} {}", verdict.message),
    };
    let port = backend.port.as_ref().map(ToString::to_string).unwrap_or_default();
    [
        plain(routes),
        plain(backend.service.to_string()),
        plain(port),
        span(verdict.status.word(), verdict.status.emphasis()),
        plain(because),
    ]
}

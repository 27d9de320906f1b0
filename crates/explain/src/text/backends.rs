//! Prints the explanation of an object that sends clients to Services.

use super::document::{Document, Emphasis, Layout, plain, span};
use super::explanation::{numbered, sentence};
use super::table::Table;
use crate::answers::backends::{Backend, BackendsExplanation};
use crate::findings::Code;

/// The most backends and the most advice that are printed, unless the layout is wide.
const ITEMS: usize = 20;

impl BackendsExplanation {
    /// Returns the explanation as text.
    pub fn text(&self, layout: Layout) -> Document {
        let mut document = Document::default();
        document.line([
            span(self.status.word(), self.status.emphasis()),
            plain("  "),
            span(self.of.to_string(), Emphasis::Strong),
        ]);
        document.sentence(Vec::new(), &sentence(&self.message), Emphasis::None, layout.columns);
        for said in &self.reported {
            let said = sentence(&format!("its status: {said}"));
            document.sentence(Vec::new(), &said, Emphasis::Dim, layout.columns);
        }
        let shown = if layout.wide { usize::MAX } else { ITEMS };
        document.heading("What to do");
        if self.to_do.is_empty() {
            document.line([plain("  Nothing.")]);
        }
        for (at, it) in self.to_do.iter().take(shown).enumerate() {
            let advice = &it.advice;
            let mut lead = numbered(Some(at), advice.code, advice.severity.emphasis());
            let indent: usize = lead.iter().map(|span| span.text.chars().count()).sum();
            let finding = sentence(&format!("{}: {}", it.service, advice.message));
            document.sentence(lead, &finding, Emphasis::None, layout.columns);
            lead = vec![plain(" ".repeat(indent))];
            document.remedy(lead, &advice.remedy, Emphasis::None, layout.columns);
        }
        document.heading(format!("Services ({})", self.backends.len()));
        let mut table = Table::new(2, &["CLIENTS", "SERVICE", "PORT", "STATUS", "BECAUSE"]);
        if !layout.wide {
            table = table.wrapped(layout.columns);
        }
        self.backends.iter().take(shown).for_each(|backend| table.row(row(backend)));
        table.add_to(&mut document);
        document
    }
}

fn row(backend: &Backend) -> [super::document::Span; 5] {
    let verdict = &backend.verdict;
    let routes = match &*backend.routes {
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        [] => String::new(),
    };
    let because = match verdict.code {
        Code::Published => verdict.message.clone(),
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

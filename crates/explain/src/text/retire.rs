//! Prints the report of `retire`.

use super::document::{Document, Emphasis, Layout, plain, span};
use super::explanation::number;
use super::table::Table;
use crate::answers::retire::{Evidence, EvidenceKind, Report, Source, Unseen, Verdict, seconds};

impl Verdict {
    fn word(self) -> (&'static str, Emphasis) {
        match self {
            Self::Refuse => ("refuse", Emphasis::Bad),
            Self::Unknown => ("unknown", Emphasis::Warning),
            Self::NoReaderSeen => ("no reader seen", Emphasis::Good),
        }
    }
}

impl EvidenceKind {
    fn word(self) -> (&'static str, Emphasis) {
        match self {
            Self::Reader => ("reader", Emphasis::Bad),
            Self::Refused => ("stays", Emphasis::Bad),
            Self::Writer => ("writer", Emphasis::Warning),
        }
    }
}

impl Source {
    fn word(self) -> &'static str {
        match self {
            Self::Server => "version",
            Self::Metrics => "metrics",
            Self::AuditLog => "audit log",
        }
    }
}

impl Report {
    /// Returns the text.
    pub fn text(&self, layout: Layout) -> Document {
        let mut document = Document::default();
        let (word, emphasis) = match self.exit_code() {
            0 => ("NO READER SEEN", Emphasis::Good),
            1 => ("REFUSE", Emphasis::Bad),
            _ => ("UNKNOWN", Emphasis::Warning),
        };
        let of = |verdict| self.namespaces.iter().filter(|of| of.verdict == verdict).count();
        let counts = [Verdict::Refuse, Verdict::Unknown, Verdict::NoReaderSeen]
            .map(|verdict| format!("{} {}", verdict.word().0, of(verdict)));
        let server = self.server.as_deref().unwrap_or("not known");
        let head = format!(
            "{}: {}. Server version {server}.",
            number(self.namespaces.len(), "namespace"),
            counts.join(", ")
        );
        document.sentence(vec![span(word, emphasis), plain("  ")], &head, Emphasis::None, layout.columns);
        let mut table = Table::new(2, &["NAMESPACE", "VERDICT"]);
        for of in &self.namespaces {
            let (word, emphasis) = of.verdict.word();
            table.row([span(&*of.namespace, Emphasis::Strong), span(word, emphasis)]);
        }
        if !self.namespaces.is_empty() {
            document.heading("Verdicts");
            table.add_to(&mut document);
        }
        add("All namespaces", &self.evidence, &mut document, layout);
        for of in &self.namespaces {
            add(&format!("Namespace {}", of.namespace), &of.evidence, &mut document, layout);
        }
        self.audit_log(&mut document, layout);
        self.not_seen(&mut document, layout);
        document
    }

    fn audit_log(&self, document: &mut Document, layout: Layout) {
        let Some(log) = &self.audit_log else { return };
        document.heading("Audit log");
        let verbs: Vec<&str> = log.verbs_of_endpoints.iter().map(String::as_str).collect();
        let verbs = if verbs.is_empty() { "none".to_owned() } else { verbs.join(", ") };
        let mut lines = vec![
            format!("{} events, from {} to {}.", log.events, seconds(log.from), seconds(log.to)),
            format!("Verbs of Endpoints that it shows: {verbs}."),
        ];
        if log.others > 0 {
            lines.push(format!("{} lines are JSON, but no audit event.", log.others));
        }
        for line in lines {
            document.sentence(vec![plain("  ")], &line, Emphasis::None, layout.columns);
        }
    }

    fn not_seen(&self, document: &mut Document, layout: Layout) {
        if !self.not_seen.is_empty() {
            document.heading("Could hide a reader");
        }
        for Unseen { what, remedy, .. } in &self.not_seen {
            document.sentence(vec![plain("  ")], &format!("{what}."), Emphasis::Warning, layout.columns);
            if let Some(remedy) = remedy {
                document.sentence(vec![plain("    ")], remedy, Emphasis::None, layout.columns);
            }
        }
    }
}

fn add(heading: &str, evidence: &[Evidence], document: &mut Document, layout: Layout) {
    if evidence.is_empty() {
        return;
    }
    document.heading(heading);
    let mut shown = evidence.iter().peekable();
    while let Some(piece) = shown.next() {
        let (word, emphasis) = piece.kind.word();
        let first = vec![plain("  "), span(format!("{word:<10}"), emphasis)];
        // Many begin with a name, which keeps its case.
        let from = format!("{} ({}).", piece.what, piece.source.word());
        document.sentence(first, &from, Emphasis::None, layout.columns);
        if let Some(requests) = &piece.requests {
            let period = format!("From {} to {}.", seconds(requests.first), seconds(requests.last));
            document.sentence(vec![plain(" ".repeat(12))], &period, Emphasis::Dim, layout.columns);
        }
        // The last of several pieces with one remedy shows it.
        let is_same =
            shown.peek().is_some_and(|next| (next.kind, &next.remedy) == (piece.kind, &piece.remedy));
        if let Some(remedy) = piece.remedy.as_deref().filter(|_| !is_same) {
            document.sentence(vec![plain(" ".repeat(12))], remedy, Emphasis::Strong, layout.columns);
        }
    }
}

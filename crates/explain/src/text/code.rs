//! Prints what a code means.

use super::document::{Document, Emphasis, Layout, plain, span};
use crate::findings::code::CodeExplanation;

impl CodeExplanation {
    /// Returns the explanation as text.
    pub fn text(&self, layout: Layout) -> Document {
        let Self { code, name, severity, title, text, page } = self;
        let mut document = Document::default();
        document.line([span(format!("# {code} {name}"), Emphasis::Strong)]);
        document.blank();
        let meaning = format!("Severity {severity}. {title}");
        document.sentence(Vec::new(), &meaning, Emphasis::None, layout.columns);
        document.blank();
        text.lines().for_each(|line| document.line([plain(line)]));
        document.blank();
        document.line([plain(page)]);
        document
    }
}

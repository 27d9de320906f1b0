//! Prints what a code means.

use super::document::{Document, Emphasis, Layout, plain, span};
use crate::findings::code::{CodeExample, CodeExplanation};

impl CodeExplanation {
    /// Returns the explanation as text.
    pub fn text(&self, layout: Layout) -> Document {
        let Self { code, name, severity, title, text, example, page } = self;
        let mut document = Document::default();
        document.line([span(format!("# {code} {name}"), Emphasis::Strong)]);
        document.blank();
        let meaning = format!("Severity {severity}. {title}");
        document.sentence(Vec::new(), &meaning, Emphasis::None, layout.columns);
        document.blank();
        text.lines().for_each(|line| document.line([plain(line)]));
        if let Some(CodeExample { manifest, about, message, remedy, commands }) = example {
            document.blank();
            for said in [
                format!("Example: {manifest}. {about}"),
                format!("Explained as: {message}."),
                format!("Remedy: {remedy}"),
            ] {
                document.sentence(Vec::new(), &said, Emphasis::None, layout.columns);
            }
            // A command is not wrapped, so that a user can copy it.
            commands.iter().for_each(|command| document.line([span(command, Emphasis::Strong)]));
        }
        document.blank();
        document.line([plain(page)]);
        document
    }
}

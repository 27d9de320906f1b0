//! Documents: lines of spans, and printing them.

use std::fmt::Write;

use kube_endpoint_core_model::harmless;

use super::explanation::sentence;
use crate::facts::remedy::{Remedy, Step};

/// The maximum number of characters of a cell or of a sentence. JSON and YAML have all of them.
const LONGEST_TEXT: usize = 1000;

/// The emphasis of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Emphasis {
    /// No emphasis.
    #[default]
    None,
    /// A heading, or a name.
    Strong,
    /// All is well.
    Good,
    /// Something deserves attention.
    Warning,
    /// Something is broken.
    Bad,
    /// Less important than the rest.
    Dim,
}

impl Emphasis {
    /// Returns the parameters of the ANSI sequence that begins it, or `None` for
    /// [`Emphasis::None`].
    fn ansi(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Strong => Some("1"),
            Self::Good => Some("32"),
            Self::Warning => Some("33"),
            Self::Bad => Some("1;31"),
            Self::Dim => Some("2"),
        }
    }
}

/// Selects text with or without colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// Plain text.
    #[default]
    Off,
    /// ANSI sequences.
    On,
}

/// Selects the columns of tables, and the width of sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// True if tables show all columns.
    pub wide: bool,
    /// The maximum width of sentences, in characters. Tables may be wider, except that of lint,
    /// which only a wide layout does not wrap.
    pub columns: usize,
}

impl Layout {
    /// For a terminal of 80 columns.
    pub const NARROW: Self = Self { wide: false, columns: 80 };
    /// All columns of tables, for a terminal of 160 columns.
    pub const WIDE: Self = Self { wide: true, columns: 160 };
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The text, without a line break.
    pub text: String,
    pub emphasis: Emphasis,
}

/// One line.
pub type Line = Vec<Span>;

/// Lines of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    lines: Vec<Line>,
}

/// Makes a span.
pub(crate) fn span(text: impl Into<String>, emphasis: Emphasis) -> Span {
    // Names and messages come from a cluster or from a file, so this escapes them.
    Span { text: harmless(&text.into(), LONGEST_TEXT).into_owned(), emphasis }
}

/// Makes a span that does not stand out.
pub(crate) fn plain(text: impl Into<String>) -> Span {
    span(text, Emphasis::None)
}

/// Makes a line of a command, which is never cut.
pub(crate) fn command(indent: &str, step: &Step) -> Line {
    let text = harmless(&step.to_string(), usize::MAX).into_owned();
    vec![plain(indent), Span { text, emphasis: Emphasis::Strong }]
}

impl Document {
    /// Returns the lines.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the text. Ends with a newline, unless it is empty.
    pub fn render(&self, colors: Colors) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let from = text.len();
            for Span { text: piece, emphasis } in line {
                match emphasis.ansi().filter(|_| colors == Colors::On && !piece.trim().is_empty()) {
                    // Writing to a String cannot fail.
                    Some(ansi) => drop(write!(text, "\u{1b}[{ansi}m{piece}\u{1b}[0m")),
                    None => text.push_str(piece),
                }
            }
            let kept = text.get(from..).map_or(0, |line| line.trim_end().len());
            text.truncate(from + kept);
            text.push('\n');
        }
        text
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: impl Into<Line>) {
        self.lines.push(line.into());
    }

    /// Adds a remedy after the given spans: the sentence, and below it each step that the sentence
    /// does not tell. A command has a line of its own and is neither wrapped nor cut, so that a
    /// user can copy it.
    pub(crate) fn remedy(&mut self, first: Line, remedy: &Remedy, emphasis: Emphasis, columns: usize) {
        let indent = " ".repeat(first.iter().map(|span| width(&span.text)).sum());
        self.sentence(first, &sentence(&remedy.sentence), emphasis, columns);
        for step in &remedy.steps {
            match step {
                Step::Ask { what, .. } if *what == remedy.sentence => {}
                Step::Ask { what, .. } => {
                    self.sentence(vec![plain(&*indent)], &sentence(what), emphasis, columns);
                }
                step => self.line(command(&indent, step)),
            }
        }
    }

    /// Adds an empty line, unless the document is empty.
    pub(crate) fn blank(&mut self) {
        if !self.lines.is_empty() {
            self.lines.push(Line::new());
        }
    }

    /// Adds a heading after an empty line.
    pub(crate) fn heading(&mut self, text: impl Into<String>) {
        self.blank();
        self.line([span(text, Emphasis::Strong)]);
    }

    /// Adds a sentence after the given spans, and wraps it so that its lines begin where the first
    /// does.
    pub(crate) fn sentence(&mut self, first: Line, text: &str, emphasis: Emphasis, columns: usize) {
        let indent: usize = first.iter().map(|span| width(&span.text)).sum();
        let room = columns.saturating_sub(indent).max(20);
        let mut begin = Some(first);
        // This escapes before it wraps, because escapes are longer; line ends become spaces in any
        // case.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in wrap(&harmless(&words, LONGEST_TEXT), room) {
            let mut line = begin.take().unwrap_or_else(|| vec![plain(" ".repeat(indent))]);
            line.push(span(part, emphasis));
            self.lines.push(line);
        }
        self.lines.extend(begin);
    }
}

/// Returns the number of characters, which is the number of columns for the texts of Kubernetes
/// objects.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text between words into lines of at most `columns` characters. A longer word has its
/// own line.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_below_their_beginning() {
        let mut document = Document::default();
        document.sentence(
            vec![plain("  1. ")],
            "one two three four five six seven-is-a-long-word-indeed eight",
            Emphasis::None,
            25,
        );
        insta::assert_snapshot!(document.render(Colors::Off), @r"
          1. one two three four
             five six
             seven-is-a-long-word-indeed
             eight
        ");
    }

    #[test]
    fn colours_are_ansi_sequences_around_spans() {
        let mut document = Document::default();
        document.line([span("bad", Emphasis::Bad), plain(" and "), span("good", Emphasis::Good)]);
        assert_eq!(document.render(Colors::Off), "bad and good\n");
        assert_eq!(document.render(Colors::On), "\u{1b}[1;31mbad\u{1b}[0m and \u{1b}[32mgood\u{1b}[0m\n");
    }

    #[test]
    fn control_characters_of_a_cluster_are_escaped_and_long_texts_are_cut() {
        let mut document = Document::default();
        document.line([plain("a\u{1b}[2Jb\nc\rd \u{202e}txt")]);
        document.sentence(vec![plain("  ")], "one\ntwo\u{9b}31m", Emphasis::None, 80);
        document.sentence(vec![plain("  ")], &"\u{1b}".repeat(250_000), Emphasis::None, 80);
        let text = document.render(Colors::On);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], [r"a\u{1b}[2Jb\nc\rd \u{202e}txt", r"  one two\u{9b}31m"]);
        assert!(text.len() < 10_000, "{}", text.len());
    }
}

//! Prints results: text, JSON or YAML.

use std::io::{IsTerminal, Write};

use anyhow::{Context, bail};
use kube_endpoint_core_model::{escaped, harmless, harmless_json, is_harmless};
use kube_endpoint_explain::API_VERSION;
use kube_endpoint_explain::text::{Colors, Document, Layout};
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::DoubleQuoted;

use crate::args::{Format, Global, When};

/// The maximum number of characters of a line on standard error.
const LONGEST_NOTE: usize = 4000;

/// The error of Windows for a pipe without a reader to which the standard library gives no kind.
const PIPE_NOT_CONNECTED: i32 = 233;

/// A document with its kind, as objects of Kubernetes have one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'v, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    value: &'v T,
}

/// The format of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) colors: Colors,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let wanted = match global.color {
            When::Always => true,
            When::Never => false,
            When::Auto => !no_color && std::io::stdout().is_terminal(),
        };
        let shown = wanted && (shows_colors() || global.color == When::Always);
        Self { format: global.output, colors: if shown { Colors::On } else { Colors::Off } }
    }

    /// Returns the layout of text: sentences are as wide as `$COLUMNS` says, or as is good to read
    /// and fits on the terminal.
    pub(crate) fn layout(self) -> Layout {
        let layout = if self.format == Format::Wide { Layout::WIDE } else { Layout::NARROW };
        let fits = terminal_columns().map_or(layout.columns, |columns| columns.min(layout.columns));
        Layout { columns: wanted_columns().unwrap_or(fits), ..layout }
    }

    /// Returns the layout of a table that is wrapped at the terminal's width, or at `$COLUMNS`. A
    /// program that reads the table gets each row in one line.
    pub(crate) fn layout_of_table(self) -> Layout {
        let columns = wanted_columns().or_else(terminal_columns).unwrap_or(usize::MAX);
        Layout { columns, ..self.layout() }
    }

    /// Returns an error if the format is one that only lint prints.
    pub(crate) fn check_format(self) -> anyhow::Result<()> {
        match self.format {
            Format::Sarif => bail!("only lint prints SARIF; choose table, wide, json or yaml"),
            _ => Ok(()),
        }
    }

    /// Prints a value of a kind of the plugin's own, as [`print`](Self::print) does.
    pub(crate) fn print_as(
        self,
        kind: &'static str,
        value: &impl Serialize,
        text: impl FnOnce(Layout) -> Document,
    ) -> anyhow::Result<()> {
        self.print(&Typed { api_version: API_VERSION, kind, value }, text)
    }

    /// Prints a value in the chosen format; `text` makes its text.
    pub(crate) fn print(
        self,
        value: &impl Serialize,
        text: impl FnOnce(Layout) -> Document,
    ) -> anyhow::Result<()> {
        self.check_format()?;
        let printed = match self.format {
            Format::Table | Format::Wide => text(self.layout()).render(self.colors),
            Format::Json => json(value)?,
            Format::Yaml | Format::Sarif => yaml(&serde_json::to_value(value)?)?,
        };
        print(&printed)
    }
}

/// Returns true if the terminal shows the codes of colours as colours. A console of Windows shows
/// them as text until a program asks for more, which this does.
#[cfg(windows)]
fn shows_colors() -> bool {
    ratatui::crossterm::ansi_support::supports_ansi()
}

#[cfg(not(windows))]
const fn shows_colors() -> bool {
    true
}

/// Returns the width that the user asks for.
fn wanted_columns() -> Option<usize> {
    std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok())
}

/// Returns the width of the terminal, if standard output is one that tells it.
fn terminal_columns() -> Option<usize> {
    let is_terminal = std::io::stdout().is_terminal();
    let (columns, _) = is_terminal.then(ratatui::crossterm::terminal::size)?.ok()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Returns a value as JSON. Its own escapes stand for characters that a terminal would obey.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(harmless_json(&serde_json::to_string_pretty(value)?).into_owned() + "\n")
}

/// Returns a value as YAML. Its own escapes stand for characters that a terminal would obey.
fn yaml(value: &Value) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(&Quoted(value))?;
    let shown = escaped(&text, |c, out| match c {
        '\n' => out.push(c),
        c if u32::from(c) < 0x1_0000 => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
    });
    Ok(shown.into_owned())
}

/// A value that quotes strings with double quotes if only these can escape a character.
struct Quoted<'v>(&'v Value);

/// A string of such a value.
struct QuotedText<'v>(&'v str);

impl Serialize for Quoted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) => QuotedText(text).serialize(serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Quoted)),
            Value::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (QuotedText(key), Quoted(value))))
            }
            other => other.serialize(serializer),
        }
    }
}

impl Serialize for QuotedText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.chars().all(|c| c == '\n' || is_harmless(c)) {
            true => serializer.serialize_str(self.0),
            false => DoubleQuoted(self.0).serialize(serializer),
        }
    }
}

/// Prints to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout();
    printed(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

/// Returns the result of printing a text. A reader that has gone, such as `head`, is no error.
pub(crate) fn printed(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) if cfg!(windows) && error.raw_os_error() == Some(PIPE_NOT_CONNECTED) => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Prints lines to standard error. They may quote a server or a file.
pub(crate) fn print_note(note: &str) {
    for line in note.lines() {
        // `eprintln!` would panic if writing to standard error fails.
        let _ = writeln!(std::io::stderr(), "{}", harmless(line, LONGEST_NOTE));
    }
}

//! Prints results: text, JSON or YAML.

use std::io::{IsTerminal, Write};

use anyhow::{Context, bail};
use kube_endpoint_explain::text::{Colors, Document, Layout};
use serde::Serialize;

use crate::args::{Format, Global, When};

/// How to print.
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
        Self { format: global.output, colors: if wanted { Colors::On } else { Colors::Off } }
    }

    /// Returns how wide text is.
    pub(crate) fn layout(self) -> Layout {
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let layout = if self.format == Format::Wide { Layout::WIDE } else { Layout::NARROW };
        Layout { columns: columns.unwrap_or(layout.columns), ..layout }
    }

    /// Returns an error if the format is one that only lint prints.
    pub(crate) fn check_format(self) -> anyhow::Result<()> {
        match self.format {
            Format::Sarif => bail!("only lint prints SARIF; choose table, wide, json or yaml"),
            _ => Ok(()),
        }
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
            Format::Json => serde_json::to_string_pretty(value)? + "\n",
            Format::Yaml | Format::Sarif => serde_saphyr::to_string(&serde_json::to_value(value)?)?,
        };
        print(&printed)
    }
}

/// Prints to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout();
    printed(output.write_all(text.as_bytes()).and_then(|()| output.flush()))
}

/// The result of a text that was printed. A reader that has gone, such as `head`, is no error.
pub(crate) fn printed(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Prints a line to standard error.
pub(crate) fn print_note(note: &str) {
    // `eprintln!` would panic if standard error cannot be written.
    let _ = writeln!(std::io::stderr(), "{note}");
}

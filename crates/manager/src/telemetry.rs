//! Writes the log to standard error.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use kube_endpoint_core_model::{harmless, harmless_json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{FormatFields, debug_fn};

use crate::LinePrinter;
use crate::line_printer::dropped_notice;
use crate::settings::LoggingFormat;

/// The most lines of the log that wait for standard error; about 2 MB.
const CAPACITY: usize = 10_000;

/// The most characters of a value in the log.
const LONGEST_VALUE: usize = 16_000;

/// Logs events of `level` and above to standard error. `RUST_LOG` overrides `level`. Only the first
/// call in a process has an effect.
///
/// A thread of its own writes the lines, so that no other thread waits for standard error. While
/// nobody reads the output, the [`LinePrinter`] drops and counts lines that do not fit. A line
/// whose write fails, as on a full disk, is lost. Call [`LinePrinter::flush`] or
/// [`LinePrinter::flush_blocking`] of the returned printer before the process exits.
///
/// # Errors
///
/// If the operating system refuses a thread or a file descriptor.
pub fn log_to_stderr(level: LevelFilter, format: LoggingFormat) -> std::io::Result<LinePrinter> {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.is_empty()) {
        Some(filter) => EnvFilter::builder().with_default_directive(level.into()).parse_lossy(filter),
        // The callers of the client log failed requests, and what they do about them.
        None if level <= LevelFilter::INFO => EnvFilter::new(format!("{level},kube_client=off")),
        None => EnvFilter::new(level.to_string()),
    };
    // A write to `std::io::stderr()` that blocks would hold its lock.
    let stderr = std::fs::File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let notice = match format {
        LoggingFormat::Text => dropped_notice,
        LoggingFormat::Json => json_notice,
    };
    let printer = LinePrinter::with(stderr, CAPACITY, notice)?;
    // By default tracing-subscriber reports internal errors with `eprintln!`, which panics if the
    // write to standard error fails.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines { printer: printer.clone(), format })
        .log_internal_errors(false);
    let _ = match format {
        LoggingFormat::Text => {
            builder.with_ansi(std::io::stderr().is_terminal()).fmt_fields(fields()).try_init()
        }
        LoggingFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(printer)
}

fn json_notice(lines: usize) -> String {
    serde_json::json!({"level": "WARN", "message": dropped_notice(lines)}).to_string()
}

/// Makes a writer for each event.
struct Lines {
    printer: LinePrinter,
    format: LoggingFormat,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = EventWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        EventWriter { text: Vec::new(), lines: self }
    }
}

/// Collects the text of one event. Dropping it prints the text.
struct EventWriter<'a> {
    text: Vec<u8>,
    lines: &'a Lines,
}

impl Write for EventWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for EventWriter<'_> {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        if text.is_empty() {
            return;
        }
        let line = text.strip_suffix('\n').unwrap_or(&text);
        self.lines.printer.print(match self.lines.format {
            // The values are already harmless, and the escape sequences are the formatter's
            // colours.
            LoggingFormat::Text => line.to_owned(),
            LoggingFormat::Json => harmless_json(line).into_owned(),
        });
    }
}

/// Formats the fields of events and spans like tracing-subscriber, but escapes all values. Its own
/// formatter lets the escape sequences and line ends of some values through.
fn fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    debug_fn(|writer, field, value| {
        let text = format!("{value:?}");
        let shown = harmless(&text, LONGEST_VALUE);
        match field.name() {
            "message" => write!(writer, "{shown}"),
            name if writer.has_ansi_escapes() => {
                write!(writer, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{shown}")
            }
            name => write!(writer, "{name}={shown}"),
        }
    })
    .delimited(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_event_is_one_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let printer = LinePrinter::with(file.reopen().unwrap(), CAPACITY, json_notice).unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(Lines { printer: printer.clone(), format: LoggingFormat::Text })
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .fmt_fields(fields())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(seed = 5, "starting");
            tracing::warn!("two\nlines");
        });
        printer.flush_blocking(Duration::from_secs(60));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, " INFO starting seed=5\n WARN two\\nlines\n");
    }

    /// Returns the lines of a log in which each kind of value is hostile.
    fn hostile_lines(format: LoggingFormat, ansi: bool) -> String {
        const HOSTILE: &str = "\u{1b}[2J\u{1b}[31m\u{9b}1m\u{202e}\u{200b}\u{7f}\r\nERROR forged";
        let file = tempfile::NamedTempFile::new().unwrap();
        let printer = LinePrinter::with(file.reopen().unwrap(), CAPACITY, json_notice).unwrap();
        let builder = tracing_subscriber::fmt()
            .with_writer(Lines { printer: printer.clone(), format })
            .log_internal_errors(false);
        let log = || {
            let error = std::io::Error::other(HOSTILE);
            tracing::info_span!("sync", key = %HOSTILE).in_scope(|| {
                tracing::warn!(text = HOSTILE, shown = %HOSTILE, debugged = ?HOSTILE, %error, cause = &error as &dyn std::error::Error, "{HOSTILE}");
            });
        };
        match format {
            LoggingFormat::Text => {
                tracing::subscriber::with_default(builder.with_ansi(ansi).fmt_fields(fields()).finish(), log);
            }
            LoggingFormat::Json => {
                tracing::subscriber::with_default(builder.json().flatten_event(true).finish(), log);
            }
        }
        printer.flush_blocking(Duration::from_secs(60));
        std::fs::read_to_string(file.path()).unwrap()
    }

    #[test]
    fn hostile_values_change_no_terminal_and_begin_no_line() {
        let plain = hostile_lines(LoggingFormat::Text, false);
        let json = hostile_lines(LoggingFormat::Json, false);
        for text in [&plain, &json] {
            let line = text.strip_suffix('\n').unwrap();
            assert!(line.chars().all(kube_endpoint_core_model::is_harmless), "{line:?}");
            assert!(line.contains("forged"), "{line}");
        }
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["shown"].as_str().map(|text| text.contains("forged")), Some(true), "{json}");
        // Only the formatter's own colours are left.
        let coloured = hostile_lines(LoggingFormat::Text, true);
        let without_colours: String = coloured
            .split("\u{1b}[")
            .enumerate()
            .map(|(at, piece)| if at == 0 { piece } else { piece.split_once('m').unwrap().1 })
            .collect();
        assert_eq!(coloured.lines().count(), 1, "{coloured:?}");
        assert!(
            without_colours.trim_end().chars().all(kube_endpoint_core_model::is_harmless),
            "{coloured:?}"
        );
        assert!(!coloured.contains("\u{1b}[31m"), "{coloured:?}");
    }

    #[test]
    fn the_notice_of_a_json_log_is_json() {
        insta::assert_snapshot!(json_notice(7), @r#"{"level":"WARN","message":"7 lines were dropped: this output was not read in time"}"#);
    }
}

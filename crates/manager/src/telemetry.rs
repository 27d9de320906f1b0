//! Log output.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::LinePrinter;
use crate::line_printer::dropped_notice;
use crate::settings::LoggingFormat;

/// The lines of the log that wait for standard error; about 2 MB.
const CAPACITY: usize = 10_000;

/// Logs events of `level` and above to standard error. `RUST_LOG` overrides `level`. Only the first call in a process has
/// an effect.
///
/// A thread of its own writes the lines, so that no other thread waits for standard error: lines that do not fit while
/// nobody reads it are dropped and counted ([`LinePrinter`]), and a line that cannot be written, as on a full disk, is lost.
/// Call [`LinePrinter::flush`] or [`LinePrinter::flush_blocking`] of the returned printer before the process exits.
///
/// # Errors
///
/// When the operating system refuses a thread or a file descriptor.
pub fn log_to_stderr(level: LevelFilter, format: LoggingFormat) -> std::io::Result<LinePrinter> {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.is_empty()) {
        Some(filter) => EnvFilter::builder().with_default_directive(level.into()).parse_lossy(filter),
        // The callers of the client report failed requests, together with what they do about them.
        None if level <= LevelFilter::INFO => EnvFilter::new(format!("{level},kube_client=off")),
        None => EnvFilter::new(level.to_string()),
    };
    // Not `std::io::stderr()`, whose lock would be held while a write blocks.
    let stderr = std::fs::File::from(std::io::stderr().as_fd().try_clone_to_owned()?);
    let notice = match format {
        LoggingFormat::Text => dropped_notice,
        LoggingFormat::Json => json_notice,
    };
    let printer = LinePrinter::with(stderr, CAPACITY, notice)?;
    // By default tracing-subscriber reports internal errors with `eprintln!`, which panics when standard error cannot be
    // written.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Lines(printer.clone()))
        .log_internal_errors(false);
    let _ = match format {
        LoggingFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LoggingFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(printer)
}

fn json_notice(lines: usize) -> String {
    serde_json::json!({"level": "WARN", "message": dropped_notice(lines)}).to_string()
}

/// Makes a writer for each event.
struct Lines(LinePrinter);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = EventWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        EventWriter { text: Vec::new(), printer: &self.0 }
    }
}

/// Collects the text of one event, and prints it when dropped.
struct EventWriter<'a> {
    text: Vec<u8>,
    printer: &'a LinePrinter,
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
        if !text.is_empty() {
            self.printer.print(text.strip_suffix('\n').unwrap_or(&text).to_owned());
        }
    }
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
            .with_writer(Lines(printer.clone()))
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(seed = 5, "starting");
            tracing::warn!("two\nlines");
        });
        printer.flush_blocking(Duration::from_secs(60));
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, " INFO starting seed=5\n WARN two\nlines\n");
    }

    #[test]
    fn the_notice_of_a_json_log_is_json() {
        insta::assert_snapshot!(json_notice(7), @r#"{"level":"WARN","message":"7 lines were dropped: this output was not read in time"}"#);
    }
}

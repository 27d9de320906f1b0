//! Log output.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::settings::LoggingFormat;

/// Logs events of `level` and above to standard error. `RUST_LOG` overrides `level`. Only the first call in a process has
/// an effect.
pub fn log_to_stderr(level: LevelFilter, format: LoggingFormat) {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.is_empty()) {
        Some(filter) => EnvFilter::builder().with_default_directive(level.into()).parse_lossy(filter),
        // The callers of the client report failed requests, together with what they do about them.
        None if level <= LevelFilter::INFO => EnvFilter::new(format!("{level},kube_client=off")),
        None => EnvFilter::new(level.to_string()),
    };
    // A failed write, as on a full disk, loses its line. By default tracing-subscriber reports it with `eprintln!`, which
    // panics when standard error cannot be written.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    let _ = match format {
        LoggingFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LoggingFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

//! Logs.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Logs to standard error what is of a level or above; `RUST_LOG` goes before. May be called once in a process; later
/// calls change nothing.
pub fn log_to_stderr(level: LevelFilter) {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.is_empty()) {
        Some(filter) => EnvFilter::builder().with_default_directive(level.into()).parse_lossy(filter),
        // What fails is told by those who asked for it, who also say what they do about it.
        None if level <= LevelFilter::INFO => EnvFilter::new(format!("{level},kube_client=off")),
        None => EnvFilter::new(level.to_string()),
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

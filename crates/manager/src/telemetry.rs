//! Logs.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Logs to standard error; `RUST_LOG` goes before the verbosity, which counts as kube-controller-manager's does. May be
/// called once in a process; later calls change nothing.
pub fn log_to_stderr(verbosity: u8) {
    let level = match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

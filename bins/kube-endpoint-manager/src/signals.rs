//! The signals that end the process.

use tokio::signal::unix::{SignalKind, signal};

/// Returns a future that completes on SIGTERM or SIGINT.
///
/// # Errors
///
/// When the signal handlers cannot be installed.
pub(crate) fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

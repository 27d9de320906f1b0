//! Being told to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Is ready once the process is told to stop: SIGTERM, or SIGINT from a terminal.
///
/// # Errors
///
/// When the system takes no handlers.
pub(crate) fn told_to_stop() -> std::io::Result<impl Future<Output = ()>> {
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

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

/// Exits the process with code 1 when it still runs this long after SIGTERM or SIGINT. This has a thread and a runtime of
/// its own, because all threads of the program's runtime may be blocked by an output that nobody reads.
///
/// # Errors
///
/// When the operating system refuses a thread, or the signal handlers cannot be installed.
#[cfg(feature = "embedded")]
pub(crate) fn exit_after_signal(timeout: std::time::Duration) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signal = {
        let _context = runtime.enter();
        shutdown_signal()?
    };
    let exit = async move {
        signal.await;
        tokio::time::sleep(timeout).await;
        std::process::exit(1);
    };
    std::thread::Builder::new().name("exit-after-signal".to_owned()).spawn(move || runtime.block_on(exit))?;
    Ok(())
}

//! The signals that end the process.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, timeout_at};

/// How long after the first signal further ones count as the same request. timeout(1) and some init
/// processes of containers send a signal to the process and to its process group, so that it
/// arrives twice.
const SAME_REQUEST: Duration = Duration::from_millis(100);

/// SIGTERM and SIGINT.
struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    /// Starts to listen for signals.
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Returns a future that completes on SIGTERM or SIGINT.
///
/// # Errors
///
/// The operating system's error, if it refuses the signal handlers.
pub(crate) fn shutdown_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut signals = ShutdownSignals::new()?;
    Ok(async move { signals.next().await })
}

/// Exits the process with code 1 on a second SIGTERM or SIGINT, or `limit` after the first one if
/// it is given. It ignores signals within [`SAME_REQUEST`] of the first one. This has a thread and
/// a runtime of its own, because all threads of the program's runtime may be blocked by an output
/// that nobody reads.
///
/// # Errors
///
/// The operating system's error, if it refuses a thread or the signal handlers.
pub(crate) fn exit_on_second_signal(limit: Option<Duration>) -> std::io::Result<()> {
    let (started, starts) = sync_channel(1);
    let thread = std::thread::Builder::new().name("exit-on-signal".to_owned());
    // The thread makes the runtime. If this function made it and the system refused the thread,
    // this would drop the runtime within the program's runtime, which panics.
    thread.spawn(move || match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(exit_on_signals(limit, &started)),
        Err(error) => drop(started.send(Err(error))),
    })?;
    // The wait takes less than a millisecond.
    starts.recv().unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// Tells `started` once it waits for signals.
async fn exit_on_signals(limit: Option<Duration>, started: &SyncSender<std::io::Result<()>>) {
    let mut signals = match ShutdownSignals::new() {
        Ok(signals) => signals,
        Err(error) => return drop(started.send(Err(error))),
    };
    if started.send(Ok(())).is_err() {
        return;
    }
    signals.next().await;
    let first = Instant::now();
    while timeout_at(first + SAME_REQUEST, signals.next()).await.is_ok() {}
    match limit {
        Some(limit) => {
            let _ = timeout_at(first + limit, signals.next()).await;
        }
        None => signals.next().await,
    }
    std::process::exit(1);
}

//! The signals that end a run.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::ConformanceError;

/// Ctrl-C and SIGTERM. From [`Signals::listen`] on they no longer end the process by themselves.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Self, ConformanceError> {
        let listen = || -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        };
        listen().map_err(|error| ConformanceError::NotStarted {
            what: "the handlers of Ctrl-C and SIGTERM",
            reason: error.to_string(),
        })
    }

    /// Waits for the next signal, which may have come since the last one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

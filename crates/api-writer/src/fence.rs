//! The write fence lets writes begin, says until when they must have ended, and counts those in
//! flight: of all kinds, and of events.
//!
//! With leader election, all writers of a process share one fence. It is open while the process
//! holds the lease. A process that was stopped and continued may still believe that it holds a
//! lease that another process took meanwhile, so the fence compares its time limit with the clock
//! before each write is begun, and each time that a write makes progress.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use kube_endpoint_watch_channel as watch;
use tokio::time::{Instant, sleep_until};

use crate::error::WriteError;

/// Lets writes through while it is open. Clones share it. The default is open without a time limit.
#[derive(Clone, Debug)]
pub struct WriteFence {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    gate: watch::Sender<Gate>,
    in_flight: watch::Sender<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Gate {
    is_open: bool,
    until: Option<Instant>,
}

impl Gate {
    fn is_past(self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn admits(self) -> bool {
        self.is_open && !self.is_past()
    }
}

impl Default for WriteFence {
    fn default() -> Self {
        Self::with(Gate { is_open: true, until: None })
    }
}

impl WriteFence {
    /// A fence that is closed until [`Self::open`] is called.
    pub fn closed() -> Self {
        Self::with(Gate { is_open: false, until: None })
    }

    fn with(gate: Gate) -> Self {
        let inner = Inner { gate: watch::Sender::new(gate), in_flight: watch::Sender::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// Opens the fence, or moves the time limit of an open one. No write is begun at `until` or
    /// later, and a write that has no answer by then is abandoned. `None` means that there is no
    /// limit.
    pub fn open(&self, until: Option<Instant>) {
        self.inner.gate.send_replace(Gate { is_open: true, until });
    }

    /// Closes the fence: no write is begun any more. Writes that were sent before may still be
    /// answered, until the time limit.
    pub fn close(&self) {
        self.inner.gate.send_modify(|gate| gate.is_open = false);
    }

    /// Returns true if a write would be let through now.
    pub fn is_open(&self) -> bool {
        self.inner.gate.borrow().admits()
    }

    /// Waits until a write would be let through.
    pub async fn opened(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.inner.gate.subscribe().wait_for(|gate| gate.admits()).await;
    }

    /// Waits until no write is in flight. Close the fence before.
    pub async fn drained(&self) {
        let _ = self.inner.in_flight.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Waits for `ready`, then lets a write begin. Returns the permit, which the writer must hold
    /// until the write is over, with the output of `ready`.
    ///
    /// # Errors
    ///
    /// [`WriteError::Fenced`] as soon as the fence is closed or past its time limit.
    pub(crate) async fn begin<T>(&self, ready: impl Future<Output = T>) -> Result<(Permit, T), WriteError> {
        let ready = {
            let mut gate = self.inner.gate.subscribe();
            let closed = gate.wait_for(|gate| !gate.is_open);
            tokio::select! {
                biased;
                _ = closed => return Err(WriteError::Fenced),
                () = self.expired() => return Err(WriteError::Fenced),
                ready = ready => ready,
            }
        };
        // It is counted before the gate is read, so that `drained` waits for each write that was
        // let through before the fence was closed.
        self.inner.in_flight.send_modify(|count| *count += 1);
        let permit = Permit(self.clone());
        if self.inner.gate.borrow().admits() { Ok((permit, ready)) } else { Err(WriteError::Fenced) }
    }

    /// Runs the request of a write. Returns `None` if it has no answer when the time limit is
    /// reached. The clock is read before the request makes any progress.
    pub(crate) async fn within_limit<T>(&self, request: impl Future<Output = T>) -> Option<T> {
        let past =
            poll_fn(|_| if self.inner.gate.borrow().is_past() { Poll::Ready(()) } else { Poll::Pending });
        tokio::select! {
            biased;
            () = past => None,
            // This one wakes the task in time.
            () = self.expired() => None,
            answer = request => Some(answer),
        }
    }

    /// Waits until the time limit is reached, which may be moved meanwhile.
    async fn expired(&self) {
        let mut gate = self.inner.gate.subscribe();
        loop {
            let seen = *gate.borrow_and_update();
            if seen.is_past() {
                return;
            }
            let Some(until) = seen.until else {
                let _ = gate.changed().await;
                continue;
            };
            tokio::select! {
                biased;
                _ = gate.changed() => {}
                () = sleep_until(until) => {}
            }
        }
    }
}

/// A write that was let through and is not over.
#[derive(Debug)]
pub(crate) struct Permit(WriteFence);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.inner.in_flight.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests;

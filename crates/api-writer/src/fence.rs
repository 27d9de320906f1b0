//! The write fence: whether writes may be begun, until when they must have ended, and what the last
//! ones were.
//!
//! With leader election, all writers of a process share one fence. It is open while the process
//! holds the lease. A process that was stopped and continued may still believe that it holds a
//! lease that another process took meanwhile, so the fence compares its time limit with the clock
//! before each write is begun, and each time that a write makes progress.

mod last_writes;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use kube_endpoint_core_model::ResourceVersion;
use kube_endpoint_watch_channel as watch;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

pub use last_writes::LastWrites;
use last_writes::Recorder;

use crate::error::WriteError;

/// Lets writes through while it is open. Clones share it. The default is open without a time limit.
#[derive(Clone, Debug)]
pub struct WriteFence {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    gate: watch::Sender<Gate>,
    recorder: Mutex<Recorder>,
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
        let inner = Inner {
            gate: watch::Sender::new(gate),
            recorder: Mutex::default(),
            in_flight: watch::Sender::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Opens the fence, or moves the time limit of an open one. No write is begun at `until` or
    /// later, and a write that has no answer by then is abandoned. None means that there is no
    /// limit.
    pub fn open(&self, until: Option<Instant>) {
        self.inner.gate.send_replace(Gate { is_open: true, until });
    }

    /// Closes the fence: no write is begun any more. Writes that were sent before may still be
    /// answered, until the time limit.
    pub fn close(&self) {
        // Under the lock with which a write is begun, so that `drained` sees each write that was
        // let through.
        let _recorder = self.inner.recorder.lock();
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

    /// For each kind, the newest version that a write is known to have made; see [`LastWrites`].
    pub fn last_writes(&self) -> LastWrites {
        self.inner.recorder.lock().last_writes()
    }

    /// Sets what another process wrote of a kind before this one: the version of its last write, or
    /// none if it is not known. [`Self::last_writes`] then has that version until this process has
    /// written the kind.
    pub fn continue_from(&self, kind: &'static str, version: Option<ResourceVersion>) {
        self.inner.recorder.lock().continue_from(kind, version, Instant::now());
    }

    /// Waits for `ready`, then begins a write and returns it with the output of `ready`. `kind` is
    /// the plural name of the kind that is written; none if nobody needs to know the version of the
    /// write.
    ///
    /// # Errors
    ///
    /// [`WriteError::Fenced`] as soon as the fence is closed or past its time limit.
    pub(crate) async fn begin<T>(
        &self,
        kind: Option<&'static str>,
        ready: impl Future<Output = T>,
    ) -> Result<(WriteInFlight, T), WriteError> {
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
        let mut recorder = self.inner.recorder.lock();
        if !self.inner.gate.borrow().admits() {
            return Err(WriteError::Fenced);
        }
        let sequence = recorder.begin(kind);
        self.inner.in_flight.send_modify(|count| *count += 1);
        let (begun_at, result) = (Instant::now(), WriteResult::Unknown);
        let write = WriteInFlight { fence: self.clone(), kind, sequence, begun_at, result };
        Ok((write, ready))
    }

    /// Runs the request of a write. Returns none if it has no answer when the time limit is
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

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteResult {
    /// There was no answer that says.
    Unknown,
    /// It was refused, so nothing was written.
    Refused,
    /// It was carried out, and the answer has no version.
    WithoutVersion,
    /// It was carried out and made this version.
    Version(ResourceVersion),
}

/// A write that was begun. If it is dropped without a result, its outcome is unknown.
#[derive(Debug)]
pub(crate) struct WriteInFlight {
    fence: WriteFence,
    kind: Option<&'static str>,
    sequence: u64,
    begun_at: Instant,
    result: WriteResult,
}

impl WriteInFlight {
    /// The write made this version.
    pub(crate) fn wrote(mut self, version: ResourceVersion) {
        self.result = WriteResult::Version(version);
    }

    /// The write was carried out, and the answer has no version.
    pub(crate) fn wrote_without_version(mut self) {
        self.result = WriteResult::WithoutVersion;
    }

    /// The write failed.
    pub(crate) fn failed(mut self, error: &WriteError) {
        if error.is_refusal() {
            self.result = WriteResult::Refused;
        }
    }
}

impl Drop for WriteInFlight {
    fn drop(&mut self) {
        let inner = &self.fence.inner;
        if let Some(kind) = self.kind {
            inner.recorder.lock().end(kind, self.sequence, self.begun_at, self.result);
        }
        inner.in_flight.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests;

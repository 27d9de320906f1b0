//! A channel with one sender and many receivers that keeps only the latest value, for programs
//! whose runs must repeat.
//!
//! ```
//! use kube_endpoint_watch_channel::{Closed, channel};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let (sender, mut receiver) = channel("starting");
//!     sender.send_replace("ready");
//!     assert_eq!(receiver.changed().await, Ok(()));
//!     assert_eq!(*receiver.borrow(), "ready");
//!     drop(sender);
//!     assert_eq!(receiver.changed().await, Err(Closed));
//! }
//! ```
//!
//! The interface is that of [`tokio::sync::watch`]. The difference: tokio wakes the receivers that
//! wait for a change in random order, so that two runs of one program differ. This channel wakes
//! them in the order in which they began to wait.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use tokio::sync::Notify;
use tokio::task::coop::cooperative;

/// Sets the value. When it is dropped, receivers get [`Closed`].
pub struct Sender<T>(Arc<Shared<T>>);

/// Reads the value and waits for changes. A clone has seen what the original has seen.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version of the last value that this receiver has seen.
    seen: u64,
}

/// A reference to the value. A sender waits until it is dropped, so do not hold it for long.
pub struct Ref<'a, T>(MappedRwLockReadGuard<'a, T>);

/// The sender was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

struct Shared<T> {
    state: RwLock<State<T>>,
    /// Notified after each change of the state. It wakes its waiters in the order in which they
    /// came.
    changed: Notify,
}

struct State<T> {
    value: T,
    /// Grows with each change.
    version: u64,
    is_closed: bool,
}

/// Creates a channel with an initial value, which counts as seen by the receiver.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    /// Creates a channel without receivers; see [`Self::subscribe`].
    pub fn new(value: T) -> Self {
        let state = RwLock::new(State { value, version: 0, is_closed: false });
        Self(Arc::new(Shared { state, changed: Notify::new() }))
    }

    /// Returns a receiver that has seen the current value.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = self.0.state.read().version;
        Receiver { shared: Arc::clone(&self.0), seen }
    }

    /// Returns the current value.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.borrow()
    }

    /// Sets the value, notifies the receivers, and returns the value before.
    pub fn send_replace(&self, value: T) -> T {
        let mut before = value;
        self.send_modify(|current| std::mem::swap(current, &mut before));
        before
    }

    /// Changes the value and notifies the receivers.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value. Notifies the receivers if `modify` returns true, and returns what it
    /// returned.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut state = self.0.state.write();
            if !modify(&mut state.value) {
                return false;
            }
            state.version += 1;
        }
        self.0.changed.notify_waiters();
        true
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.state.write().is_closed = true;
        self.0.changed.notify_waiters();
    }
}

impl<T> Receiver<T> {
    /// Returns the current value. It does not count as seen.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.borrow()
    }

    /// Returns the current value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.state.read();
        self.seen = state.version;
        value(state)
    }

    /// Counts the current value as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.state.read().version;
    }

    /// Waits until there is a value that this receiver has not seen, and counts it as seen.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the sender was dropped and its last value has been seen.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        cooperative(self.next_change()).await
    }

    async fn next_change(&mut self) -> Result<(), Closed> {
        loop {
            // Made before the state is read, so that no change in between is missed.
            let notified = self.shared.changed.notified();
            {
                let state = self.shared.state.read();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.is_closed {
                    return Err(Closed);
                }
            }
            notified.await;
        }
    }

    /// Waits for a value for which `matches` returns true, and returns it. The values that
    /// `matches` got count as seen.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Closed`] if the sender was dropped and its last value does not match.
    pub async fn wait_for(&mut self, matches: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        cooperative(self.next_match(matches)).await
    }

    async fn next_match(&mut self, mut matches: impl FnMut(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        loop {
            let notified = self.shared.changed.notified();
            {
                let state = self.shared.state.read();
                self.seen = state.version;
                if matches(&state.value) {
                    return Ok(value(state));
                }
                if state.is_closed {
                    return Err(Closed);
                }
            }
            notified.await;
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Shared<T> {
    fn borrow(&self) -> Ref<'_, T> {
        value(self.state.read())
    }
}

fn value<T>(state: RwLockReadGuard<'_, State<T>>) -> Ref<'_, T> {
    Ref(RwLockReadGuard::map(state, |state| &state.value))
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("value", &self.borrow()).finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("value", &self.borrow()).finish_non_exhaustive()
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sender was dropped")
    }
}

impl std::error::Error for Closed {}

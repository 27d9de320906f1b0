//! Ends the pauses between the [reads of frequent events](crate::batches).

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::batches::PAUSE;

/// With so many hurries within a second, of whatever objects, pauses cost more than they save.
/// Usually one object changes so often that most of its syncs wait for an event.
pub(crate) const MANY_HURRIES: u32 = 8;
const SECOND: Duration = Duration::from_secs(1);
/// After [`MANY_HURRIES`], no pause begins for so long.
pub(crate) const NO_PAUSES: Duration = Duration::from_secs(10);

/// Ends the pauses of a client's connections. Clients that are clones of each other share it.
#[derive(Debug, Default)]
pub(crate) struct Hurry(Mutex<Hurries>);

#[derive(Debug, Default)]
struct Hurries {
    /// The last call, for tests.
    last: Option<Instant>,
    /// No pause begins until then.
    until: Option<Instant>,
    /// When the hurries of this second were first counted, and how many there were. Calls during a
    /// hurry are not counted.
    counted: Option<(Instant, u32)>,
    /// Of connections that are open, and perhaps of closed ones.
    wakers: Vec<Weak<AtomicWaker>>,
}

impl Hurry {
    /// What has arrived is read now, and what arrives within the next [`PAUSE`] is read at once.
    pub(crate) fn hurry(&self) {
        let wakers = {
            let mut hurries = self.0.lock();
            hurries.begin(Instant::now());
            hurries.wakers.retain(|waker| waker.strong_count() > 0);
            hurries.wakers.clone()
        };
        for waker in wakers.iter().filter_map(Weak::upgrade) {
            waker.wake();
        }
    }

    /// When [`Self::hurry`] was called last.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.0.lock().last
    }

    /// Returns true if what arrives has to be read at once.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.0.lock().until.is_some_and(|until| now < until)
    }

    /// A waker that [`Self::hurry`] wakes while it exists.
    pub(crate) fn waker(&self) -> Arc<AtomicWaker> {
        let waker = Arc::default();
        let mut hurries = self.0.lock();
        hurries.wakers.retain(|waker| waker.strong_count() > 0);
        hurries.wakers.push(Arc::downgrade(&waker));
        waker
    }
}

impl Hurries {
    fn begin(&mut self, now: Instant) {
        self.last = Some(now);
        let (is_on, mut length) = (self.until.is_some_and(|until| now < until), PAUSE);
        if !is_on {
            let (since, count) = self.counted.unwrap_or((now, 0));
            let (since, count) = if now < since + SECOND { (since, count + 1) } else { (now, 1) };
            self.counted = Some((since, count));
            if count >= MANY_HURRIES {
                length = NO_PAUSES;
            }
        }
        self.until = self.until.max(Some(now + length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batches::Batches;

    #[tokio::test]
    async fn closed_connections_leave_no_wakers() {
        let hurry = Arc::<Hurry>::default();
        let open = Batches::new(hurry.clone());
        for _ in 0..10 {
            Batches::new(hurry.clone());
        }
        assert_eq!(hurry.0.lock().wakers.len(), 2);
        hurry.hurry();
        assert_eq!(hurry.0.lock().wakers.len(), 1);
        drop(open);
    }
}

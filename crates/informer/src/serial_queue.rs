//! Work that must be done in order, one piece at a time, without a lock held meanwhile.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// A queue whose pieces are worked off by whoever puts one in while nobody is at work. Who finds somebody at work leaves
/// his piece there and goes. So nobody ever waits, the lock covers only the queue, and the worker is the only writer of
/// what it works on.
#[derive(Debug)]
pub(crate) struct SerialQueue<W> {
    queue: Mutex<Queue<W>>,
}

#[derive(Debug)]
struct Queue<W> {
    waiting: VecDeque<W>,
    busy: bool,
}

impl<W> Default for SerialQueue<W> {
    fn default() -> Self {
        Self { queue: Mutex::new(Queue { waiting: VecDeque::new(), busy: false }) }
    }
}

/// Leaves the queue open for others if the work panics.
struct AtWork<'a, W>(&'a SerialQueue<W>);

impl<W> Drop for AtWork<'_, W> {
    fn drop(&mut self) {
        self.0.queue.lock().busy = false;
    }
}

impl<W> SerialQueue<W> {
    /// Does one piece of work, and whatever is put in meanwhile; or leaves it to the one at work.
    pub(crate) fn run(&self, work: W, mut perform: impl FnMut(W)) {
        {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(work);
            if std::mem::replace(&mut queue.busy, true) {
                return;
            }
        }
        let at_work = AtWork(self);
        while let Some(work) = self.next() {
            perform(work);
        }
        std::mem::forget(at_work);
    }

    /// The next piece. With the last one the queue is left in the same breath, so that no piece is left behind.
    fn next(&self) -> Option<W> {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        queue.busy = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn work_put_in_by_work_comes_after_it() {
        let queue = SerialQueue::default();
        let done = Mutex::new(Vec::new());
        queue.run(1, |work| {
            if work == 1 {
                queue.run(2, |_| unreachable!("somebody is at work"));
                queue.run(3, |_| unreachable!("somebody is at work"));
            }
            done.lock().push(work);
        });
        queue.run(4, |work| done.lock().push(work));
        assert_eq!(*done.lock(), [1, 2, 3, 4]);
    }

    #[test]
    fn a_panic_does_not_close_the_lane() {
        let queue = SerialQueue::default();
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.run((), |()| panic!("!"))));
        assert!(outcome.is_err());
        let mut done = false;
        queue.run((), |()| done = true);
        assert!(done);
    }

    #[test]
    fn nothing_is_lost_or_done_twice_between_threads() {
        let (queue, done, at_once) = (SerialQueue::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new((queue, done, at_once));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (queue, done, at_once) = &*shared;
                    for _ in 0..1000 {
                        queue.run((), |()| {
                            assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                            done.fetch_add(1, Ordering::SeqCst);
                            at_once.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(shared.1.load(Ordering::SeqCst), 4000);
    }
}

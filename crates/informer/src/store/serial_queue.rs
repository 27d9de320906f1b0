//! A queue of items that the threads which enqueue them process in order, one at a time.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// A caller that finds the queue idle drains it; other callers enqueue and return. So no caller
/// ever waits, the lock covers only the queue itself, and one thread at a time processes items.
#[derive(Debug)]
pub(crate) struct SerialQueue<T> {
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<T>,
    is_draining: bool,
}

impl<T> Default for SerialQueue<T> {
    fn default() -> Self {
        Self { queue: Mutex::new(Queue { items: VecDeque::new(), is_draining: false }) }
    }
}

/// Marks the queue idle if processing an item panics.
struct DrainGuard<'a, T>(&'a SerialQueue<T>);

impl<T> Drop for DrainGuard<'_, T> {
    fn drop(&mut self) {
        self.0.queue.lock().is_draining = false;
    }
}

impl<T> SerialQueue<T> {
    /// Enqueues an item. If the queue is idle, processes it and every item that others enqueue
    /// meanwhile.
    pub(crate) fn run(&self, item: T, mut process: impl FnMut(T)) {
        {
            let mut queue = self.queue.lock();
            queue.items.push_back(item);
            if std::mem::replace(&mut queue.is_draining, true) {
                return;
            }
        }
        let guard = DrainGuard(self);
        while let Some(item) = self.next() {
            process(item);
        }
        // `next` has marked the queue idle, and another thread may be draining it by now.
        std::mem::forget(guard);
    }

    /// Returns the next item. If there is none, marks the queue idle under the same lock, so that
    /// no item is left behind.
    fn next(&self) -> Option<T> {
        let mut queue = self.queue.lock();
        let next = queue.items.pop_front();
        queue.is_draining = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn items_enqueued_while_draining_are_processed_afterwards() {
        let queue = SerialQueue::default();
        let done = Mutex::new(Vec::new());
        queue.run(1, |item| {
            if item == 1 {
                queue.run(2, |_| unreachable!("the outer call drains the queue"));
                queue.run(3, |_| unreachable!("the outer call drains the queue"));
            }
            done.lock().push(item);
        });
        queue.run(4, |item| done.lock().push(item));
        assert_eq!(*done.lock(), [1, 2, 3, 4]);
    }

    #[test]
    fn a_panic_leaves_the_queue_usable() {
        let queue = SerialQueue::default();
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.run((), |()| panic!("!"))));
        assert!(outcome.is_err());
        let mut done = false;
        queue.run((), |()| done = true);
        assert!(done);
    }

    #[test]
    fn every_item_is_processed_once_and_one_at_a_time() {
        let (queue, done, running) = (SerialQueue::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        queue.run((), |()| {
                            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                            done.fetch_add(1, Ordering::SeqCst);
                            running.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 4000);
    }
}

//! A queue of items that the threads which enqueue them process in order, one at a time.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::KindMetrics;

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
    /// meanwhile. Records how many items wait and how long each takes.
    pub(crate) fn run<'a>(
        &self,
        item: T,
        metrics: impl Fn(&T) -> &'a KindMetrics,
        mut process: impl FnMut(T),
    ) {
        metrics(&item).queued_items.increment(1.0);
        {
            let mut queue = self.queue.lock();
            queue.items.push_back(item);
            if std::mem::replace(&mut queue.is_draining, true) {
                return;
            }
        }
        let guard = DrainGuard(self);
        while let Some(item) = self.next() {
            let metrics = metrics(&item);
            metrics.queued_items.decrement(1.0);
            let started = Instant::now();
            process(item);
            metrics.processing_latency.record(started.elapsed().as_secs_f64());
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
    use crate::Kind;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn items_enqueued_while_draining_are_processed_afterwards() {
        let (queue, metrics) = (SerialQueue::default(), KindMetrics::new(Kind::Pods));
        let of = |_: &_| &metrics;
        let done = Mutex::new(Vec::new());
        queue.run(1, of, |item| {
            if item == 1 {
                queue.run(2, of, |_| unreachable!("the outer call drains the queue"));
                queue.run(3, of, |_| unreachable!("the outer call drains the queue"));
            }
            done.lock().push(item);
        });
        queue.run(4, of, |item| done.lock().push(item));
        assert_eq!(*done.lock(), [1, 2, 3, 4]);
    }

    #[test]
    fn a_panic_leaves_the_queue_usable() {
        let (queue, metrics) = (SerialQueue::default(), KindMetrics::new(Kind::Pods));
        let of = |_: &()| &metrics;
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| queue.run((), of, |()| panic!("!"))));
        assert!(outcome.is_err());
        let mut done = false;
        queue.run((), of, |()| done = true);
        assert!(done);
    }

    #[test]
    fn every_item_is_processed_once_and_one_at_a_time() {
        let (queue, done, running) = (SerialQueue::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let metrics = KindMetrics::new(Kind::Pods);
        let of = |_: &()| &metrics;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        queue.run((), of, |()| {
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

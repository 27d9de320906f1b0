//! Keys that are looked at later, each at a time of its own.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Default)]
pub(super) struct Times {
    inner: Mutex<Inner>,
    /// There is an earlier first time.
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    times: BTreeMap<ObjectKey, Instant>,
    order: BTreeSet<(Instant, ObjectKey)>,
}

impl Inner {
    /// Returns true if the key is the first now.
    fn set(&mut self, key: &ObjectKey, at: Instant) -> bool {
        self.remove(key);
        let is_first = self.order.first().is_none_or(|(first, _)| at < *first);
        self.times.insert(key.clone(), at);
        self.order.insert((at, key.clone()));
        is_first
    }

    fn remove(&mut self, key: &ObjectKey) {
        if let Some(at) = self.times.remove(key) {
            self.order.remove(&(at, key.clone()));
        }
    }
}

impl Times {
    /// Sets the time of a key.
    pub(super) fn set(&self, key: &ObjectKey, at: Instant) {
        if self.inner.lock().set(key, at) {
            self.earlier.notify_one();
        }
    }

    /// As [`Self::set`], unless the key has an earlier time.
    pub(super) fn set_by(&self, key: &ObjectKey, at: Instant) {
        let mut inner = self.inner.lock();
        if inner.times.get(key).is_none_or(|before| at < *before) && inner.set(key, at) {
            self.earlier.notify_one();
        }
    }

    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.inner.lock().times.contains_key(key)
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        self.inner.lock().remove(key);
    }

    /// Waits for the first time, and takes its key out.
    pub(super) async fn next(&self) -> ObjectKey {
        loop {
            let first = self.inner.lock().order.first().cloned();
            match first {
                None => self.earlier.notified().await,
                Some((at, key)) if at <= Instant::now() => {
                    self.remove(&key);
                    return key;
                }
                Some((at, _)) => tokio::select! {
                    biased;
                    () = sleep_until(at) => {}
                    () = self.earlier.notified() => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_key_comes_once_at_its_last_or_first_time() {
        let (times, start) = (Times::default(), Instant::now());
        let [a, b, c] = ["a", "b", "c"].map(|name| ObjectKey::new("shop", name));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        times.set(&a, at(1));
        times.set(&a, at(9));
        [7, 5, 8].iter().for_each(|seconds| times.set_by(&b, at(*seconds)));
        times.set(&c, at(2));
        times.remove(&c);
        assert!(times.has(&b) && !times.has(&c));
        assert_eq!((times.next().await, start.elapsed()), (b, Duration::from_secs(5)));
        // One that is earlier than what the task waits for.
        let (next, ()) = tokio::join!(times.next(), async { times.set(&c, at(6)) });
        assert_eq!((next, start.elapsed()), (c, Duration::from_secs(6)));
        assert_eq!((times.next().await, start.elapsed()), (a, Duration::from_secs(9)));
    }
}

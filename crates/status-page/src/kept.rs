//! A value that is made on demand, once for all readers, and not too often.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// The longest wait for a value if there is none. Then the page does without it.
const WAIT: Duration = Duration::from_secs(1);

/// The time from the start of one `make` to the next, as a multiple of the time that `make` takes,
/// so that it keeps a tenth of a processor busy at most.
const PAUSE: u32 = 10;

/// The age at which a value is out of date, in periods. A value that takes long to make counts
/// until the next one may be there.
const OLDEST: u32 = 6;

/// The upper limit of the time that [`PAUSE`] determines.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The latest value, and the time at which somebody may make the next one.
pub struct Kept<T> {
    period: Duration,
    state: Mutex<State<T>>,
    made: Notify,
}

struct Made<T> {
    value: Arc<T>,
    at: Instant,
    took: Duration,
}

struct State<T> {
    latest: Option<Made<T>>,
    /// The time from which the next value may be made.
    next: Option<Instant>,
    making: bool,
}

impl<T: Send + Sync + 'static> Kept<T> {
    /// Returns a `Kept` without a value. Readers make one at most once in a `period`.
    pub fn new(period: Duration) -> Arc<Self> {
        let state = State { latest: None, next: None, making: false };
        Arc::new(Self { period, state: Mutex::new(state), made: Notify::new() })
    }

    /// Returns the latest value, and makes another if it is time. If there is no value, or an old
    /// one, this waits for a second at most. `make` runs in a task of its own, and returns `None`
    /// if it fails.
    pub async fn get<F>(self: &Arc<Self>, make: impl FnOnce() -> F) -> Option<Arc<T>>
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let mut made = std::pin::pin!(self.made.notified());
        made.as_mut().enable();
        if self.begin() {
            self.start(make());
        }
        if let Some(latest) = self.latest() {
            return Some(latest);
        }
        let _ = timeout(WAIT, made).await;
        self.latest()
    }

    /// Returns the latest value of any age.
    pub fn last(&self) -> Option<Arc<T>> {
        self.state.lock().latest.as_ref().map(|made| Arc::clone(&made.value))
    }

    /// Returns true if it is time to make a value. The caller must then make one.
    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        let is_time = !state.making && state.next.is_none_or(|next| next <= Instant::now());
        state.making |= is_time;
        is_time
    }

    fn start(self: &Arc<Self>, make: impl Future<Output = Option<T>> + Send + 'static) {
        let this = Making(Arc::clone(self));
        tokio::spawn(async move {
            let begun = Instant::now();
            let value = make.await;
            let took = begun.elapsed();
            let pause = (took * PAUSE).min(LONGEST_PAUSE).max(this.0.period);
            let mut state = this.0.state.lock();
            state.next = Some(begun + pause);
            if let Some(value) = value {
                state.latest = Some(Made { value: Arc::new(value), at: Instant::now(), took });
            }
        });
    }

    fn latest(&self) -> Option<Arc<T>> {
        let oldest = (self.period * OLDEST).max(LONGEST_PAUSE + self.period);
        let state = self.state.lock();
        let Made { value, at, took } = state.latest.as_ref()?;
        // The next value takes about as long, and this one must last until then.
        (at.elapsed() <= oldest + *took * 2).then(|| Arc::clone(value))
    }
}

/// Marks that a task makes a value. Dropping it removes the mark, also after a panic.
struct Making<T>(Arc<Kept<T>>);

impl<T> Drop for Making<T> {
    fn drop(&mut self) {
        self.0.state.lock().making = false;
        self.0.made.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Gets a value that counts the calls of `make`. Each call takes `cost`.
    async fn get(kept: &Arc<Kept<u32>>, made: &Arc<AtomicU32>, cost: Duration) -> Option<u32> {
        let made = Arc::clone(made);
        let make = || async move {
            tokio::time::sleep(cost).await;
            Some(made.fetch_add(1, Ordering::Relaxed) + 1)
        };
        kept.get(make).await.map(|value| *value)
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_made_once_for_all_and_once_in_a_period() {
        let (kept, made) = (Kept::new(Duration::from_secs(10)), Arc::new(AtomicU32::new(0)));
        let cost = Duration::from_millis(100);
        let all = futures::future::join_all((0..20).map(|_| get(&kept, &made, cost))).await;
        assert_eq!(all, vec![Some(1); 20]);
        for (wait, want) in [(9, 1), (2, 1), (1, 2), (5, 2)] {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            assert_eq!(get(&kept, &made, cost).await, Some(want), "{wait}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_and_what_takes_long_is_made_seldom() {
        let (kept, made) = (Kept::new(Duration::from_secs(1)), Arc::new(AtomicU32::new(0)));
        let begun = Instant::now();
        assert_eq!(get(&kept, &made, Duration::from_secs(3)).await, None);
        assert_eq!(begun.elapsed(), WAIT);
        tokio::time::sleep(Duration::from_secs(3)).await;
        // The second `make` begins 30 s after the first.
        for (wait, want) in [(0, 1), (25, 1), (2, 1), (5, 2)] {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            assert_eq!(get(&kept, &made, Duration::from_secs(3)).await, Some(want), "{wait}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_value_is_not_used() {
        let (kept, made) = (Kept::new(Duration::from_secs(10)), Arc::new(AtomicU32::new(0)));
        assert_eq!(get(&kept, &made, Duration::ZERO).await, Some(1));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(get(&kept, &made, Duration::from_secs(5)).await, None);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(get(&kept, &made, Duration::ZERO).await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_that_takes_minutes_is_used_until_the_next_one_is_made() {
        let (kept, made) = (Kept::new(Duration::from_secs(10)), Arc::new(AtomicU32::new(0)));
        let cost = Duration::from_secs(180);
        assert_eq!(get(&kept, &made, cost).await, None);
        tokio::time::sleep(cost).await;
        for second in (0..600).step_by(2) {
            let got = get(&kept, &made, cost).await;
            assert!(got.is_some_and(|value| value > second / 190), "{second}: {got:?}");
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_panic_another_is_made() {
        let (kept, made) = (Kept::<u32>::new(Duration::from_secs(10)), Arc::new(AtomicU32::new(0)));
        assert_eq!(kept.get(|| async { panic!("on purpose") }).await, None);
        assert_eq!(get(&kept, &made, Duration::ZERO).await, Some(1));
    }
}

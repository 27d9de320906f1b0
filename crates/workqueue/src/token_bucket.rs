//! The overall token bucket: governor's arithmetic over tokio's clock, handing out places in the future.
//!
//! governor answers "yes" or "not until"; client-go's `BucketRateLimiter` takes a place in any case and says how
//! long it is until then (`rate.Limiter.Reserve().Delay()`). A place in the future is what governor would give to
//! somebody who asked at that time, so the bucket sets governor's clock ahead and asks again. The cell rate
//! algorithm keeps one time only, which such an answer moves on by one interval: all later answers are right.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::ops::Add;
use std::time::Duration;

use governor::Quota;
use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A reading of [`TokioClock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokioInstant(pub Instant);

impl Add<Nanos> for TokioInstant {
    type Output = Self;

    fn add(self, nanos: Nanos) -> Self {
        Self(self.0.checked_add(nanos.into()).unwrap_or(self.0))
    }
}

impl Reference for TokioInstant {
    fn duration_since(&self, earlier: Self) -> Nanos {
        let nanos = self.0.saturating_duration_since(earlier.0).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX).into()
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.into()).unwrap_or(self.0))
    }
}

/// A clock for governor that reads tokio's time.
///
/// governor's own clocks know nothing of a paused runtime, with this one its limiters follow it.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    type Instant = TokioInstant;

    fn now(&self) -> TokioInstant {
        TokioInstant(Instant::now())
    }
}

/// A clock that stands at the time for which governor is asked.
#[derive(Debug, Clone)]
struct SetClock(Cell<TokioInstant>);

impl Clock for SetClock {
    type Instant = TokioInstant;

    fn now(&self) -> TokioInstant {
        self.0.get()
    }
}

/// A rate or a burst that no bucket can have.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidRate {
    /// The rate is zero, negative, not a number, or so small that one token takes longer than a duration can say.
    #[error("{0} tokens per second is no rate: it must be a positive number")]
    Rate(f64),
    /// A bucket that holds nothing never gives anything.
    #[error("a burst of 0 lets nothing through: it must be at least 1")]
    Burst,
}

type Limiter = governor::RateLimiter<NotKeyed, InMemoryState, SetClock, NoOpMiddleware<TokioInstant>>;

/// A token bucket that starts full and hands out places in the future once it is empty.
#[derive(Debug)]
pub struct TokenBucket {
    // The lock covers setting the clock together with the question that is asked of it.
    limiter: Mutex<Limiter>,
}

impl TokenBucket {
    /// A bucket of `burst` tokens that gains `qps` tokens a second.
    pub fn per_second(qps: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::from_quota(Quota::per_second(qps).allow_burst(burst))
    }

    /// A bucket for a rate that need not be whole, as options such as `--kube-api-qps` give it.
    ///
    /// # Errors
    ///
    /// When the rate is not a positive number or the burst is zero.
    pub fn new(qps: f64, burst: u32) -> Result<Self, InvalidRate> {
        let burst = NonZeroU32::new(burst).ok_or(InvalidRate::Burst)?;
        if qps.is_nan() || qps <= 0.0 {
            return Err(InvalidRate::Rate(qps));
        }
        let interval = Duration::try_from_secs_f64(qps.recip()).map_err(|_| InvalidRate::Rate(qps))?;
        // governor counts nanoseconds in 64 bits; the whole bucket has to fit, with room for what is given in advance.
        let longest = Duration::from_secs(u64::from(u32::MAX)) / burst.get();
        if interval > longest {
            return Err(InvalidRate::Rate(qps));
        }
        let interval = interval.max(Duration::from_nanos(1));
        let quota = Quota::with_period(interval).ok_or(InvalidRate::Rate(qps))?;
        Ok(Self::from_quota(quota.allow_burst(burst)))
    }

    fn from_quota(quota: Quota) -> Self {
        let clock = SetClock(Cell::new(TokioClock.now()));
        Self { limiter: Mutex::new(Limiter::direct_with_clock(quota, clock)) }
    }

    /// Takes the next token and says how long it is until it is there: zero while the bucket holds any.
    ///
    /// There is no way to give a token back, as client-go's limiter never does so either.
    pub fn reserve(&self) -> Duration {
        let limiter = self.limiter.lock();
        let now = TokioClock.now();
        let mut at = now;
        loop {
            limiter.clock().0.set(at);
            match limiter.check() {
                Ok(()) => return at.duration_since(now).into(),
                // The second question is asked at the very time that the first answer named, and is granted.
                Err(not_until) => at = not_until.earliest_possible(),
            }
        }
    }
}

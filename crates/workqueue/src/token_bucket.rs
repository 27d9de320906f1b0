//! A token bucket with reservations: governor's arithmetic over tokio's clock.
//!
//! governor answers "yes" or "not until"; client-go's `BucketRateLimiter` always reserves a token
//! and returns the time until it is available (`rate.Limiter.Reserve().Delay()`). To reserve a
//! token in the future, the bucket sets governor's clock to the time that governor names and asks
//! again. governor's algorithm (GCRA) stores a single time, which each granted request moves by one
//! interval, so later reservations stay correct.

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
/// governor's own clocks do not follow tokio's paused time; this one does.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioClock;

impl Clock for TokioClock {
    type Instant = TokioInstant;

    fn now(&self) -> TokioInstant {
        TokioInstant(Instant::now())
    }
}

/// A clock that the bucket sets to the time for which it asks governor.
#[derive(Debug, Clone)]
struct ManualClock(Cell<TokioInstant>);

impl Clock for ManualClock {
    type Instant = TokioInstant;

    fn now(&self) -> TokioInstant {
        self.0.get()
    }
}

/// An invalid rate or burst.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum InvalidRate {
    /// The rate is zero, negative, not a number, or too small to be represented.
    #[error("invalid rate of {0} tokens per second: it must be a positive number")]
    Rate(f64),
    /// The burst is zero, which allows no request at all.
    #[error("invalid burst of 0: it must be at least 1")]
    Burst,
}

type Limiter = governor::RateLimiter<NotKeyed, InMemoryState, ManualClock, NoOpMiddleware<TokioInstant>>;

/// A token bucket that starts full. Once it is empty, callers reserve tokens in advance.
#[derive(Debug)]
pub struct TokenBucket {
    // The lock makes setting the clock and checking the limiter one step.
    limiter: Mutex<Limiter>,
}

impl TokenBucket {
    /// Creates a bucket of `burst` tokens that regains `qps` tokens per second.
    pub fn per_second(qps: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::from_quota(Quota::per_second(qps).allow_burst(burst))
    }

    /// Creates a bucket with a fractional rate in tokens per second, as `--kube-api-qps` takes it.
    ///
    /// # Errors
    ///
    /// [`InvalidRate`] if the rate is not a positive number or the burst is zero.
    pub fn new(qps: f64, burst: u32) -> Result<Self, InvalidRate> {
        let burst = NonZeroU32::new(burst).ok_or(InvalidRate::Burst)?;
        if qps.is_nan() || qps <= 0.0 {
            return Err(InvalidRate::Rate(qps));
        }
        let interval = Duration::try_from_secs_f64(qps.recip()).map_err(|_| InvalidRate::Rate(qps))?;
        // governor counts nanoseconds in 64 bits. The whole bucket has to fit, with room for
        // reservations.
        let longest = Duration::from_secs(u64::from(u32::MAX)) / burst.get();
        if interval > longest {
            return Err(InvalidRate::Rate(qps));
        }
        let interval = interval.max(Duration::from_nanos(1));
        let quota = Quota::with_period(interval).ok_or(InvalidRate::Rate(qps))?;
        Ok(Self::from_quota(quota.allow_burst(burst)))
    }

    fn from_quota(quota: Quota) -> Self {
        let clock = ManualClock(Cell::new(TokioClock.now()));
        Self { limiter: Mutex::new(Limiter::direct_with_clock(quota, clock)) }
    }

    /// Reserves a token. Returns the time until it is available: zero while the bucket is not
    /// empty.
    ///
    /// Nothing cancels a reservation; client-go's limiter does not either.
    pub fn reserve(&self) -> Duration {
        self.reserve_within(Duration::MAX).unwrap_or(Duration::MAX)
    }

    /// Takes a token if one is available now. Otherwise it reserves nothing, and returns the time
    /// after which to ask again.
    ///
    /// # Errors
    ///
    /// The time until the first token that nobody has reserved so far.
    pub fn try_take(&self) -> Result<(), Duration> {
        let limiter = self.limiter.lock();
        let now = TokioClock.now();
        limiter.clock().0.set(now);
        limiter.check().map_err(|not_until| not_until.wait_time_from(now))
    }

    /// Reserves a token if one is available within `longest`, and returns the time until then.
    /// Otherwise it reserves nothing, as client-go's `rate.Limiter.Wait` under a deadline.
    pub fn reserve_within(&self, longest: Duration) -> Option<Duration> {
        let limiter = self.limiter.lock();
        let now = TokioClock.now();
        let mut at = now;
        loop {
            let wait = at.duration_since(now).into();
            if wait > longest {
                return None;
            }
            limiter.clock().0.set(at);
            match limiter.check() {
                Ok(()) => return Some(wait),
                // The next check is at the time that governor named, and succeeds.
                Err(not_until) => at = not_until.earliest_possible(),
            }
        }
    }
}

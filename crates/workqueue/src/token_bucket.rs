//! A token bucket with reservations, as client-go's `BucketRateLimiter` uses it: it always reserves
//! a token, and returns the time until it is available (`rate.Limiter.Reserve().Delay()`). Its
//! clock is tokio's, which tests stop.

use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

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

/// A token bucket that starts full. Once it is empty, callers reserve tokens in advance.
#[derive(Debug)]
pub struct TokenBucket {
    /// The time in which one token comes back.
    interval: Duration,
    /// The time in which all tokens but one come back.
    others: Duration,
    /// The time at which all tokens are back. Each token that is taken moves it by the interval.
    full_at: Mutex<Instant>,
}

impl TokenBucket {
    /// Creates a bucket of `burst` tokens that regains `qps` tokens per second.
    pub fn per_second(qps: NonZeroU32, burst: NonZeroU32) -> Self {
        Self::with_interval(Duration::from_secs(1) / qps.get(), burst)
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
        // An `Instant` must reach beyond the reservations of the bucket.
        let longest = Duration::from_secs(u64::from(u32::MAX)) / burst.get();
        if interval > longest {
            return Err(InvalidRate::Rate(qps));
        }
        Ok(Self::with_interval(interval, burst))
    }

    fn with_interval(interval: Duration, burst: NonZeroU32) -> Self {
        let others = interval.saturating_mul(burst.get() - 1);
        Self { interval, others, full_at: Mutex::new(Instant::now()) }
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
        self.take(Duration::ZERO).map(|_| ())
    }

    /// Reserves a token if one is available within `longest`, and returns the time until then.
    /// Otherwise it reserves nothing, as client-go's `rate.Limiter.Wait` under a deadline.
    pub fn reserve_within(&self, longest: Duration) -> Option<Duration> {
        self.take(longest).ok()
    }

    /// Takes a token that is available within `longest`. Returns the time until it is.
    fn take(&self, longest: Duration) -> Result<Duration, Duration> {
        let mut full_at = self.full_at.lock();
        let now = Instant::now();
        let from = now.max(*full_at);
        let wait = from.duration_since(now).saturating_sub(self.others);
        if wait > longest {
            return Err(wait);
        }
        *full_at = from.checked_add(self.interval).unwrap_or(from);
        Ok(wait)
    }
}

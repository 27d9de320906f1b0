//! How long a key that failed waits before it comes again: client-go's limiters by their behaviour.
//!
//! Upstream: client-go `util/workqueue/default_rate_limiters.go`; the numbers of each controller are the constants
//! at the head of its controller file (`defaultSyncBackOff`, `maxSyncBackOff`).

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Key, TokenBucket};

/// Decides how long a key waits before it is worked again.
pub trait RateLimiter<K>: Send + Sync {
    /// Counts one more failure of the key and says how long it has to wait for its next turn.
    fn when(&self, key: &K) -> Duration;

    /// Ends the key's row of failures, whether it succeeded or was given up.
    fn forget(&self, key: &K);

    /// How often [`when`](Self::when) was asked for the key since it was last forgotten.
    fn num_requeues(&self, key: &K) -> u32;
}

/// Waits `base` after the first failure of a key, twice as long after each further one, and never above `max`.
#[derive(Debug)]
pub struct ItemExponentialFailureRateLimiter<K> {
    base: Duration,
    max: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K: Key> ItemExponentialFailureRateLimiter<K> {
    /// A limiter that knows of no failure yet. A `base` above `max` counts as `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: Mutex::new(HashMap::new()) }
    }

    /// `base` times two to the power of `failures`, at most `max`.
    fn backoff(&self, failures: u32) -> Duration {
        let factor = 1_u128.checked_shl(failures).unwrap_or(u128::MAX);
        let nanos = self.base.as_nanos().saturating_mul(factor).min(self.max.as_nanos());
        // What needs more than 64 bits of nanoseconds is beyond any `max` that is meant to end: 584 years.
        u64::try_from(nanos).map_or(self.max, Duration::from_nanos)
    }
}

impl<K: Key> RateLimiter<K> for ItemExponentialFailureRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(key.clone()).or_insert(0);
        let before = *count;
        *count = count.saturating_add(1);
        self.backoff(before)
    }

    fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or(0)
    }
}

/// The bucket limits all keys together, and remembers nothing of any of them.
impl<K> RateLimiter<K> for TokenBucket {
    fn when(&self, _key: &K) -> Duration {
        self.reserve()
    }

    fn forget(&self, _key: &K) {}

    fn num_requeues(&self, _key: &K) -> u32 {
        0
    }
}

/// Asks every one of its limiters and waits for as long as the slowest says.
///
/// As in client-go, a key that waits long for its own sake has taken its token from the bucket all the same.
pub struct MaxOfRateLimiter<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOfRateLimiter<K> {
    /// A limiter of these limiters. Without any, it never delays.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters }
    }
}

impl<K> RateLimiter<K> for MaxOfRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        self.limiters.iter().map(|limiter| limiter.when(key)).max().unwrap_or_default()
    }

    fn forget(&self, key: &K) {
        for limiter in &self.limiters {
            limiter.forget(key);
        }
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.limiters.iter().map(|limiter| limiter.num_requeues(key)).max().unwrap_or(0)
    }
}

/// Tokens per second of the bucket that all of upstream's controllers use.
const BUCKET_QPS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
/// Tokens that this bucket holds.
const BUCKET_BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);
/// Longest wait of the endpoints and the EndpointSlice controller.
const LONG_MAX: Duration = Duration::from_secs(1000);

/// What upstream's controllers build: the slower of an exponential wait per key (`base` up to `max`) and one bucket
/// for all keys (`qps` a second, `burst` at once).
pub fn controller_rate_limiter<K: Key>(
    base: Duration,
    max: Duration,
    qps: NonZeroU32,
    burst: NonZeroU32,
) -> MaxOfRateLimiter<K> {
    MaxOfRateLimiter::new(vec![
        Box::new(ItemExponentialFailureRateLimiter::new(base, max)),
        Box::new(TokenBucket::per_second(qps, burst)),
    ])
}

/// client-go's default, which the endpoints controller uses: 5 ms up to 1000 s for each key, and 10 a second with
/// 100 at once for all of them.
pub fn default_controller_rate_limiter<K: Key>() -> MaxOfRateLimiter<K> {
    controller_rate_limiter(Duration::from_millis(5), LONG_MAX, BUCKET_QPS, BUCKET_BURST)
}

/// The EndpointSlice controller's: 1 s up to 1000 s for each key, and 10 a second with 100 at once for all of them.
pub fn endpoint_slice_rate_limiter<K: Key>() -> MaxOfRateLimiter<K> {
    controller_rate_limiter(Duration::from_secs(1), LONG_MAX, BUCKET_QPS, BUCKET_BURST)
}

/// The mirroring controller's: 1 s up to 100 s for each key, and 10 a second with 100 at once for all of them.
pub fn endpoint_slice_mirroring_rate_limiter<K: Key>() -> MaxOfRateLimiter<K> {
    controller_rate_limiter(Duration::from_secs(1), Duration::from_secs(100), BUCKET_QPS, BUCKET_BURST)
}

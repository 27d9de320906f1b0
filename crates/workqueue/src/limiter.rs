//! Rate limiters: how long a failed key waits before it is retried.
//!
//! Upstream: client-go `util/workqueue/default_rate_limiters.go`; the numbers of each controller
//! are the constants at the head of its controller file (`defaultSyncBackOff`, `maxSyncBackOff`).

use std::num::NonZeroU32;
use std::time::Duration;

use ahash::HashMap;
use parking_lot::Mutex;

use crate::{Key, TokenBucket};

/// Decides how long a failed key waits before it is retried.
pub trait RateLimiter<K>: Send + Sync {
    /// Counts a failure of the key. Returns the delay before its next attempt.
    fn when(&self, key: &K) -> Duration;

    /// As [`when`](Self::when), but returns at most `longest`. A limiter that all keys share
    /// overrides this, so that it reserves nothing later than that.
    fn when_within(&self, key: &K, longest: Duration) -> Duration {
        self.when(key).min(longest)
    }

    /// Resets the key's failures, because it succeeded or was dropped.
    fn forget(&self, key: &K);

    /// Returns the number of failures of the key since the last call of [`forget`](Self::forget).
    fn num_requeues(&self, key: &K) -> u32;
}

/// Delays a key by `base` after its first failure and twice as long after each further one, up to
/// `max`.
///
/// Upstream: `TypedItemExponentialFailureRateLimiter`.
#[derive(Debug)]
pub struct ItemExponentialFailureRateLimiter<K> {
    base: Duration,
    max: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K: Key> ItemExponentialFailureRateLimiter<K> {
    /// Creates a limiter. A `base` above `max` counts as `max`.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, failures: Mutex::new(HashMap::default()) }
    }

    /// Returns `base` times two to the power of `failures`, at most `max`.
    fn backoff(&self, failures: u32) -> Duration {
        let factor = 1_u128.checked_shl(failures).unwrap_or(u128::MAX);
        let nanos = self.base.as_nanos().saturating_mul(factor).min(self.max.as_nanos());
        // 64 bits of nanoseconds are 584 years.
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

/// Limits all keys together and keeps no state for a key. Upstream: `TypedBucketRateLimiter`.
impl<K> RateLimiter<K> for TokenBucket {
    fn when(&self, _key: &K) -> Duration {
        self.reserve()
    }

    fn when_within(&self, _key: &K, longest: Duration) -> Duration {
        self.reserve_within(longest).unwrap_or(longest)
    }

    fn forget(&self, _key: &K) {}

    fn num_requeues(&self, _key: &K) -> u32 {
        0
    }
}

/// Returns the longest delay of several limiters. Upstream: `TypedMaxOfRateLimiter`.
///
/// It asks every limiter each time. As in client-go, a key with a long delay of its own still takes
/// a token from the bucket.
pub struct MaxOfRateLimiter<K> {
    limiters: Vec<Box<dyn RateLimiter<K>>>,
}

impl<K> MaxOfRateLimiter<K> {
    /// Combines limiters. An empty list delays no key.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<K>>>) -> Self {
        Self { limiters }
    }
}

impl<K> RateLimiter<K> for MaxOfRateLimiter<K> {
    fn when(&self, key: &K) -> Duration {
        self.when_within(key, Duration::MAX)
    }

    fn when_within(&self, key: &K, longest: Duration) -> Duration {
        self.limiters.iter().map(|limiter| limiter.when_within(key, longest)).max().unwrap_or_default()
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

/// Tokens per second of the bucket in upstream's controllers.
const BUCKET_QPS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
/// Size of that bucket.
const BUCKET_BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(99);
/// Longest delay of a key in the endpoints and the EndpointSlice controller.
const LONG_MAX: Duration = Duration::from_secs(1000);

/// Returns the limiter of upstream's controllers: the longer of an exponential delay for each key
/// (`base` up to `max`) and the delay of one token bucket for all keys (`qps` tokens per second,
/// `burst` at once).
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

/// Returns client-go's `DefaultTypedControllerRateLimiter`, which the endpoints controller uses: 5
/// ms up to 1000 s for each key, and 10 keys per second with a burst of 100.
pub fn default_controller_rate_limiter<K: Key>() -> MaxOfRateLimiter<K> {
    controller_rate_limiter(Duration::from_millis(5), LONG_MAX, BUCKET_QPS, BUCKET_BURST)
}

/// Returns the limiter of the EndpointSlice controller: 1 s up to 1000 s for each key, and 10 keys
/// per second with a burst of 100.
pub fn endpoint_slice_rate_limiter<K: Key>() -> MaxOfRateLimiter<K> {
    controller_rate_limiter(Duration::from_secs(1), LONG_MAX, BUCKET_QPS, BUCKET_BURST)
}

/// Returns the limiter of the mirroring controller: 1 s up to 100 s for each key, and 10 keys per
/// second with a burst of 100.
pub fn endpoint_slice_mirroring_rate_limiter<K: Key>() -> MaxOfRateLimiter<K> {
    controller_rate_limiter(Duration::from_secs(1), Duration::from_secs(100), BUCKET_QPS, BUCKET_BURST)
}

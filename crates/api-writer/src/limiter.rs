//! The client-side rate limit, as `--kube-api-qps` and `--kube-api-burst` set it.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_workqueue::{InvalidRate, TokenBucket};

/// Limits the request rate of one controller. Clones share the bucket.
#[derive(Clone, Debug, Default)]
pub struct RequestLimiter {
    bucket: Option<Arc<TokenBucket>>,
}

impl RequestLimiter {
    /// Limits to `qps` requests per second with bursts of `burst`. A negative rate means no limit,
    /// as in client-go.
    ///
    /// # Errors
    ///
    /// When the rate is zero or not a number, or the burst is zero.
    pub fn new(qps: f64, burst: u32) -> Result<Self, InvalidRate> {
        if qps < 0.0 {
            return Ok(Self::unlimited());
        }
        Ok(Self { bucket: Some(Arc::new(TokenBucket::new(qps, burst)?)) })
    }

    /// No limit.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Waits until the next request may be sent. Returns how long that took.
    pub async fn acquire(&self) -> Duration {
        let delay = self.bucket.as_ref().map_or(Duration::ZERO, |bucket| bucket.reserve());
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_followed_by_single_requests() {
        let limiter = RequestLimiter::new(10.0, 3).unwrap();
        let start = Instant::now();
        for _ in 0..3 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        limiter.acquire().await;
        limiter.acquire().await;
        let elapsed = start.elapsed();
        assert!((200..=202).contains(&elapsed.as_millis()), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_negative_rate_means_no_limit() {
        let limiter = RequestLimiter::new(-1.0, 0).unwrap();
        let start = Instant::now();
        for _ in 0..1000 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[test]
    fn invalid_rates_are_refused() {
        assert!(RequestLimiter::new(0.0, 1).is_err());
        assert!(RequestLimiter::new(f64::NAN, 1).is_err());
        assert!(RequestLimiter::new(1.0, 0).is_err());
    }
}

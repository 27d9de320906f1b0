//! The client-side rate limit, as `--kube-api-qps` and `--kube-api-burst` set it.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_workqueue::{InvalidRate, TokenBucket};
use tokio::time::{Instant, sleep};

/// A request that yields to others waits no longer than this for a token that nobody wants.
const LONGEST_YIELD: Duration = Duration::from_secs(5);

/// Limits the request rate of one controller. Clones share the bucket.
#[derive(Clone, Debug, Default)]
pub struct RequestLimiter {
    bucket: Option<Arc<TokenBucket>>,
    yields: bool,
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
        Ok(Self { bucket: Some(Arc::new(TokenBucket::new(qps, burst)?)), yields: false })
    }

    /// No limit.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Returns a handle to the same bucket for requests that nobody waits for. They take the tokens
    /// that no other request waits for, and after five seconds their turn among all.
    #[must_use]
    pub fn yielding(&self) -> Self {
        Self { yields: true, ..self.clone() }
    }

    /// Waits until the next request may be sent. Returns how long that took.
    pub async fn acquire(&self) -> Duration {
        let Some(bucket) = &self.bucket else { return Duration::ZERO };
        let start = Instant::now();
        while self.yields && start.elapsed() < LONGEST_YIELD {
            match bucket.try_take() {
                Ok(()) => return start.elapsed(),
                Err(wait) => sleep(wait).await,
            }
        }
        let delay = bucket.reserve();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    async fn a_request_that_yields_lets_others_go_first_and_is_sent_in_the_end() {
        let limiter = RequestLimiter::new(10.0, 1).unwrap();
        let start = Instant::now();
        let send = |limiter: RequestLimiter| async move {
            limiter.acquire().await;
            start.elapsed().as_millis().div_ceil(100)
        };
        send(limiter.clone()).await;
        let yielding = (0..3).map(|_| tokio::spawn(send(limiter.yielding()))).collect::<Vec<_>>();
        tokio::task::yield_now().await;
        assert_eq!(send(limiter.clone()).await, 1, "it does not wait behind those that yield");
        let others = (0..60).map(|_| tokio::spawn(send(limiter.clone()))).collect::<Vec<_>>();
        for request in yielding {
            let at = request.await.unwrap();
            assert!((50..=65).contains(&at), "sent after {at} tenths of a second");
        }
        for request in others {
            request.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_yield_share_what_is_left() {
        let limiter = RequestLimiter::new(10.0, 1).unwrap();
        let start = Instant::now();
        for _ in 0..5 {
            limiter.yielding().acquire().await;
        }
        assert_eq!(start.elapsed().as_millis().div_ceil(100), 4);
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

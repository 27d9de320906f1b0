//! The limiters: how long a failed key is delayed.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, Reference};
use kube_endpoint_workqueue::{
    InvalidRate, ItemExponentialFailureRateLimiter, MaxOfRateLimiter, RateLimiter, TokenBucket, TokioClock,
    controller_rate_limiter, default_controller_rate_limiter, endpoint_slice_mirroring_rate_limiter,
    endpoint_slice_rate_limiter,
};
use proptest::prelude::*;
use tokio::time::advance;

use crate::guarantees::{millis, secs};

fn nonzero(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("not zero")
}

/// Returns the delays after this many consecutive failures of one key.
fn waits(limiter: &impl RateLimiter<&'static str>, failures: usize) -> Vec<Duration> {
    (0..failures).map(|_| limiter.when(&"a")).collect()
}

#[test]
fn no_number_of_failures_overflows() {
    for (base, max) in [
        (millis(5), secs(1000)),
        (secs(1), Duration::MAX),
        (Duration::MAX, Duration::MAX),
        (Duration::from_nanos(1), secs(1000)),
        (secs(10), secs(1)),
    ] {
        let limiter = ItemExponentialFailureRateLimiter::new(base, max);
        let all = waits(&limiter, 200);
        assert_eq!(all[0], base.min(max));
        assert!(all.is_sorted(), "{base:?} {max:?}");
        assert_eq!(all[199], max);
    }
}

#[test]
fn with_a_base_of_zero_no_key_is_delayed() {
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::ZERO, secs(1));
    assert_eq!(waits(&limiter, 150), [Duration::ZERO; 150]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_too_far_away_is_not_reserved() {
    let bucket = TokenBucket::new(10.0, 1).unwrap();
    assert_eq!(bucket.reserve_within(millis(0)), Some(millis(0)));
    for _ in 0..1_000 {
        assert_eq!(bucket.reserve_within(millis(99)), None);
    }
    assert_eq!(bucket.reserve_within(millis(100)), Some(millis(100)));
    assert_eq!(bucket.reserve_within(millis(150)), None);
    assert_eq!(bucket.reserve(), millis(200));
}

#[tokio::test(start_paused = true)]
async fn the_bucket_accepts_fractional_rates() {
    let bucket = TokenBucket::new(0.5, 1).unwrap();
    assert_eq!([bucket.reserve(), bucket.reserve(), bucket.reserve()], [secs(0), secs(2), secs(4)]);
    let unlimited = TokenBucket::new(f64::INFINITY, 1).unwrap();
    assert!((0..100).all(|_| unlimited.reserve() < millis(1)));
}

#[test]
fn the_bucket_refuses_invalid_rates() {
    let check = |qps: f64, burst: u32, expected: &str| match TokenBucket::new(qps, burst) {
        Ok(_) => panic!("{qps} {burst} was taken"),
        Err(error) => assert_eq!(error.to_string(), expected),
    };
    check(0.0, 1, "invalid rate of 0 tokens per second: it must be a positive number");
    check(-1.0, 1, "invalid rate of -1 tokens per second: it must be a positive number");
    check(f64::NAN, 1, "invalid rate of NaN tokens per second: it must be a positive number");
    check(1.0, 0, "invalid burst of 0: it must be at least 1");
    assert!(matches!(TokenBucket::new(f64::MIN_POSITIVE, 1), Err(InvalidRate::Rate(_))), "one token in ages");
    assert!(matches!(TokenBucket::new(1e-9, 1000), Err(InvalidRate::Rate(_))), "one bucket in ages");
}

#[tokio::test(start_paused = true)]
async fn the_bucket_keeps_no_state_of_keys() {
    let bucket = TokenBucket::per_second(nonzero(1), nonzero(1));
    assert_eq!((bucket.when(&"a"), bucket.when(&"a"), bucket.when(&"b")), (secs(0), secs(1), secs(2)));
    RateLimiter::<&str>::forget(&bucket, &"a");
    assert_eq!(RateLimiter::<&str>::num_requeues(&bucket, &"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_that_do_not_wait_longer_reserve_nothing_for_later() {
    let limiter = controller_rate_limiter(millis(1), secs(1000), nonzero(1), nonzero(1));
    let delays: Vec<_> = (0..100).map(|key| limiter.when_within(&key, secs(5)).as_secs()).collect();
    assert_eq!(delays[..6], [0, 1, 2, 3, 4, 5]);
    assert_eq!(delays[6..], [5; 94]);
    advance(secs(6)).await;
    assert_eq!(limiter.when(&100), millis(1), "the bucket is not empty");
}

#[tokio::test(start_paused = true)]
async fn governors_own_limiter_follows_the_paused_clock() {
    let quota = governor::Quota::per_second(nonzero(1));
    let limiter = governor::RateLimiter::direct_with_clock(quota, TokioClock);
    assert!(limiter.check().is_ok());
    let wait = limiter.check().unwrap_err().wait_time_from(TokioClock.now());
    assert_eq!(wait, secs(1));
    let before = TokioClock.now();
    advance(wait).await;
    assert_eq!(TokioClock.now().duration_since(before), secs(1).into());
    assert_eq!(before.duration_since(TokioClock.now()), Duration::ZERO.into());
    assert_eq!(TokioClock.now().saturating_sub(secs(1).into()), before);
    assert!(limiter.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_of_several_limiters_applies() {
    let limiter = controller_rate_limiter(millis(150), secs(1), nonzero(10), nonzero(1));
    let when: Vec<_> = ["a", "b", "c", "a", "a"].iter().map(|key| limiter.when(key).as_millis()).collect();
    // Every call takes a token from the bucket, even if the key's own delay is longer.
    assert_eq!(when, [150, 150, 200, 300, 600]);
    assert_eq!((limiter.num_requeues(&"a"), limiter.num_requeues(&"b")), (3, 1));
    limiter.forget(&"a");
    assert_eq!((limiter.num_requeues(&"a"), limiter.num_requeues(&"b")), (0, 1));
}

#[test]
fn without_limiters_no_key_is_delayed() {
    let limiter = MaxOfRateLimiter::<&str>::new(Vec::new());
    assert_eq!((limiter.when(&"a"), limiter.num_requeues(&"a")), (Duration::ZERO, 0));
}

/// Checks the first and the last delay of a key, and the delay of the 101st of 101 keys that fail
/// at once, with a controller's limiter.
fn check_controller(limiter: &MaxOfRateLimiter<u32>, base: Duration, max: Duration) {
    assert_eq!(limiter.when(&0), base);
    assert_eq!(limiter.when(&0), base * 2);
    for _ in 0..30 {
        limiter.when(&0);
    }
    assert_eq!(limiter.when(&0), max);
    for key in 1..=67 {
        assert_eq!(limiter.when(&key), base, "key {key}");
    }
    // The bucket is empty now: 33 failures of the first key and 67 of others took 100 tokens.
    for key in 68..=200 {
        assert_eq!(limiter.when(&key), base.max(millis(u64::from(key - 67) * 100)), "key {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limiters_of_the_controllers_have_upstreams_values() {
    check_controller(&default_controller_rate_limiter(), millis(5), secs(1000));
    check_controller(&endpoint_slice_rate_limiter(), secs(1), secs(1000));
    check_controller(&endpoint_slice_mirroring_rate_limiter(), secs(1), secs(100));
}

proptest! {
    /// The bucket behaves like a count of tokens that may go below zero.
    #[test]
    fn the_bucket_behaves_like_a_count_of_tokens(
        qps in 1_u32..50,
        burst in 1_u32..20,
        steps in prop::collection::vec((0_u64..400, 0_usize..6), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let bucket = TokenBucket::per_second(nonzero(qps), nonzero(burst));
            // Counted in nanoseconds of refill time, so that all numbers are integers.
            let token = i64::from(1_000_000_000 / qps);
            let full = token * i64::from(burst);
            let mut credit = full;
            for (pause, places) in steps {
                advance(millis(pause)).await;
                credit = full.min(credit + i64::try_from(pause * 1_000_000).unwrap());
                for _ in 0..places {
                    credit -= token;
                    let expected = Duration::from_nanos(u64::try_from((-credit).max(0)).unwrap());
                    prop_assert_eq!(bucket.reserve(), expected);
                }
            }
            Ok(())
        })?;
    }
}

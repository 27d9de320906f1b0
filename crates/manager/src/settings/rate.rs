//! The client-side rate limit.

use super::error::{InvalidOption, in_range};

/// client-go's `rest.DefaultQPS`.
const DEFAULT_QPS: f64 = 5.0;
/// client-go's `rest.DefaultBurst`.
const DEFAULT_BURST: u32 = 10;
/// The lowest positive rate: a request in 17 minutes. At this rate, the token bucket can still
/// count the time of a burst of [`MOST_BURST`].
const LEAST_QPS: f64 = 0.001;
/// The largest burst.
const MOST_BURST: u32 = 1_000_000;

/// Resolves the client-side rate limit as client-go does (`NewForConfigAndClient` of the clientset,
/// then `RESTClientFor`):
///
/// - A rate of zero means client-go's default. Its default burst applies only if the burst is zero
///   too.
/// - A negative rate means no limit, whatever the burst.
/// - A positive rate needs a burst, and must be at least 0.001.
pub(super) fn request_rate(qps: f64, burst: u32) -> Result<(f64, u32), InvalidOption> {
    if qps == 0.0 {
        return Ok((DEFAULT_QPS, if burst == 0 { DEFAULT_BURST } else { burst }));
    }
    if qps < 0.0 {
        return Ok((qps, burst));
    }
    if qps < LEAST_QPS {
        let why =
            format!("a positive rate must be at least {LEAST_QPS}; 0 means 5, and a negative one no limit");
        // `{}` would print hundreds of digits.
        return Err(InvalidOption::new("--kube-api-qps", format!("{qps:e}"), why));
    }
    Ok((qps, in_range("--kube-api-burst", burst, 1, MOST_BURST)?))
}

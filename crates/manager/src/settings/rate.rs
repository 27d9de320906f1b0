//! The client-side rate limit.

use super::error::{InvalidOption, in_range};

/// client-go's `rest.DefaultQPS`.
const DEFAULT_QPS: f64 = 5.0;
/// client-go's `rest.DefaultBurst`.
const DEFAULT_BURST: u32 = 10;

/// Resolves the client-side rate limit as client-go does (`NewForConfigAndClient` of the clientset, then `RESTClientFor`):
///
/// - A rate of zero means client-go's default. Its default burst applies only if the burst is zero too.
/// - A negative rate means no limit, whatever the burst.
/// - A positive rate needs a burst.
pub(super) fn request_rate(qps: f64, burst: u32) -> Result<(f64, u32), InvalidOption> {
    if qps == 0.0 {
        return Ok((DEFAULT_QPS, if burst == 0 { DEFAULT_BURST } else { burst }));
    }
    if qps < 0.0 {
        return Ok((qps, burst));
    }
    Ok((qps, in_range("--kube-api-burst", burst, 1, 1_000_000)?))
}

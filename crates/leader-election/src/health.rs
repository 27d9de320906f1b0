//! The liveness check of leader election, after client-go's `HealthzAdaptor`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long past the expiry of its Lease a leader still counts as alive. kube-controller-manager
/// passes this value to `NewLeaderHealthzAdaptor`.
const TOLERANCE: Duration = Duration::from_secs(20);

/// Fails for a leader that has stopped renewing its Lease without exiting. A standby is always
/// healthy. Clones share the state.
///
/// A leader that cannot renew exits after the renew deadline. This check finds a leader that did
/// not, because its elector does not run any more.
#[derive(Clone, Debug)]
pub struct LeaseHealth {
    lease: Arc<str>,
    /// When the Lease expires, or `None` if this process does not lead.
    expiry: Arc<Mutex<Option<Instant>>>,
}

/// A leader has not renewed its Lease for 20 s past its expiry, and has not exited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {lease}: it expired {expired:?} ago")]
pub struct LeaseOverdue {
    pub lease: String,
    /// How long ago the Lease expired.
    pub expired: Duration,
}

impl LeaseHealth {
    pub(crate) fn new(lease: &str) -> Self {
        Self { lease: lease.into(), expiry: Arc::default() }
    }

    pub(crate) fn set_expiry(&self, expiry: Option<Instant>) {
        *self.expiry.lock() = expiry;
    }

    /// Checks that this process does not hold a Lease that expired more than 20 s ago.
    ///
    /// # Errors
    ///
    /// [`LeaseOverdue`] if it does.
    pub fn check(&self) -> Result<(), LeaseOverdue> {
        match self.overdue() {
            Some(expired) => Err(LeaseOverdue { lease: self.lease.to_string(), expired }),
            None => Ok(()),
        }
    }

    /// Returns how long ago the Lease expired that this process holds, or `None` if that is at most
    /// 20 s, or this process does not lead.
    pub fn overdue(&self) -> Option<Duration> {
        let expiry = (*self.expiry.lock())?;
        let expired = Instant::now().saturating_duration_since(expiry);
        (expired > TOLERANCE).then_some(expired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_leader_is_dead_20_s_after_the_expiry_of_its_lease() {
        let health = LeaseHealth::new("l");
        let shown = health.clone();
        assert_eq!(shown.check(), Ok(()));
        health.set_expiry(Some(Instant::now() + Duration::from_secs(15)));
        tokio::time::advance(Duration::from_secs(35)).await;
        assert_eq!(shown.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            shown.check().unwrap_err().to_string(),
            "failed election to renew leadership on lease l: it expired 21s ago"
        );
        health.set_expiry(None);
        assert_eq!(shown.overdue(), None);
    }
}

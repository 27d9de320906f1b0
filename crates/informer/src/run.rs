//! The list+watch loop of one kind: when to go on at once, when to wait, and when to list anew.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::error::ListWatchError;
use crate::metrics::RelistReason;
use crate::reflector::{ListMode, Reflector, ReflectorOptions, Step};
use crate::{ApiClient, Cluster, Object};

/// A watch that ended sooner and said nothing counts as a failure.
const TOO_SHORT: Duration = Duration::from_secs(1);
/// After a watch that lasted as long, listing anew is not waited for.
const LONG_ENOUGH: Duration = Duration::from_secs(10);

/// Lists and watches one kind, and feeds a cluster, until `shutdown` is ready. It never gives up: while the API server
/// cannot be reached or refuses, it says so, waits and tries again, and the cluster keeps what it has; one that has never
/// been listed stays unsynced.
pub async fn run<T: Object>(
    client: ApiClient,
    cluster: Cluster,
    options: ReflectorOptions,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let mut reflector = Reflector::<T>::new(client, &cluster, options);
    // The loop's future is a large one, and there are five of them.
    let mut forever = Box::pin(reflector.forever());
    tokio::select! {
        biased;
        () = &mut shutdown => {}
        () = &mut forever => {}
    }
}

impl<T: Object> Reflector<'_, T> {
    async fn forever(&mut self) {
        self.relist(RelistReason::Start);
        loop {
            let wait = match self.step().await {
                Ok(step) => self.after(step),
                Err(failure) => self.after_failure(failure),
            };
            if self.watching.is_some_and(|since| since.elapsed() >= LONG_ENOUGH) {
                self.relists.reset();
            }
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Returns how long to wait before the next step.
    fn after(&mut self, step: Step) -> Duration {
        match step {
            Step::Listed => Duration::ZERO,
            Step::Ended | Step::FellSilent if self.lasted() => {
                tracing::debug!(resource = T::KIND.name(), ?step, position = ?self.position, "the watch is over");
                Duration::ZERO
            }
            Step::Ended | Step::FellSilent => {
                self.try_again(&ListWatchError::Cut("the watch ended before it had begun".to_owned()))
            }
        }
    }

    /// Whether the last watch was one: it lasted for a while, or said something.
    fn lasted(&self) -> bool {
        self.heard || self.watching.is_some_and(|since| since.elapsed() >= TOO_SHORT)
    }

    /// Returns how long to wait before the next step.
    fn after_failure(&mut self, failure: ListWatchError) -> Duration {
        let is_beginning = self.position.is_none() && self.mode == ListMode::Stream;
        match &failure {
            ListWatchError::Cut(_) if self.watching.is_some() && self.lasted() => {
                self.metrics().failure(failure.reason());
                tracing::debug!(resource = T::KIND.name(), error = %failure, "the watch was cut");
                Duration::ZERO
            }
            ListWatchError::Expired(_) if self.listing.is_some() => {
                // By pages it may never work: the rest of the list is not kept for as long as it takes to read.
                self.whole = true;
                self.anew(&failure, RelistReason::Expired)
            }
            ListWatchError::Expired(_) => self.anew(&failure, RelistReason::Expired),
            ListWatchError::TooLargeResourceVersion(_) => {
                self.anew(&failure, RelistReason::TooLargeResourceVersion)
            }
            ListWatchError::Unintelligible(_) if self.watching.is_some() => {
                self.anew(&failure, RelistReason::Unintelligible)
            }
            ListWatchError::Refused { code, .. } if is_beginning && says_unsupported(*code) => {
                tracing::info!(
                    resource = T::KIND.name(),
                    error = %failure,
                    "the API server cannot begin a watch with the complete state; listing by pages"
                );
                self.mode = ListMode::Pages;
                Duration::ZERO
            }
            // A watch that told of an error, was resumed, and told of it again before anything else, has met something
            // that it cannot get past.
            ListWatchError::Refused { retry_after: None, .. }
                if self.watching.is_some() && !self.heard && !self.failures.is_none() =>
            {
                self.anew(&failure, RelistReason::Stuck)
            }
            ListWatchError::Refused { retry_after: Some(wait), .. } => {
                self.metrics().failure(failure.reason());
                self.warn(&failure, *wait);
                *wait
            }
            ListWatchError::Unreachable(_) => self.try_again(&failure),
            // Whatever it is that goes wrong with the complete state as a stream, it may not go wrong with pages.
            _ if is_beginning
                && !matches!(failure, ListWatchError::Refused { code: 401 | 403 | 429, .. }) =>
            {
                self.mode = ListMode::PagesOnce;
                self.try_again(&failure)
            }
            _ => self.try_again(&failure),
        }
    }

    /// One more failure in a row.
    fn try_again(&mut self, failure: &ListWatchError) -> Duration {
        self.metrics().failure(failure.reason());
        let wait = self.failures.another(&mut self.random);
        self.warn(failure, wait);
        wait
    }

    /// The kind must be listed anew: at once, unless that happened a moment ago.
    fn anew(&mut self, failure: &ListWatchError, reason: RelistReason) -> Duration {
        self.metrics().failure(failure.reason());
        let is_first = self.relists.is_none();
        let wait = self.relists.another(&mut self.random);
        let wait = if is_first { Duration::ZERO } else { wait };
        // That versions expire is the ordinary course of things.
        if !matches!(failure, ListWatchError::Expired(_)) {
            self.warn(failure, wait);
        }
        self.relist(reason);
        wait
    }

    fn warn(&self, failure: &ListWatchError, wait: Duration) {
        let doing = if self.position.is_some() { "watch" } else { "list" };
        // Nobody reads a pause to the nanosecond.
        let retry_in = Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        tracing::warn!(resource = T::KIND.name(), doing, error = %failure, ?retry_in, "trying again");
    }
}

/// Whether an answer says that a request is not understood, as opposed to not allowed or not now.
fn says_unsupported(code: u16) -> bool {
    matches!(code, 400..500) && !matches!(code, 401 | 403 | 408 | 410 | 429)
}

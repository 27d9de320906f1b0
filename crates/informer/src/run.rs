//! Runs a reflector: requests, transitions and delays.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::ListWatchError;
use crate::metrics::RelistReason;
use crate::reflector::Reflector;
use crate::state::{Next, State};
use crate::{ApiClient, Cluster, Object, ReflectorOptions};

/// After a watch that lasted this long, the next relist counts as the first of its run again.
const STABLE_WATCH: Duration = Duration::from_secs(10);

/// Lists and watches one kind, and applies what it receives to a cluster, until `shutdown` completes.
///
/// It never gives up. While the API server is unreachable or refuses requests, the reflector logs that and retries with
/// backoff; the cluster keeps its content. A kind that has never been listed stays unsynced.
pub async fn run<T: Object>(
    client: ApiClient,
    cluster: Cluster,
    options: ReflectorOptions,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let mut reflector = Reflector::<T>::new(client, &cluster, options);
    // Boxed, since the future is large and there is one for each kind.
    let mut forever = Box::pin(reflector.forever());
    tokio::select! {
        biased;
        () = &mut shutdown => {}
        () = &mut forever => {}
    }
}

impl<T: Object> Reflector<'_, T> {
    async fn forever(&mut self) {
        self.report_relist(RelistReason::Start);
        let mut state = State::initial(self.streaming_list, self.options.page_size);
        loop {
            state = self.step(state).await;
        }
    }

    /// Sends the request of a state, or waits for its delay. Returns the next state.
    async fn step(&mut self, mut state: State<T>) -> State<T> {
        match state {
            State::BackingOff { delay, next } => {
                tokio::time::sleep(delay).await;
                *next
            }
            State::Listing(mut listing) => match self.list_page(&mut listing).await {
                Ok(None) => State::Listing(listing),
                Ok(Some(version)) => {
                    self.replace(listing.builder, version);
                    State::watching(version)
                }
                Err(error) => self.failed(State::Listing(listing), &error),
            },
            State::Streaming { .. } | State::Watching { .. } => {
                let outcome = self.watch(&mut state).await;
                let now = Instant::now();
                let is_stable = state.connection().is_some_and(|it| now - it.since >= STABLE_WATCH);
                let next = match outcome {
                    Ok(end) if state.after_end(now) == Next::Resume => {
                        tracing::debug!(resource = T::KIND.name(), ?end, "the watch ended");
                        state.transition(Next::Resume, self.streaming_list, self.options.page_size)
                    }
                    Ok(_) => {
                        let error = "the watch ended at once, without an event".to_owned();
                        self.failed(state, &ListWatchError::Interrupted(error))
                    }
                    Err(error) => self.failed(state, &error),
                };
                if is_stable {
                    self.relists.reset();
                }
                next
            }
        }
    }

    /// The state after a request failed.
    fn failed(&mut self, state: State<T>, error: &ListWatchError) -> State<T> {
        let next = state.after_error(error, self.failures.count(), Instant::now());
        let doing = if matches!(state, State::Watching { .. }) { "watch" } else { "list" };
        if next != Next::DisableStreaming {
            self.metrics().watch_error(error.reason());
        }
        let delay = match next {
            Next::Resume => {
                tracing::debug!(resource = T::KIND.name(), %error, "the watch was interrupted");
                Duration::ZERO
            }
            Next::DisableStreaming => {
                tracing::info!(
                    resource = T::KIND.name(),
                    %error,
                    "the API server does not support streaming lists; listing in pages"
                );
                self.streaming_list = false;
                Duration::ZERO
            }
            Next::Retry | Next::ListInPages => {
                let delay = self.failures.next_delay(&mut self.random);
                warn::<T>(doing, error, delay);
                delay
            }
            Next::RetryAfter(delay) => {
                warn::<T>(doing, error, delay);
                delay
            }
            Next::Relist(reason) => self.relist_delay(reason, doing, error),
        };
        state.transition(next, self.streaming_list, self.options.page_size).delayed(delay)
    }

    /// Counts a relist. The first one is not delayed, those that follow in short succession are.
    fn relist_delay(&mut self, reason: RelistReason, doing: &str, error: &ListWatchError) -> Duration {
        let is_first = self.relists.count() == 0;
        let delay = self.relists.next_delay(&mut self.random);
        let delay = if is_first { Duration::ZERO } else { delay };
        // It is normal that versions expire.
        if reason != RelistReason::Expired {
            warn::<T>(doing, error, delay);
        }
        self.report_relist(reason);
        delay
    }

    fn report_relist(&self, reason: RelistReason) {
        tracing::info!(resource = T::KIND.name(), reason = reason.as_str(), "listing all objects");
        self.metrics().relist(reason);
    }
}

fn warn<T: Object>(doing: &str, error: &ListWatchError, delay: Duration) {
    // Whole milliseconds are easier to read.
    let retry_in = Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
    tracing::warn!(resource = T::KIND.name(), doing, %error, ?retry_in, "trying again");
}

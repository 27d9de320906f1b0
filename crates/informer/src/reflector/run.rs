//! Runs a reflector: requests, transitions and delays.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{AbortHandle, abortable};
use futures::stream::FuturesUnordered;
use kube_endpoint_core_model::ResourceVersion;
use rand::RngExt;
use tokio::time::Instant;

use crate::error::ListWatchError;
use crate::metrics::RelistReason;
use crate::reflector::Reflector;
use crate::reflector::history::StorageWentBack;
use crate::reflector::progress::ScopeProgress;
use crate::reflector::state::{Listing, Next, State};
use crate::reflector::status::{KindFailure, ListWatchVerb, whole_millis};
use crate::{ApiClient, Cluster, Object, ReflectorOptions, Scope, StreamEvent};

/// After a watch that lasted this long, the reflector does not delay the next relist.
const STABLE_WATCH: Duration = Duration::from_secs(10);

/// Lists and watches one kind, and applies the events to a cluster, until `shutdown` completes. If
/// the cluster holds only some namespaces, each of them has a list and watch of its own; nodes are
/// always listed as a whole. Leases are listed in the namespaces of the EndpointSelectors that name
/// one, as soon as the cluster shows them.
///
/// It never gives up. While the API server is unreachable or refuses requests, the reflector logs
/// that and retries with backoff; the cluster keeps its content. A kind that has never been listed
/// stays unsynced.
///
/// # Errors
///
/// If the server's storage went back. The caller has to stop everything that reads this cluster or
/// writes what it read there, to drop the cluster's handlers ([`Cluster::remove_handlers`]), and to
/// start again with a new cluster, whose evidence it should defer
/// ([`Cluster::defer_evidence_until`]).
///
/// ```no_run
/// use kube_endpoint_api_client::client_from_config;
/// use kube_endpoint_core_model::{Pod, Service};
/// use kube_endpoint_informer::{Cluster, Kind, ReflectorOptions, run};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = client_from_config(kube::Config::infer().await?).await?;
/// let cluster = Cluster::new([Kind::Pods, Kind::Services]);
/// // Pass a random seed in production.
/// let options = ReflectorOptions::new(1);
/// tokio::spawn(run::<Pod>(client.clone(), cluster.clone(), options, std::future::pending()));
/// tokio::spawn(run::<Service>(client, cluster.clone(), options, std::future::pending()));
/// cluster.synced().await;
/// for service in cluster.services() {
///     println!("{service} selects {} pods", cluster.pods_of(&service).len());
/// }
/// # Ok(())
/// # }
/// ```
pub async fn run<T: Object>(
    client: ApiClient,
    cluster: Cluster,
    options: ReflectorOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StorageWentBack> {
    let mut shutdown = pin!(shutdown);
    let mut scopes = cluster.inner.progress.watch_scopes(T::KIND);
    let mut reflectors = FuturesUnordered::new();
    let mut running: BTreeMap<Scope, (ScopeProgress, AbortHandle)> = BTreeMap::new();
    let mut number = 0;
    loop {
        let wanted = scopes.current();
        running.retain(|scope, (progress, reflector)| {
            let stays = wanted.iter().any(|(other, same)| other == scope && same == progress);
            if !stays {
                reflector.abort();
                // Nobody needs these objects any more.
                cluster.apply_in(scope, StreamEvent::<T>::restarted(Vec::new(), ResourceVersion::default()));
                cluster.update_failure_metrics(T::KIND);
            }
            stays
        });
        for (scope, progress) in wanted {
            if let Entry::Vacant(entry) = running.entry(scope.clone()) {
                let mut reflector = Reflector::<T>::new(client.clone(), &cluster, scope, number, options);
                number += 1;
                // Boxed, since the future is large and there is at least one for each kind.
                let (reflector, handle) = abortable(Box::pin(async move { reflector.forever().await }));
                reflectors.push(reflector);
                entry.insert((progress, handle));
            }
        }
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                went_back = cluster.storage_went_back() => return Err(went_back),
                () = scopes.changed() => break,
                // A reflector ends only when its scope is gone.
                Some(_) = reflectors.next() => {}
            }
        }
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
            State::BackingOff { delay, least, next } => {
                // Who requests a list has heard from the server.
                let requested = async {
                    tokio::time::sleep(least).await;
                    self.cluster.inner.progress.relist_requested(T::KIND, &self.scope).await;
                };
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(delay) => return *next,
                    () = requested => {}
                }
                let relist = RelistReason::Requested;
                self.report_relist(relist);
                next.transition(Next::Relist(relist), self.streaming_list, self.options.page_size)
            }
            State::Listing(mut listing) => match self.list_page(&mut listing).await {
                Ok(None) => State::Listing(listing),
                Ok(Some(version)) => {
                    if let Err(error) = self.check_list(version).await {
                        let again = State::Listing(Listing::new(self.options.page_size));
                        return self.failed(again, &error, Duration::ZERO);
                    }
                    let lock = self.cluster.fair_lock(T::KIND).await;
                    self.replace(listing.builder, version);
                    drop(lock);
                    State::watching(version)
                }
                Err(error) => self.failed(State::Listing(listing), &error, Duration::ZERO),
            },
            State::Checking { from } => match self.check_version(from).await {
                Ok(()) => State::watching(from),
                Err(error) => self.failed(State::Checking { from }, &error, Duration::ZERO),
            },
            State::Streaming { .. } | State::Watching { .. } => {
                let outcome = self.watch(&mut state).await;
                let now = Instant::now();
                if state.connection().is_some_and(|it| now - it.since >= STABLE_WATCH) {
                    self.relists.reset();
                }
                let pause = self.short_watches.ended(state.connection(), now);
                let end = match outcome {
                    Ok(end) => end,
                    Err(error) => return self.failed(state, &error, pause),
                };
                match state.after_end(end, now) {
                    next @ (Next::Resume | Next::Check) => {
                        tracing::debug!(
                            resource = T::KIND.name(),
                            namespace = self.scope.namespace(),
                            ?end,
                            "the watch ended"
                        );
                        state
                            .transition(next, self.streaming_list, self.options.page_size)
                            .delayed(pause, Duration::ZERO)
                    }
                    next @ Next::Relist(reason) => {
                        self.report_relist(reason);
                        state.transition(next, self.streaming_list, self.options.page_size)
                    }
                    _ => {
                        let error = "the watch ended at once, without an event".to_owned();
                        self.failed(state, &ListWatchError::Interrupted(error), pause)
                    }
                }
            }
        }
    }

    /// Returns the state after a request failed. A resumed watch waits for `pause`.
    fn failed(&mut self, state: State<T>, error: &ListWatchError, pause: Duration) -> State<T> {
        let next = state.after_error(error, self.failures.count(), Instant::now());
        if let ListWatchError::VersionWentBack { server, position } = *error {
            self.report_versions(server, position);
        }
        let verb = match state {
            State::Streaming { .. } | State::Watching { .. } => ListWatchVerb::Watch,
            _ => ListWatchVerb::List,
        };
        if next != Next::DisableStreaming {
            self.metrics().watch_error(error.reason());
        }
        let delay = match next {
            Next::Resume | Next::Check => {
                tracing::debug!(resource = T::KIND.name(), namespace = self.scope.namespace(), %error, "the watch was interrupted");
                pause
            }
            Next::DisableStreaming => {
                tracing::info!(
                    resource = T::KIND.name(),
                    namespace = self.scope.namespace(),
                    %error,
                    "the API server does not support streaming lists; listing in pages"
                );
                self.streaming_list = false;
                Duration::ZERO
            }
            Next::Retry | Next::RetryWithCheck | Next::ListInPages => self.retry_delay(verb, error),
            Next::Relist(RelistReason::ContinueRefused) => {
                self.report_relist(RelistReason::ContinueRefused);
                self.retry_delay(verb, error)
            }
            Next::Relist(reason) => self.relist_delay(reason, verb, error),
        };
        let least = error.retry_after().unwrap_or_default();
        state.transition(next, self.streaming_list, self.options.page_size).delayed(delay, least)
    }

    /// Counts a failure and reports it. The delay grows with each one and is not shorter than what
    /// the server asked for.
    fn retry_delay(&mut self, verb: ListWatchVerb, error: &ListWatchError) -> Duration {
        if self.failures.count() == 0 {
            self.failing_since = Instant::now();
        }
        let delay = self.failures.next_delay(&mut self.random).max(self.retry_after(error));
        let failure = KindFailure {
            verb,
            reason: error.reason(),
            code: error.code(),
            message: error.to_string(),
            failures: self.failures.count(),
            since: self.failing_since,
        };
        let is_synced = self.cluster.inner.progress.is_synced(T::KIND, &self.scope);
        failure.log(T::KIND, &self.scope, is_synced, delay);
        self.cluster.record_failure(T::KIND, &self.scope, Some(failure));
        delay
    }

    /// Returns the delay that the server asked for, lengthened by a random part of up to a quarter,
    /// so that clients that got the same answer do not return together.
    fn retry_after(&mut self, error: &ListWatchError) -> Duration {
        let Some(delay) = error.retry_after() else { return Duration::ZERO };
        delay.mul_f64(self.random.random_range(1.0..1.25))
    }

    /// Counts a relist. Returns a delay, unless the relist is the first of its run.
    fn relist_delay(
        &mut self,
        reason: RelistReason,
        verb: ListWatchVerb,
        error: &ListWatchError,
    ) -> Duration {
        let is_first = self.relists.count() == 0;
        let delay = self.relists.next_delay(&mut self.random);
        let delay = if is_first { Duration::ZERO } else { delay };
        // Versions expire in normal operation.
        if reason != RelistReason::Expired {
            tracing::warn!(
                resource = T::KIND.name(),
                namespace = self.scope.namespace(),
                verb = verb.as_str(),
                %error,
                retry_in = ?whole_millis(delay),
                "the store must be filled again"
            );
        }
        self.report_relist(reason);
        delay
    }

    fn report_relist(&self, reason: RelistReason) {
        let namespace = self.scope.namespace();
        tracing::info!(resource = T::KIND.name(), namespace, reason = reason.as_str(), "listing all objects");
        self.metrics().relist(reason);
    }
}

//! The requests of a reflector, and how it handles the answers.

pub(crate) mod backoff;
pub(crate) mod fair_lock;
pub(crate) mod history;
pub(crate) mod progress;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod version_check;

use futures::FutureExt;
use kube_endpoint_core_model::{Interner, ResourceVersion};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

use crate::error::ListWatchError;
use crate::metrics::KindMetrics;
use crate::reflector::backoff::Failures;
use crate::reflector::state::{Connection, Listing, ShortWatches, State, WatchEnd};
use crate::reflector::version_check::{Compared, VersionChecks, compare};
use crate::store::list_builder::ListBuilder;
use crate::store::long_work::long_work;
use crate::wire::decode::{self, Frame, Raw, Undecodable};
use crate::wire::echo;
use crate::wire::list_parts::{ListParts, WatchParts};
use crate::wire::request::{Target, get, list_path, next_chunk, next_chunk_since, watch_path};
use crate::wire::undecodable::UndecodableObjects;
use crate::{ApiClient, Cluster, Object, Origin, ReflectorOptions, Scope, StreamEvent};

/// Lists and watches one kind. A [`State`] says what it does next; this struct holds what lasts
/// from one request to the next.
pub(crate) struct Reflector<'a, T> {
    client: ApiClient,
    pub(crate) cluster: &'a Cluster,
    pub(crate) scope: Scope,
    target: Target,
    pub(crate) options: ReflectorOptions,
    /// True if the reflector requests the next complete state as a stream. Turns false when the
    /// server does not support that.
    pub(crate) streaming_list: bool,
    pub(crate) random: ChaCha8Rng,
    interner: Interner,
    undecodable: UndecodableObjects<'a, T>,
    /// Consecutive failures.
    pub(crate) failures: Failures,
    /// When the first of them happened.
    pub(crate) failing_since: Instant,
    /// Relists in short succession.
    pub(crate) relists: Failures,
    checks: VersionChecks,
    pub(crate) short_watches: ShortWatches,
}

impl<'a, T: Object> Reflector<'a, T> {
    /// `number` distinguishes the reflectors of a kind: each has a random stream of its own.
    pub(crate) fn new(
        client: ApiClient,
        cluster: &'a Cluster,
        scope: Scope,
        number: u64,
        options: ReflectorOptions,
    ) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        random.set_stream(T::KIND as u64 + (number << 8));
        let target = Target::new(&T::RESOURCE, &scope);
        Self {
            client,
            cluster,
            scope,
            options,
            streaming_list: options.streaming_list,
            target,
            random,
            interner: Interner::default(),
            undecodable: UndecodableObjects::new(cluster.metrics(T::KIND)),
            failures: Failures::new(options.backoff),
            failing_since: Instant::now(),
            relists: Failures::new(options.backoff),
            checks: VersionChecks::default(),
            short_watches: ShortWatches::default(),
        }
    }

    pub(crate) fn metrics(&self) -> &'a KindMetrics {
        self.cluster.metrics(T::KIND)
    }

    /// Requests the next page of a list. Returns the version of the list if the page was the last
    /// one.
    ///
    /// After an error the listing is as before, so that the reflector can request the page again.
    pub(crate) async fn list_page(
        &mut self,
        listing: &mut Listing<T>,
    ) -> Result<Option<ResourceVersion>, ListWatchError> {
        if listing.token.is_none() {
            self.cluster.inner.progress.begin_list(T::KIND, &self.scope);
        }
        let path = list_path(&self.target, listing.limit, listing.token.as_deref());
        let idle_timeout = self.options.idle_timeout;
        let (mut body, content_type) = get(&self.client, &path, idle_timeout).await?;
        let mut parts = ListParts::new(content_type, T::RESOURCE.list_kind);
        let mut builder = ListBuilder::default();
        let mut add = |raw: Raw<'_>| match self.decode(raw) {
            Ok(item) => builder.add(item),
            Err(object) => builder.put_undecodable(object.key),
        };
        while let Some(chunk) = next_chunk(&mut body, idle_timeout).await? {
            parts.push(chunk, &mut add)?;
        }
        let page = parts.finish::<T>(add)?;
        if page.next.as_ref().is_some_and(|next| listing.tokens.contains(next)) {
            return Err(ListWatchError::SamePage);
        }
        listing.tokens.extend(page.next.clone());
        listing.builder.append(builder);
        self.succeeded();
        listing.token = page.next;
        Ok(listing.token.is_none().then_some(page.resource_version))
    }

    /// Requests a watch and applies its events until it ends. `state` is `Streaming` or `Watching`,
    /// and becomes `Watching` when the complete state has arrived.
    pub(crate) async fn watch(&mut self, state: &mut State<T>) -> Result<WatchEnd, ListWatchError> {
        let idle_timeout = self.options.idle_timeout;
        let timeout = self.options.watch_timeout.mul_f64(self.random.random_range(1.0..2.0));
        let from = match state {
            State::Watching { from, .. } => Some(*from),
            _ => None,
        };
        let progress = &self.cluster.inner.progress;
        if from.is_none() {
            progress.begin_list(T::KIND, &self.scope);
        } else if progress.relist_requested(T::KIND, &self.scope).now_or_never().is_some() {
            // Relists before it opens the watch, which the server may refuse for hours.
            return Ok(WatchEnd::Relist);
        }
        let path = watch_path(&self.target, from, timeout);
        let (mut body, content_type) = get(&self.client, &path, idle_timeout).await?;
        if let State::Watching { connection, .. } = state {
            *connection = Some(Connection::new(Instant::now()));
        }
        let mut parts = WatchParts::new(content_type);
        let mut heard = Instant::now();
        self.checks.begin_watch();
        loop {
            let is_complete = state.connection().is_some();
            let chunk = match state {
                State::Watching { from, .. } => tokio::select! {
                    biased;
                    chunk = next_chunk_since(&mut body, heard, idle_timeout) => chunk,
                    checked = self.checks.next::<T>(&self.client, (self.cluster, &self.scope), &self.options, heard, *from) => {
                        checked?;
                        continue;
                    }
                    () = progress.relist_requested(T::KIND, &self.scope) => {
                        return Ok(WatchEnd::Relist);
                    }
                },
                _ => next_chunk(&mut body, idle_timeout).await,
            };
            heard = Instant::now();
            let chunk = match chunk {
                Err(ListWatchError::IdleTimeout(_)) if is_complete => return Ok(WatchEnd::Idle),
                Err(error) => return Err(error),
                Ok(None) if is_complete => return Ok(WatchEnd::Closed),
                Ok(None) => {
                    let error = "the watch ended before the initial events were complete";
                    return Err(ListWatchError::Interrupted(error.to_owned()));
                }
                Ok(Some(chunk)) => chunk,
            };
            parts.push(chunk);
            while let Some(event) = parts.next()? {
                let lock = self.cluster.fair_lock(T::KIND).await;
                let complete = parts.with_frame(&event, |frame| self.apply_frame(state, heard, frame))?;
                drop(lock);
                if let (Some(version), State::Streaming { builder }) = (complete, &mut *state) {
                    self.succeeded();
                    self.check_list(version).await?;
                    let lock = self.cluster.fair_lock(T::KIND).await;
                    self.replace(std::mem::take(builder), version);
                    drop(lock);
                    let connection = Some(Connection::new(Instant::now()));
                    *state = State::Watching { from: version, connection };
                }
                self.cluster.yield_after_work().await;
            }
        }
    }

    /// Compares the server's version with that of a watch. If it was lower and is not any more, the
    /// next step lists the kind.
    pub(crate) async fn check_version(&mut self, from: ResourceVersion) -> Result<(), ListWatchError> {
        let target = Target::new(&T::RESOURCE, &self.scope);
        let compared = compare::<T>(self.client.clone(), target, self.options.idle_timeout, from).await?;
        if compared == Compared::LowerOnce {
            self.cluster.inner.progress.version_was_lower(T::KIND, &self.scope);
        }
        Ok(())
    }

    /// Checks the version of a complete list before the store applies it.
    ///
    /// # Errors
    ///
    /// If the version is lower than the position of the store, and the server's is not: the list is
    /// not the consistent one that the reflector asked for.
    pub(crate) async fn check_list(&mut self, version: ResourceVersion) -> Result<(), ListWatchError> {
        let position = self.cluster.inner.progress.position(T::KIND, &self.scope);
        if version.is_none() || version >= position {
            return Ok(());
        }
        match self.check_version(position).await {
            Ok(()) => Err(ListWatchError::InvalidResponse(format!(
                "the list has version {version}, although {position} was read before"
            ))),
            Err(ListWatchError::VersionWentBack { server, position }) => {
                self.report_versions(server, position);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reports that the server's version is lower than one that this process read before. The next
    /// complete list replaces the store, whatever its version.
    pub(crate) fn report_versions(&self, server: ResourceVersion, position: ResourceVersion) {
        self.cluster.inner.progress.forget_position(T::KIND, &self.scope);
        let kind = T::KIND.name();
        self.cluster.report_storage_went_back(format!(
            "the API server's version of {kind} was {server}, although {position} had been read before"
        ));
    }

    /// Applies an event of a watch, which arrived at this time. Returns the version of the complete
    /// state if the event completes it.
    fn apply_frame(
        &mut self,
        state: &mut State<T>,
        arrived: Instant,
        frame: Frame<'_>,
    ) -> Option<ResourceVersion> {
        match state {
            State::Streaming { builder } => return self.apply_initial_event(builder, frame),
            State::Watching { from, connection } => {
                if let Some(connection) = connection {
                    connection.has_events = true;
                }
                self.succeeded();
                let version = self.apply_event(arrived, frame);
                if !version.is_none() {
                    *from = version;
                }
            }
            State::Listing(_) | State::Checking { .. } | State::BackingOff { .. } => {}
        }
        None
    }

    /// Applies an event of the initial state. Returns the version of that state if the event
    /// completes it.
    fn apply_initial_event(
        &mut self,
        builder: &mut ListBuilder<T>,
        frame: Frame<'_>,
    ) -> Option<ResourceVersion> {
        match frame {
            Frame::Bookmark { resource_version, ends_initial_events: true } => return Some(resource_version),
            Frame::Bookmark { .. } => {}
            Frame::Added(raw) | Frame::Modified(raw) => {
                let is_new = matches!(frame, Frame::Added(_));
                match self.decode(raw) {
                    Ok(item) if is_new => builder.add(item),
                    Ok(item) => builder.put(item),
                    Err(object) => builder.put_undecodable(object.key),
                }
            }
            Frame::Deleted(raw) => {
                let key = decode::object::<T>(raw, &mut self.interner)
                    .map_or_else(|object| object.key, |item| Some(item.key()));
                if let Some(key) = key {
                    builder.remove(&key);
                }
            }
        }
        None
    }

    /// Applies an event of a watch to the store. Returns the event's version, or the default
    /// version if the event does not tell it.
    fn apply_event(&mut self, arrived: Instant, frame: Frame<'_>) -> ResourceVersion {
        let (event, version) = match frame {
            Frame::Bookmark { resource_version, .. } => {
                (StreamEvent::Bookmark(resource_version), resource_version)
            }
            Frame::Added(raw) | Frame::Modified(raw) => match self.decode(raw) {
                Ok(item) => {
                    if !self.undecodable.is_empty() {
                        self.undecodable.remove(&item.key());
                    }
                    let version = item.resource_version();
                    (StreamEvent::Applied(item), version)
                }
                // The store keeps the last view of the object, and the watch continues after it.
                Err(object) => (StreamEvent::Bookmark(object.resource_version), object.resource_version),
            },
            Frame::Deleted(raw) => match decode::object::<T>(raw, &mut self.interner) {
                Ok(last) => {
                    self.undecodable.remove(&last.key());
                    let version = last.resource_version();
                    (StreamEvent::Deleted(last), version)
                }
                Err(Undecodable { key: Some(key), resource_version, .. }) => {
                    self.undecodable.remove(&key);
                    (StreamEvent::DeletedFinalStateUnknown { key, resource_version }, resource_version)
                }
                Err(object) => {
                    self.undecodable.report(&object);
                    return object.resource_version;
                }
            },
        };
        T::apply(self.cluster, Origin { scope: self.scope.clone(), arrived }, event);
        version
    }

    /// Replaces the store's content with a complete state.
    pub(crate) fn replace(&mut self, list: ListBuilder<T>, version: ResourceVersion) {
        tracing::debug!(resource = T::KIND.name(), namespace = self.scope.namespace(), %version, "listed all objects");
        let undecodable_before = self.undecodable.replace(list.undecodable().clone());
        let event = list.finish(version, undecodable_before);
        long_work(|| self.cluster.apply_in(&self.scope, event));
    }

    /// Ends a run of failures.
    fn succeeded(&mut self) {
        let failures = self.failures.count();
        if failures > 0 {
            tracing::info!(
                resource = T::KIND.name(),
                namespace = self.scope.namespace(),
                failures,
                "the API server answers again"
            );
            self.failures.reset();
            self.cluster.record_failure(T::KIND, &self.scope, None);
        }
    }

    fn decode(&mut self, raw: Raw<'_>) -> Result<T, Undecodable> {
        let ledger = self.cluster.ledger(T::KIND);
        let decoded = if ledger.is_empty() {
            decode::object::<T>(raw, &mut self.interner)
        } else {
            echo::object::<T>(raw, ledger, &mut self.interner)
        };
        match decoded {
            Ok(mut item) => {
                item.share_strings(self.cluster);
                if self.cluster.summarizes_endpoints() {
                    item.summarize();
                }
                Ok(item)
            }
            Err(object) => {
                self.undecodable.report(&object);
                Err(object)
            }
        }
    }
}

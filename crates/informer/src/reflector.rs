//! The list+watch loop of one kind: what is asked for, and what is made of the answers.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_core_model::{Interner, ObjectKey, ResourceVersion};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::value::RawValue;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::backoff::{Backoff, Failures};
use crate::decode::{self, Line, Undecodable};
use crate::error::ListWatchError;
use crate::line_splitter::LineSplitter;
use crate::list_builder::ListBuilder;
use crate::metrics::{KindMetrics, RelistReason};
use crate::request::{collect, list_path, open, piece, watch_path};
use crate::{ApiClient, Cluster, Object, StreamEvent};

/// How a kind is listed and watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorOptions {
    /// Whether to ask for the complete state as the beginning of a watch, before listing by pages.
    pub streaming_list: bool,
    /// How many objects a page holds at most; zero asks for all of them at once.
    pub page_size: u32,
    /// How to wait after failures.
    pub backoff: Backoff,
    /// A watch is asked to last between this and twice as long.
    pub watch_timeout: Duration,
    /// How long nothing at all may come before a connection counts as dead. Servers send bookmarks every minute.
    pub idle_timeout: Duration,
    /// Seed of the random numbers: backoff jitter and watch durations. Each kind draws from its own stream.
    pub seed: u64,
}

impl ReflectorOptions {
    /// Upstream's values where it has them. There is no default seed: processes that share one would retry in step.
    pub fn new(seed: u64) -> Self {
        Self {
            streaming_list: true,
            page_size: 500,
            backoff: Backoff::default(),
            watch_timeout: Duration::from_secs(5 * 60),
            idle_timeout: Duration::from_secs(150),
            seed,
        }
    }

    /// Sets [`streaming_list`](Self::streaming_list).
    pub fn streaming_list(self, streaming_list: bool) -> Self {
        Self { streaming_list, ..self }
    }

    /// Sets [`page_size`](Self::page_size).
    pub fn page_size(self, page_size: u32) -> Self {
        Self { page_size, ..self }
    }

    /// Sets [`backoff`](Self::backoff).
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Sets [`watch_timeout`](Self::watch_timeout).
    pub fn watch_timeout(self, watch_timeout: Duration) -> Self {
        Self { watch_timeout, ..self }
    }

    /// Sets [`idle_timeout`](Self::idle_timeout).
    pub fn idle_timeout(self, idle_timeout: Duration) -> Self {
        Self { idle_timeout, ..self }
    }
}

/// How the complete state is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListMode {
    /// As the beginning of a watch.
    Stream,
    /// By pages, this time.
    PagesOnce,
    /// By pages, always.
    Pages,
}

/// The state of the loop.
pub(crate) struct Reflector<'a, T> {
    client: ApiClient,
    pub(crate) cluster: &'a Cluster,
    pub(crate) options: ReflectorOptions,
    pub(crate) random: ChaCha8Rng,
    interner: Interner,
    /// Objects that were reported as not to be decoded.
    undecodable: BTreeSet<ObjectKey>,
    /// Where to watch from; none when the complete state must be asked for.
    pub(crate) position: Option<ResourceVersion>,
    pub(crate) mode: ListMode,
    /// Whether to list all at once instead of by pages, this time: the rest of the list was not kept for long enough.
    pub(crate) whole: bool,
    /// What has come of the list, and the token of its next page. It survives failures between pages.
    pub(crate) listing: Option<(ListBuilder<T>, String)>,
    /// Since when the watch is open and past its beginning, and whether it has said anything since.
    pub(crate) watching: Option<Instant>,
    pub(crate) heard: bool,
    /// Requests that failed one after the other.
    pub(crate) failures: Failures,
    /// Watches that ended, one soon after the other, so that the kind had to be listed anew.
    pub(crate) relists: Failures,
}

/// How a step ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A page came.
    Listed,
    /// The server ended the watch.
    Ended,
    /// Nothing came for too long, as on a connection that died unnoticed.
    FellSilent,
}

impl<'a, T: Object> Reflector<'a, T> {
    pub(crate) fn new(client: ApiClient, cluster: &'a Cluster, options: ReflectorOptions) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        random.set_stream(T::KIND as u64);
        let mode = if options.streaming_list { ListMode::Stream } else { ListMode::Pages };
        let (failures, relists) = (Failures::new(options.backoff), Failures::new(options.backoff));
        Self {
            client,
            cluster,
            options,
            random,
            interner: Interner::default(),
            undecodable: BTreeSet::new(),
            position: None,
            mode,
            whole: false,
            listing: None,
            watching: None,
            heard: false,
            failures,
            relists,
        }
    }

    pub(crate) fn metrics(&self) -> &'a KindMetrics {
        self.cluster.metrics(T::KIND)
    }

    /// The complete state must be asked for.
    pub(crate) fn relist(&mut self, reason: RelistReason) {
        tracing::info!(resource = T::KIND.name(), reason = reason.as_str(), "listing all objects");
        self.metrics().relist(reason);
        self.position = None;
        self.listing = None;
    }

    /// Does what comes next: a page of a list, or a watch for as long as it lasts.
    pub(crate) async fn step(&mut self) -> Result<Step, ListWatchError> {
        (self.watching, self.heard) = (None, false);
        match (self.position, self.mode) {
            (Some(_), _) | (None, ListMode::Stream) => self.watch().await,
            (None, _) => self.page().await,
        }
    }

    async fn page(&mut self) -> Result<Step, ListWatchError> {
        let limit = if self.whole { 0 } else { self.options.page_size };
        let token = self.listing.as_ref().map(|(_, token)| &**token);
        let path = list_path(&T::RESOURCE, limit, token);
        let mut body = open(&self.client, &path, self.options.idle_timeout).await?;
        let text = collect(&mut body, self.options.idle_timeout).await?;
        let text = decode::text(&text);
        let page = decode::page::<T>(&text)?;
        let mut collected = self.listing.take().map(|(collected, _)| collected).unwrap_or_default();
        for raw in page.items {
            match self.decode(raw) {
                Ok(item) => collected.add(item),
                Err(object) => collected.put_undecodable(object.key),
            }
        }
        self.went_well();
        match page.next {
            Some(token) => self.listing = Some((collected, token)),
            None => self.listed(collected, page.resource_version),
        }
        Ok(Step::Listed)
    }

    async fn watch(&mut self) -> Result<Step, ListWatchError> {
        let idle_timeout = self.options.idle_timeout;
        let timeout = self.options.watch_timeout.mul_f64(self.random.random_range(1.0..2.0));
        let path = watch_path(&T::RESOURCE, self.position, timeout);
        let mut body = open(&self.client, &path, idle_timeout).await?;
        // What has come of the complete state, until it is complete.
        let mut beginning = match self.position {
            Some(_) => {
                self.watching = Some(Instant::now());
                None
            }
            None => Some(ListBuilder::default()),
        };
        let mut lines = LineSplitter::default();
        loop {
            let piece = match piece(&mut body, idle_timeout).await {
                Err(ListWatchError::Silent(_)) if beginning.is_none() => return Ok(Step::FellSilent),
                Err(failure) => return Err(failure),
                Ok(None) if beginning.is_none() => return Ok(Step::Ended),
                Ok(None) => return Err(ListWatchError::Cut("the state was not complete".to_owned())),
                Ok(Some(piece)) => piece,
            };
            lines.push(piece);
            while let Some(line) = lines.next() {
                let text = decode::text(&line);
                let line = decode::line(&text)?;
                beginning = match beginning {
                    Some(collected) => self.begin(collected, line),
                    None => {
                        self.heard = true;
                        self.went_well();
                        self.hear(line);
                        None
                    }
                };
            }
        }
    }

    /// Takes a line of the beginning of a watch. Returns what has come so far, or none once it is complete.
    fn begin(&mut self, mut collected: ListBuilder<T>, line: Line<'_>) -> Option<ListBuilder<T>> {
        match line {
            Line::Bookmark { resource_version, ends_initial_events: true } => {
                self.went_well();
                self.watching = Some(Instant::now());
                self.listed(collected, resource_version);
                return None;
            }
            Line::Bookmark { .. } => {}
            Line::Added(raw) | Line::Modified(raw) => {
                let is_new = matches!(line, Line::Added(_));
                match self.decode(raw) {
                    Ok(item) if is_new => collected.add(item),
                    Ok(item) => collected.put(item),
                    Err(object) => collected.put_undecodable(object.key),
                }
            }
            Line::Deleted(raw) => {
                if let Some(key) = decode::object::<T>(raw, &mut self.interner)
                    .map_or_else(|object| object.key, |item| Some(item.key()))
                {
                    collected.remove(&key);
                }
            }
        }
        Some(collected)
    }

    /// Takes a line of a watch.
    fn hear(&mut self, line: Line<'_>) {
        let (event, version) = match line {
            Line::Bookmark { resource_version, .. } => {
                (Some(StreamEvent::Bookmark(resource_version)), resource_version)
            }
            Line::Added(raw) | Line::Modified(raw) => match self.decode(raw) {
                Ok(item) => {
                    let version = item.resource_version();
                    (Some(StreamEvent::Applied(item)), version)
                }
                // The store keeps what it has; all else goes on from here.
                Err(object) => {
                    (Some(StreamEvent::Bookmark(object.resource_version)), object.resource_version)
                }
            },
            Line::Deleted(raw) => self.hear_deletion(raw),
        };
        if let Some(event) = event {
            self.cluster.apply(event);
        }
        if !version.is_none() {
            self.position = Some(version);
        }
    }

    fn hear_deletion(&mut self, raw: &RawValue) -> (Option<StreamEvent<T>>, ResourceVersion) {
        match decode::object::<T>(raw, &mut self.interner) {
            Ok(last) => {
                self.forget(&last.key());
                let version = last.resource_version();
                (Some(StreamEvent::Deleted(last)), version)
            }
            // Of what is gone, the name is enough.
            Err(Undecodable { key: Some(key), resource_version, .. }) => {
                self.forget(&key);
                (Some(StreamEvent::DeletedFinalStateUnknown { key, resource_version }), resource_version)
            }
            Err(object) => {
                self.report(&object);
                (None, object.resource_version)
            }
        }
    }

    /// The complete state has come.
    fn listed(&mut self, collected: ListBuilder<T>, version: ResourceVersion) {
        tracing::debug!(resource = T::KIND.name(), %version, "listed all objects");
        self.undecodable.retain(|key| collected.undecodable().contains(key));
        self.metrics().undecodable_objects.set(self.undecodable.len() as f64);
        let event = collected.finish(version);
        // To compare and index hundreds of thousands of objects takes long enough to be felt by whatever else this thread
        // would have to do meanwhile, such as renewing a lease.
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| self.cluster.apply(event)),
            _ => self.cluster.apply(event),
        }
        self.position = Some(version);
        self.whole = false;
        if self.mode == ListMode::PagesOnce {
            self.mode = ListMode::Stream;
        }
    }

    fn went_well(&mut self) {
        if !self.failures.is_none() {
            tracing::info!(
                resource = T::KIND.name(),
                failures = self.failures.count(),
                "the API server answers again"
            );
            self.failures.reset();
        }
    }

    fn decode(&mut self, raw: &RawValue) -> Result<T, Undecodable> {
        let outcome = decode::object::<T>(raw, &mut self.interner);
        match &outcome {
            Ok(item) if !self.undecodable.is_empty() => self.forget(&item.key()),
            Ok(_) => {}
            Err(object) => self.report(object),
        }
        outcome
    }

    /// Says that an object cannot be decoded: counts it each time, and logs it the first time.
    fn report(&mut self, object: &Undecodable) {
        self.metrics().undecodable.increment(1);
        let is_known = object.key.as_ref().is_some_and(|key| !self.undecodable.insert(key.clone()));
        self.metrics().undecodable_objects.set(self.undecodable.len() as f64);
        if !is_known {
            let key = object.key.as_ref().map_or_else(|| "(no name)".to_owned(), ToString::to_string);
            tracing::warn!(
                resource = T::KIND.name(),
                %key,
                version = %object.resource_version,
                error = object.error,
                "an object cannot be decoded; its last known state stays in use"
            );
        }
    }

    /// An object can be decoded, or is gone.
    fn forget(&mut self, key: &ObjectKey) {
        if self.undecodable.remove(key) {
            self.metrics().undecodable_objects.set(self.undecodable.len() as f64);
        }
    }
}

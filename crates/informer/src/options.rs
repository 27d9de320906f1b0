//! Options of clusters and reflectors.

use std::time::Duration;

use kube_endpoint_core_model::Backoff;

use crate::{PodLogOptions, WatchedNamespaces};

/// Options of a [`Cluster`](crate::Cluster).
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The namespaces that the stores hold; all by default.
    pub watched_namespaces: WatchedNamespaces,
    /// Determines which Services have a log of changed pods, and how long it is.
    pub pod_log: PodLogOptions,
}

/// Options of a reflector, see [`run`](crate::run).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorOptions {
    /// True if the reflector requests the complete state as the initial events of a watch
    /// (`sendInitialEvents`), before it falls back to a list in pages.
    pub streaming_list: bool,
    /// The maximum number of objects in a page; with 0 the server sends all objects in one
    /// response.
    pub page_size: u32,
    /// The growth of delays after failures. The reflector shortens each by a random part of up to
    /// half.
    pub backoff: Backoff,
    /// The reflector requests each watch for a random time between this and twice this.
    pub watch_timeout: Duration,
    /// A connection on which nothing arrives for this long counts as dead. API servers send
    /// bookmarks every minute.
    pub idle_timeout: Duration,
    /// The reflector checks an open watch after this long without an event or a bookmark: a list of
    /// one object shows if the server's version is lower than the position of the watch.
    pub silence: Duration,
    /// The seed of backoff jitter and watch timeouts. Each kind draws from a random stream of its
    /// own.
    pub seed: u64,
}

impl ReflectorOptions {
    /// Returns upstream's values where it has them. The seed has no default: processes that share
    /// one would retry in step.
    pub fn new(seed: u64) -> Self {
        Self {
            streaming_list: true,
            page_size: 500,
            backoff: Backoff::new(Duration::from_millis(800), Duration::from_secs(30)),
            watch_timeout: Duration::from_secs(5 * 60),
            idle_timeout: Duration::from_secs(150),
            silence: Duration::from_secs(90),
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

    /// Sets [`silence`](Self::silence).
    pub fn silence(self, silence: Duration) -> Self {
        Self { silence, ..self }
    }

    /// Sets [`seed`](Self::seed).
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

//! The watch caches of one of several API servers, and the version up to which they have read. The
//! server answers watches and lists of a version from them, so these show changes that a cache has
//! read, and wait for others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_apiserver_rules::resource;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::{Store, TABLES};

/// A delay with which the changes of a resource reach a watch cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The resource, such as `pods`, or `None` for all.
    pub plural: Option<&'static str>,
    /// The time from a change until the cache shows it.
    pub time: Duration,
    /// True if changes arrive together, at multiples of the time.
    pub bunched: bool,
}

/// A lag in effect.
#[derive(Debug)]
struct Active {
    id: usize,
    lag: Lag,
    began: Instant,
    /// The number of changes that it has delayed.
    delayed: usize,
}

impl Active {
    fn concerns(&self, table: usize) -> bool {
        self.lag.plural.is_none_or(|plural| {
            resource::all().any(|it| it.plural == plural && it.is_stored() && Store::table_of(it) == table)
        })
    }

    /// Returns the time at which a change of now arrives.
    fn arrival(&self, now: Instant) -> Instant {
        let step = self.lag.time.max(Duration::from_millis(1));
        if !self.lag.bunched {
            return now + step;
        }
        self.began + step * ((now - self.began).div_duration_f64(step).floor() as u32 + 1)
    }
}

/// The changes that the cache of one resource has not read yet.
#[derive(Debug, Default)]
struct Behind {
    /// The version up to which it has read, if changes are missing.
    reached: u64,
    /// Versions with the times of their arrivals, in order.
    missing: VecDeque<(Instant, u64)>,
}

#[derive(Debug, Default)]
struct State {
    next: usize,
    lags: Vec<Active>,
    /// An entry for each table, after the first lag.
    tables: Vec<Behind>,
    /// The version at the last fill of the caches.
    oldest: u64,
}

/// The watch caches of one server, by table. They lag only if a test asks for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchCaches(Arc<Mutex<State>>);

impl WatchCaches {
    /// Makes later changes arrive late. Returns the id of the lag.
    pub(crate) fn add(&self, lag: Lag) -> usize {
        let mut state = self.0.lock();
        state.tables.resize_with(*TABLES, Behind::default);
        state.next += 1;
        let id = state.next;
        state.lags.push(Active { id, lag, began: Instant::now(), delayed: 0 });
        id
    }

    /// Ends a lag: later changes arrive at once, but not before earlier ones. Returns the number of
    /// changes that it has delayed.
    pub(crate) fn remove(&self, id: usize) -> usize {
        let mut state = self.0.lock();
        state.lags.extract_if(.., |active| active.id == id).map(|active| active.delayed).sum()
    }

    /// Notes a change. The caller holds the lock of the store.
    pub(crate) fn changed(&self, changed: usize, version: u64) {
        let mut state = self.0.lock();
        let State { lags, tables, .. } = &mut *state;
        let now = Instant::now();
        for (table, behind) in tables.iter_mut().enumerate() {
            let mut arrival = behind.missing.back().map_or(now, |(last, _)| now.max(*last));
            for active in lags.iter_mut().filter(|active| active.concerns(table)) {
                active.delayed += usize::from(table == changed);
                arrival = arrival.max(active.arrival(now));
            }
            if arrival <= now {
                continue;
            }
            if behind.missing.is_empty() {
                behind.reached = version - 1;
            }
            match behind.missing.back_mut() {
                Some((last, latest)) if *last == arrival => *latest = version,
                _ => behind.missing.push_back((arrival, version)),
            }
        }
    }

    /// Returns the version up to which the cache of a table has read. `current` is the store's.
    pub(crate) fn reached(&self, table: usize, current: u64) -> u64 {
        let mut state = self.0.lock();
        let Some(behind) = state.tables.get_mut(table) else { return current };
        let now = Instant::now();
        while let Some((arrival, version)) = behind.missing.front().copied()
            && arrival <= now
        {
            behind.reached = version;
            behind.missing.pop_front();
        }
        if behind.missing.is_empty() { current } else { behind.reached.min(current) }
    }

    /// Returns the time of the next arrival in the cache of a table, or `None` if it is not behind.
    pub(crate) fn next_arrival(&self, table: usize) -> Option<Instant> {
        self.0.lock().tables.get(table)?.missing.front().map(|(arrival, _)| *arrival)
    }

    /// Returns the time of the last arrival in all caches, or `None` if all have arrived.
    pub(crate) fn last_arrival(&self) -> Option<Instant> {
        let (state, now) = (self.0.lock(), Instant::now());
        let last = state.tables.iter().filter_map(|behind| behind.missing.back());
        last.map(|(arrival, _)| *arrival).filter(|arrival| *arrival > now).max()
    }

    /// Fills the caches anew with the state of the store at a version.
    pub(crate) fn fill(&self, version: u64) {
        let mut state = self.0.lock();
        state.oldest = version;
        state.tables.iter_mut().for_each(|behind| behind.missing.clear());
    }

    /// Returns the version from which changes are available.
    pub(crate) fn oldest(&self) -> u64 {
        self.0.lock().oldest
    }
}

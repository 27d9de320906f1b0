//! Watches EndpointSlices and Endpoints, and counts events and bytes.

pub(crate) mod event;
mod seen;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::api::Api;
use crate::workload::{Names, Workload};

use event::{Event, Lines};
use seen::{Filter, Kind};
pub(crate) use seen::{Place, Seen};

/// The counters of the watch of slices.
#[derive(Debug, Default)]
struct Received {
    events: AtomicU64,
    bytes: AtomicU64,
}

/// Events and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Events.
    pub(crate) events: u64,
    /// Bytes of JSON, without the overhead of HTTP and TLS.
    pub(crate) bytes: u64,
}

impl Traffic {
    /// Returns the difference from `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { events: self.events - before.events, bytes: self.bytes - before.bytes }
    }
}

impl Received {
    fn now(&self) -> Traffic {
        Traffic { events: self.events.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    fn add(&self, piece: &[u8]) {
        let events = piece.iter().filter(|byte| **byte == b'\n').count();
        self.events.fetch_add(events as u64, Ordering::Relaxed);
        self.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
}

/// Watches. Dropping this ends them.
pub(crate) struct Watches {
    seen: Arc<Mutex<Seen>>,
    received: Arc<Received>,
    tasks: Vec<AbortHandle>,
}

impl Watches {
    /// Watches slices and Endpoints, from versions at which there were no such objects.
    pub(crate) async fn start(api: &Api, workload: &Workload, names: &Names) -> anyhow::Result<Self> {
        let namespaces = (0..workload.namespaces).map(|number| names.namespace(workload, number)).collect();
        let filter = Filter { names: names.clone(), namespaces: Arc::new(namespaces) };
        let mut watches = Self { seen: Arc::default(), received: Arc::default(), tasks: Vec::new() };
        let (slices, endpoints) = paths(workload, names);
        let own = api.with_own_connections().await?;
        for (kind, path) in [(Kind::Endpoints, endpoints), (Kind::Slices, slices)] {
            let version = api.position(&path).await?.0;
            let follower = Follower {
                api: own.clone(),
                kind,
                filter: filter.clone(),
                seen: watches.seen.clone(),
                received: (kind == Kind::Slices).then(|| watches.received.clone()),
            };
            watches.tasks.push(follower.spawn(path, version));
        }
        Ok(watches)
    }

    /// Calls `read` with the state that the watches have seen.
    ///
    /// # Errors
    ///
    /// If a watch failed.
    pub(crate) fn seen<T>(&self, read: impl FnOnce(&mut Seen) -> T) -> anyhow::Result<T> {
        let mut seen = self.seen.lock();
        if let Some(failed) = &seen.failed {
            bail!("{failed}");
        }
        Ok(read(&mut seen))
    }

    /// Returns the traffic of a watcher of slices.
    pub(crate) fn traffic(&self) -> Traffic {
        self.received.now()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Returns the paths of the lists of slices and of Endpoints, for one namespace if there is only
/// one.
fn paths(workload: &Workload, names: &Names) -> (String, String) {
    if workload.namespaces > 1 {
        return ("/apis/discovery.k8s.io/v1/endpointslices".into(), "/api/v1/endpoints".into());
    }
    let namespace = names.namespace(workload, 0);
    (
        format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
        format!("/api/v1/namespaces/{namespace}/endpoints"),
    )
}

/// A watch that decodes its events.
struct Follower {
    api: Api,
    kind: Kind,
    filter: Filter,
    seen: Arc<Mutex<Seen>>,
    received: Option<Arc<Received>>,
}

impl Follower {
    fn spawn(self, path: String, mut version: String) -> AbortHandle {
        let task = tokio::spawn(async move {
            // A server ends a watch after some time. The next one begins where it ended.
            loop {
                if let Err(error) = self.follow(&path, &mut version).await {
                    let what = if self.kind == Kind::Slices { "slices" } else { "Endpoints" };
                    self.seen.lock().failed.get_or_insert(format!("the watch of {what} failed: {error:#}"));
                    return;
                }
            }
        });
        task.abort_handle()
    }

    async fn follow(&self, path: &str, version: &mut String) -> anyhow::Result<()> {
        let mut body = self.api.watch(path, version).await?.into_body();
        let mut lines = Lines::default();
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            let now = Instant::now();
            self.received.iter().for_each(|received| received.add(&piece));
            lines.push(&piece);
            while let Some(line) = lines.next_line() {
                let event: Event<'_> = serde_json::from_slice(line)?;
                if event.kind == "ERROR" {
                    bail!("{}", event.object.message.unwrap_or_default());
                }
                version.clear();
                version.push_str(&event.object.metadata.resource_version);
                self.seen.lock().apply(self.kind, &event, &self.filter, now);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_events_are_lines() {
        let received = Received::default();
        received.add(b"one\ntw");
        let before = received.now();
        received.add(b"o\n");
        let all = received.now();
        assert_eq!((all.events, all.bytes), (2, 8));
        assert_eq!((all.since(before).events, all.since(before).bytes), (1, 2));
    }
}

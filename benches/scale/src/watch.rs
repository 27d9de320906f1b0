//! Watches of EndpointSlices and Endpoints: what is published, how many events and bytes came, and when a change was seen.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::api::Api;
use crate::workload::{Names, Workload};

/// How many watches share connections. A kube-apiserver allows 100 streams on one.
const WATCHES_PER_CLIENT: usize = 50;

/// An endpoint whose change is waited for: in the slices of the large Service or of another one, and the number of its pod.
pub(crate) type Place = (bool, usize);

/// The objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Endpoints or addresses by namespace and name of the object.
    objects: BTreeMap<(String, String), usize>,
    /// All endpoints or addresses.
    pub(crate) total: usize,
    /// Events.
    pub(crate) writes: usize,
}

/// What the watches have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// EndpointSlices.
    pub(crate) slices: Published,
    /// Endpoints.
    pub(crate) endpoints: Published,
    /// When the last event came.
    pub(crate) last_event: Option<Instant>,
    /// Changes that no slice shows yet: the readiness that is waited for, and since when.
    pub(crate) waiting: BTreeMap<Place, (bool, Instant)>,
    /// Milliseconds from a change to the slice that shows it.
    pub(crate) latencies: Vec<(Place, f64)>,
    /// Why a watch ended.
    failed: Option<String>,
}

/// What all watchers of slices received.
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
    /// Bytes of JSON, without what HTTP and TLS add.
    pub(crate) bytes: u64,
}

impl Traffic {
    /// What came since `before`.
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

/// Watches that end when this is dropped.
pub(crate) struct Watches {
    seen: Arc<Mutex<Seen>>,
    first: Arc<Received>,
    all: Arc<Received>,
    tasks: Vec<AbortHandle>,
}

/// Which events count.
#[derive(Clone)]
struct Filter {
    names: Names,
    namespaces: Arc<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Slices,
    Endpoints,
}

impl Watches {
    /// Watches the slices `watchers` times, and the Endpoints once, from versions at which there were none of them.
    pub(crate) async fn start(
        api: &Api,
        workload: &Workload,
        names: &Names,
        watchers: usize,
    ) -> anyhow::Result<Self> {
        let namespaces = (0..workload.namespaces).map(|number| names.namespace(workload, number)).collect();
        let filter = Filter { names: names.clone(), namespaces: Arc::new(namespaces) };
        let mut watches = Self {
            seen: Arc::default(),
            first: Arc::default(),
            all: Arc::default(),
            tasks: Vec::with_capacity(watchers + 1),
        };
        let (slices, endpoints) = paths(workload, names);
        let slices_version = api.position(&slices).await?.0;
        let endpoints_version = api.position(&endpoints).await?.0;
        let follower = |kind, api: Api, received| Follower {
            api,
            kind,
            filter: filter.clone(),
            seen: watches.seen.clone(),
            received,
        };
        let own = api.with_own_connections().await?;
        let endpoints_follower = follower(Kind::Endpoints, own.clone(), Vec::new());
        let slices_follower = follower(Kind::Slices, own, vec![watches.first.clone(), watches.all.clone()]);
        watches.tasks.push(endpoints_follower.spawn(endpoints, endpoints_version));
        watches.tasks.push(slices_follower.spawn(slices.clone(), slices_version.clone()));
        let mut own = None;
        for number in 1..watchers {
            if own.is_none() || number % WATCHES_PER_CLIENT == 1 {
                own = Some(api.with_own_connections().await?);
            }
            let Some(api) = own.clone() else { continue };
            let (all, seen) = (watches.all.clone(), watches.seen.clone());
            let (path, version) = (slices.clone(), slices_version.clone());
            let task = tokio::spawn(async move {
                if let Err(error) = count(&api, &path, &version, &all).await {
                    seen.lock().failed.get_or_insert(format!("a watch of slices failed: {error:#}"));
                }
            });
            watches.tasks.push(task.abort_handle());
        }
        Ok(watches)
    }

    /// Reads or changes what was seen.
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

    /// What one watcher of slices received.
    pub(crate) fn one_watcher(&self) -> Traffic {
        self.first.now()
    }

    /// What all watchers of slices received.
    pub(crate) fn all_watchers(&self) -> Traffic {
        self.all.now()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// The paths of the lists of slices and of Endpoints: of one namespace if there is only one.
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

/// Counts events and bytes without looking at them.
async fn count(api: &Api, path: &str, version: &str, all: &Received) -> anyhow::Result<()> {
    let mut body = api.watch(path, version).await?.into_body();
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame?.into_data() {
            all.add(&piece);
        }
    }
    bail!("the server ended it")
}

/// One watch whose events are decoded.
struct Follower {
    api: Api,
    kind: Kind,
    filter: Filter,
    seen: Arc<Mutex<Seen>>,
    received: Vec<Arc<Received>>,
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

impl Seen {
    fn apply(&mut self, kind: Kind, event: &Event<'_>, filter: &Filter, now: Instant) {
        let metadata = &event.object.metadata;
        if !filter.namespaces.iter().any(|namespace| *namespace == metadata.namespace) {
            return;
        }
        self.last_event = Some(now);
        let published = if kind == Kind::Slices { &mut self.slices } else { &mut self.endpoints };
        published.writes += 1;
        let object = &event.object;
        let count = object.endpoints.as_ref().map_or(0, Vec::len)
            + object.subsets.iter().flatten().map(Subset::count).sum::<usize>();
        let key = (metadata.namespace.to_string(), metadata.name.to_string());
        let (before, count) = if event.kind == "DELETED" {
            (published.objects.remove(&key), 0)
        } else {
            (published.objects.insert(key, count), count)
        };
        published.total = published.total - before.unwrap_or_default() + count;
        if kind == Kind::Slices && !self.waiting.is_empty() {
            self.answer(object, filter, now);
        }
    }

    /// Ends the waiting for each endpoint that is as it should be.
    fn answer(&mut self, slice: &Object<'_>, filter: &Filter, now: Instant) {
        let service = slice.metadata.labels.as_ref().and_then(|labels| labels.service.as_deref());
        let is_big = service.is_some_and(|service| service == filter.names.big());
        for endpoint in slice.endpoints.iter().flatten() {
            let name = endpoint.target.as_ref().and_then(|target| target.name.as_deref());
            let Some((pod, _)) = name.and_then(|name| filter.names.pod_number(name)) else { continue };
            let place = (is_big, pod);
            if let Some((ready, since)) = self.waiting.get(&place)
                && endpoint.conditions.ready == Some(*ready)
            {
                self.latencies.push((place, now.duration_since(*since).as_secs_f64() * 1_000.0));
                self.waiting.remove(&place);
            }
        }
    }

    /// The number of EndpointSlices.
    pub(crate) fn slice_count(&self) -> usize {
        self.slices.objects.len()
    }
}

/// Splits pieces of a stream into lines.
#[derive(Default)]
struct Lines {
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no end of it.
    searched: usize,
}

impl Lines {
    fn push(&mut self, piece: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(piece);
    }

    fn next_line(&mut self) -> Option<&[u8]> {
        let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.start..self.searched + end;
        self.start = line.end + 1;
        self.searched = self.start;
        Some(&self.buffer[line])
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(default, borrow)]
    metadata: Metadata<'a>,
    #[serde(default, borrow)]
    endpoints: Option<Vec<Endpoint<'a>>>,
    #[serde(default)]
    subsets: Option<Vec<Subset>>,
    #[serde(default)]
    message: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(default, borrow)]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    namespace: Cow<'a, str>,
    #[serde(default, borrow)]
    resource_version: Cow<'a, str>,
    #[serde(default)]
    labels: Option<Labels>,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(rename = "kubernetes.io/service-name")]
    service: Option<String>,
}

#[derive(Deserialize)]
struct Endpoint<'a> {
    #[serde(default)]
    conditions: Conditions,
    #[serde(rename = "targetRef", default, borrow)]
    target: Option<Target<'a>>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Deserialize)]
struct Target<'a> {
    #[serde(default, borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subset {
    #[serde(default)]
    addresses: Option<Vec<serde::de::IgnoredAny>>,
    #[serde(default)]
    not_ready_addresses: Option<Vec<serde::de::IgnoredAny>>,
}

impl Subset {
    fn count(&self) -> usize {
        [&self.addresses, &self.not_ready_addresses].into_iter().flatten().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn filter() -> Filter {
        Filter { names: Names { prefix: "scale".into() }, namespaces: Arc::new(vec!["scale".into()]) }
    }

    fn apply(seen: &mut Seen, kind: Kind, event: &Value, now: Instant) {
        let text = event.to_string();
        seen.apply(kind, &serde_json::from_str(&text).unwrap(), &filter(), now);
    }

    fn slice(kind: &str, name: &str, service: &str, pods: &[(&str, bool)]) -> Value {
        let endpoint = |(pod, ready): &(&str, bool)| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"name": pod}});
        let endpoints: Vec<Value> = pods.iter().map(endpoint).collect();
        json!({"type": kind, "object": {"endpoints": endpoints, "metadata": {
            "name": name, "namespace": "scale", "resourceVersion": "7", "labels": {"kubernetes.io/service-name": service}}}})
    }

    #[test]
    fn totals_follow_the_objects() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        apply(&mut seen, Kind::Slices, &slice("ADDED", "a", "scale-s0", &[("scale-p0", true)]), now);
        apply(
            &mut seen,
            Kind::Slices,
            &slice("ADDED", "b", "scale-s1", &[("scale-p1", true), ("scale-p2", false)]),
            now,
        );
        assert_eq!((seen.slices.total, seen.slices.writes, seen.slice_count()), (3, 2, 2));
        apply(&mut seen, Kind::Slices, &slice("MODIFIED", "b", "scale-s1", &[]), now);
        apply(&mut seen, Kind::Slices, &slice("DELETED", "a", "scale-s0", &[("scale-p0", true)]), now);
        assert_eq!((seen.slices.total, seen.slices.writes, seen.slice_count()), (0, 4, 1));
        let endpoints = json!({"type": "ADDED", "object": {"metadata": {"name": "a", "namespace": "scale"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}, {"ip": "10.0.0.3"}]}]}});
        apply(&mut seen, Kind::Endpoints, &endpoints, now);
        assert_eq!((seen.endpoints.total, seen.endpoints.writes), (3, 1));
        let foreign = json!({"type": "ADDED", "object": {"metadata": {"name": "a", "namespace": "default"}, "subsets": null}});
        apply(&mut seen, Kind::Endpoints, &foreign, now);
        assert_eq!(seen.endpoints.writes, 1);
    }

    #[test]
    fn a_change_is_answered_by_the_slice_of_its_service_that_shows_it() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let after = |millis| start + std::time::Duration::from_millis(millis);
        seen.waiting.insert((false, 0), (false, start));
        seen.waiting.insert((true, 0), (false, start));
        apply(&mut seen, Kind::Slices, &slice("MODIFIED", "a", "scale-s0", &[("scale-p0", true)]), after(5));
        assert_eq!(seen.latencies, [], "it shows what was before");
        apply(
            &mut seen,
            Kind::Slices,
            &slice("MODIFIED", "a", "scale-s0", &[("scale-p0b", false)]),
            after(10),
        );
        apply(
            &mut seen,
            Kind::Slices,
            &slice("MODIFIED", "b", "scale-big", &[("scale-p0", false), ("x", true)]),
            after(30),
        );
        assert_eq!(seen.latencies, [((false, 0), 10.0), ((true, 0), 30.0)]);
        assert!(seen.waiting.is_empty());
    }

    #[test]
    fn lines_are_found_however_they_are_cut() {
        let text = b"one\n\ntwo and more\nrest";
        for size in 1..=text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next_line() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(found, ["one", "", "two and more"], "pieces of {size} bytes");
        }
    }

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

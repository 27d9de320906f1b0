//! Watches EndpointSlices and Endpoints directly at the server, over its restarts, and measures
//! when slices show the changes of pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::api::Api;
use crate::watch::event::{Event, Lines, Object};

/// The time after a fault in which a new leader takes the Lease and the caches fill.
const AFTER_A_FAULT: Duration = Duration::from_secs(30);

/// The time until a watch that failed begins again.
const PAUSE: Duration = Duration::from_millis(500);

const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const ENDPOINTS: &str = "/api/v1/endpoints";

/// The writes and latencies that the watches have seen.
#[derive(Debug)]
pub(crate) struct Published {
    prefix: String,
    pub(crate) slice_writes: usize,
    pub(crate) endpoints_writes: usize,
    pub(crate) last_event: Instant,
    /// Changes that no slice shows yet: the new readiness by the name of the pod, and the time.
    pub(crate) waiting: BTreeMap<String, (bool, Instant)>,
    /// The Services of the pod that changes at the end. Writes for them do not count.
    pub(crate) uncounted: BTreeSet<String>,
    pub(crate) calm_ms: Vec<f64>,
    pub(crate) disturbed_ms: Vec<f64>,
    /// The present fault, or the end of the last one.
    disturbed_until: Option<Instant>,
    faulty: bool,
}

impl Published {
    fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            slice_writes: 0,
            endpoints_writes: 0,
            last_event: Instant::now(),
            waiting: BTreeMap::new(),
            uncounted: BTreeSet::new(),
            calm_ms: Vec::new(),
            disturbed_ms: Vec::new(),
            disturbed_until: None,
            faulty: false,
        }
    }

    /// Notes that a fault begins or ends.
    pub(crate) fn set_faulty(&mut self, faulty: bool) {
        self.faulty = faulty;
        self.disturbed_until = Some(Instant::now() + AFTER_A_FAULT);
    }

    /// Returns the number of writes so far.
    pub(crate) fn writes(&self) -> usize {
        self.slice_writes + self.endpoints_writes
    }

    fn event(&mut self, path: &str, event: &Event<'_>, now: Instant) {
        if !self.is_ours(&event.object) {
            return;
        }
        self.last_event = now;
        let (is_slice, metadata) = (path == SLICES, &event.object.metadata);
        if is_slice {
            self.shows(&event.object, now);
        }
        let of_slice = metadata.labels.as_ref().and_then(|labels| labels.service.as_deref());
        let service = if is_slice { of_slice } else { Some(&*metadata.name) };
        if service.is_some_and(|service| self.uncounted.contains(service)) {
            return;
        }
        if is_slice {
            self.slice_writes += 1;
        } else if !metadata.name.starts_with(&manual_prefix(&self.prefix)) {
            self.endpoints_writes += 1;
        }
    }

    fn is_ours(&self, object: &Object<'_>) -> bool {
        let rest = object.metadata.namespace.strip_prefix(&*self.prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// Ends the waiting for each pod that a slice shows in the wanted state.
    fn shows(&mut self, slice: &Object<'_>, now: Instant) {
        for endpoint in slice.endpoints.iter().flatten() {
            let Some(name) = endpoint.target.as_ref().and_then(|target| target.name.as_deref()) else {
                continue;
            };
            let Some((ready, since)) = self.waiting.get(name).copied() else { continue };
            if endpoint.conditions.ready != Some(ready) {
                continue;
            }
            self.waiting.remove(name);
            let millis = super::record::milli(now.duration_since(since).as_secs_f64() * 1_000.0);
            let disturbed = self.faulty || self.disturbed_until.is_some_and(|until| since < until);
            if disturbed { &mut self.disturbed_ms } else { &mut self.calm_ms }.push(millis);
        }
    }
}

/// Returns the beginning of the names of Endpoints that this program writes itself.
pub(crate) fn manual_prefix(prefix: &str) -> String {
    format!("{prefix}-m")
}

/// The watches. Dropping this ends them.
pub(crate) struct Watching {
    seen: Arc<Mutex<Published>>,
    tasks: Vec<AbortHandle>,
}

impl Watching {
    pub(crate) async fn start(api: &Api, prefix: &str) -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::new(Published::new(prefix)));
        let mut tasks = Vec::new();
        for path in [SLICES, ENDPOINTS] {
            let (api, seen) = (api.with_own_connections().await?, seen.clone());
            let task = tokio::spawn(async move {
                loop {
                    // A server that restarts ends the watch. The next list is where it goes on.
                    follow(&api, path, &seen).await.ok();
                    tokio::time::sleep(PAUSE).await;
                }
            });
            tasks.push(task.abort_handle());
        }
        Ok(Self { seen, tasks })
    }

    /// Calls `look` with what the watches have seen.
    pub(crate) fn seen<T>(&self, look: impl FnOnce(&mut Published) -> T) -> T {
        look(&mut self.seen.lock())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

async fn follow(api: &Api, path: &str, seen: &Mutex<Published>) -> anyhow::Result<()> {
    let list = |object: &serde_json::Value| {
        if path == SLICES
            && let Ok(slice) = Object::deserialize(object)
        {
            seen.lock().shows(&slice, Instant::now());
        }
    };
    let mut version = api.list(path, list).await?;
    loop {
        let mut body = api.watch(path, &version).await?.into_body();
        let mut lines = Lines::default();
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            let now = Instant::now();
            lines.push(&piece);
            while let Some(line) = lines.next_line() {
                let event: Event<'_> = serde_json::from_slice(line)?;
                if event.kind == "ERROR" {
                    bail!("{}", event.object.message.unwrap_or_default());
                }
                version = event.object.metadata.resource_version.to_string();
                seen.lock().event(path, &event, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn apply(seen: &mut Published, path: &str, namespace: &str, name: &str, ready: bool, now: Instant) {
        let event = json!({"type": "MODIFIED", "object": {"metadata": {"name": name, "namespace": namespace},
            "endpoints": [{"conditions": {"ready": ready}, "targetRef": {"name": "soak-p1"}}]}});
        seen.event(path, &serde_json::from_str(&event.to_string()).unwrap(), now);
    }

    #[test]
    fn changes_are_calm_or_disturbed_by_their_begin_and_end() {
        let (mut seen, start) = (Published::new("soak"), Instant::now());
        let change = |seen: &mut Published, since: Instant, millis| {
            seen.waiting.insert("soak-p1".into(), (true, since));
            apply(seen, SLICES, "soak-0", "a", false, since);
            assert_eq!(seen.waiting.len(), 1, "it shows what was before");
            apply(seen, SLICES, "soak-0", "a", true, since + Duration::from_millis(millis));
            assert!(seen.waiting.is_empty());
        };
        change(&mut seen, start, 5);
        seen.set_faulty(true);
        change(&mut seen, start, 6_000);
        seen.set_faulty(false);
        change(&mut seen, Instant::now(), 7);
        change(&mut seen, Instant::now() + AFTER_A_FAULT, 8);
        assert_eq!((seen.calm_ms, seen.disturbed_ms), (vec![5.0, 8.0], vec![6_000.0, 7.0]));
        assert_eq!(seen.slice_writes, 8);
    }

    #[test]
    fn only_writes_of_controllers_to_our_namespaces_count() {
        let (mut seen, now) = (Published::new("soak"), Instant::now());
        apply(&mut seen, SLICES, "soakage", "a", true, now);
        apply(&mut seen, SLICES, "soak", "soak-m1-abcde", true, now);
        apply(&mut seen, ENDPOINTS, "soak-3", "soak-s1", true, now);
        apply(&mut seen, ENDPOINTS, "soak-3", "soak-m1", true, now);
        assert_eq!((seen.slice_writes, seen.endpoints_writes), (1, 1));
    }
}

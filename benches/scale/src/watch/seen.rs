//! Keeps the published endpoints as the events of slices and Endpoints show them, and measures when
//! they show a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::event::{Event, Object, Subset};
use crate::workload::Names;

/// An endpoint that has to change: true if it is in slices of the large Service, and the number of
/// its pod.
pub(crate) type Place = (bool, usize);

/// The objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// The numbers of endpoints or addresses, by namespace and name of the object.
    objects: BTreeMap<(String, String), usize>,
    /// The number of all endpoints or addresses.
    pub(crate) total: usize,
    /// The number of events.
    pub(crate) writes: usize,
}

/// The state that the watches have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) slices: Published,
    pub(crate) endpoints: Published,
    pub(crate) last_event: Option<Instant>,
    /// Changes that no slice shows yet: the new readiness, and the time of the change.
    pub(crate) waiting: BTreeMap<Place, (bool, Instant)>,
    /// Milliseconds from a change to the slice that shows it.
    pub(crate) latencies: Vec<f64>,
    pub(super) failed: Option<String>,
}

/// Selects the events that count.
#[derive(Clone)]
pub(super) struct Filter {
    pub(super) names: Names,
    pub(super) namespaces: Arc<Vec<String>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Slices,
    Endpoints,
}

impl Seen {
    /// Takes an event that came at `now`.
    pub(super) fn apply(&mut self, kind: Kind, event: &Event<'_>, filter: &Filter, now: Instant) {
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

    /// Ends the waiting for each endpoint that has the wanted state.
    fn answer(&mut self, slice: &Object<'_>, filter: &Filter, now: Instant) {
        let service = slice.metadata.labels.as_ref().and_then(|labels| labels.service.as_deref());
        let is_big = service.is_some_and(|service| service == filter.names.big());
        for endpoint in slice.endpoints.iter().flatten() {
            let name = endpoint.target.as_ref().and_then(|target| target.name.as_deref());
            let Some(pod) = name.and_then(|name| filter.names.pod_number(name)) else { continue };
            let place = (is_big, pod);
            if let Some((ready, since)) = self.waiting.get(&place)
                && endpoint.conditions.ready == Some(*ready)
            {
                self.latencies.push(now.duration_since(*since).as_secs_f64() * 1_000.0);
                self.waiting.remove(&place);
            }
        }
    }

    /// Returns the number of EndpointSlices.
    pub(crate) fn slice_count(&self) -> usize {
        self.slices.objects.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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
        assert!(seen.latencies.is_empty(), "it shows what was before");
        apply(
            &mut seen,
            Kind::Slices,
            &slice("MODIFIED", "a", "scale-s0", &[("scale-p0", false)]),
            after(10),
        );
        apply(
            &mut seen,
            Kind::Slices,
            &slice("MODIFIED", "b", "scale-big", &[("scale-p0", false), ("x", true)]),
            after(30),
        );
        assert_eq!(seen.latencies, [10.0, 30.0]);
        assert!(seen.waiting.is_empty());
    }
}

//! How long a change of a pod waits for the EndpointSlice that shows it. Pure: events with times go
//! in, delays come out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// The conditions of an endpoint; `None` in its place means no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conditions {
    ready: bool,
    terminating: bool,
}

type Endpoints = BTreeMap<String, Conditions>;

/// The book of the pods and slices of a Service.
#[derive(Default)]
pub(crate) struct Delays {
    wanted: Endpoints,
    slices: BTreeMap<String, Endpoints>,
    /// Pods that the slices do not show as they are, since when.
    waiting: BTreeMap<String, Instant>,
    delays: Vec<Duration>,
    /// When a pod has become ready for the first time.
    ready: BTreeMap<String, Instant>,
}

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The pods of the Service.
    Pods,
    /// Its EndpointSlices.
    EndpointSlices,
}

impl Delays {
    /// Takes an event of a watch.
    pub(crate) fn event(&mut self, at: Instant, kind: Kind, event: &Value) {
        let object = &event["object"];
        let Some(name) = object["metadata"]["name"].as_str() else { return };
        let deleted = event["type"] == "DELETED";
        match kind {
            Kind::Pods => self.pod(at, name, conditions(object).filter(|_| !deleted)),
            Kind::EndpointSlices => {
                if deleted {
                    self.slices.remove(name);
                } else {
                    self.slices.insert(name.to_owned(), endpoints(object));
                }
                self.published(at);
            }
        }
    }

    /// Forgets what has been measured, and what waits.
    pub(crate) fn reset(&mut self) {
        self.delays.clear();
        self.waiting.clear();
        self.ready.clear();
    }

    /// The pods that have become ready since the last `reset`, and when.
    pub(crate) fn ready(&self) -> &BTreeMap<String, Instant> {
        &self.ready
    }

    /// The delays of the changes that slices have shown, and at `now` the time that others have
    /// waited.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Duration> {
        let differs = |name: &String| self.wanted.get(name).copied() != self.shown(name);
        let waiting = self.waiting.iter().filter(|(name, _)| differs(name));
        let waiting = waiting.map(|(_, since)| now.duration_since(*since));
        let all = self.delays.iter().copied().chain(waiting).collect();
        self.reset();
        all
    }

    fn pod(&mut self, at: Instant, name: &str, wanted: Option<Conditions>) {
        let before = match wanted {
            Some(wanted) => self.wanted.insert(name.to_owned(), wanted),
            None => self.wanted.remove(name),
        };
        if before == wanted {
            return;
        }
        if wanted.is_some_and(|it| it.ready) {
            self.ready.entry(name.to_owned()).or_insert(at);
        }
        if wanted != self.shown(name) {
            self.waiting.entry(name.to_owned()).or_insert(at);
        } else if !self.waiting.contains_key(name) {
            // The slice was faster than the watch of pods. A pod that has changed back waits on:
            // nobody has seen that it changed.
            self.delays.push(Duration::ZERO);
        }
    }

    fn published(&mut self, at: Instant) {
        let waiting = std::mem::take(&mut self.waiting);
        for (name, since) in waiting {
            if self.wanted.get(&name).copied() == self.shown(&name) {
                self.delays.push(at.duration_since(since));
            } else {
                self.waiting.insert(name, since);
            }
        }
    }

    fn shown(&self, name: &str) -> Option<Conditions> {
        self.slices.values().find_map(|slice| slice.get(name).copied())
    }
}

fn conditions(pod: &Value) -> Option<Conditions> {
    let status = &pod["status"];
    let ended = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
    let terminating = !pod["metadata"]["deletionTimestamp"].is_null();
    let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
    let ready = !terminating && status["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready));
    (!ended && status["podIP"].is_string()).then_some(Conditions { ready, terminating })
}

fn endpoints(slice: &Value) -> Endpoints {
    let endpoint = |it: &Value| {
        let is = |name| it["conditions"][name] == true;
        let conditions = Conditions { ready: is("ready"), terminating: is("terminating") };
        Some((it["targetRef"]["name"].as_str()?.to_owned(), conditions))
    };
    slice["endpoints"].as_array().into_iter().flatten().filter_map(endpoint).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(change: &str, ready: &str) -> Value {
        let status = json!({"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": ready}]});
        json!({"type": change, "object": {"metadata": {"name": "a"}, "status": status}})
    }

    fn slice(endpoints: &[(&str, bool)]) -> Value {
        let endpoint = |(name, ready): &(&str, bool)| json!({"targetRef": {"name": name}, "conditions": {"ready": ready, "terminating": false}});
        let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
        json!({"type": "MODIFIED", "object": {"metadata": {"name": "s"}, "endpoints": endpoints}})
    }

    /// Plays events at milliseconds, and returns the delays in milliseconds, taken at 100.
    fn play(events: &[(u64, Kind, Value)]) -> Vec<u128> {
        let mut delays = Delays::default();
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        for (ms, kind, event) in events {
            delays.event(at(*ms), *kind, event);
        }
        delays.take(at(100)).iter().map(Duration::as_millis).collect()
    }

    use Kind::{EndpointSlices, Pods};

    #[test]
    fn a_pod_waits_until_a_slice_shows_it_as_it_is() {
        let events = [
            (10, Pods, pod("ADDED", "True")),
            (12, EndpointSlices, slice(&[("b", true)])),
            (15, EndpointSlices, slice(&[("a", true)])),
            (20, Pods, pod("MODIFIED", "False")),
            (24, EndpointSlices, slice(&[("a", false)])),
            (30, Pods, pod("DELETED", "False")),
            (31, EndpointSlices, slice(&[])),
        ];
        assert_eq!(play(&events), [5, 4, 1]);
    }

    #[test]
    fn a_change_that_no_slice_shows_counts_from_its_begin() {
        let events = [(10, Pods, pod("ADDED", "False")), (40, Pods, pod("MODIFIED", "True"))];
        assert_eq!(play(&events), [90]);
    }

    #[test]
    fn a_slice_that_arrives_before_the_pod_has_no_delay() {
        let events = [(10, EndpointSlices, slice(&[("a", true)])), (11, Pods, pod("ADDED", "True"))];
        assert_eq!(play(&events), [0]);
    }

    #[test]
    fn a_pod_that_changes_back_waits_until_the_next_slice() {
        let flaps = |last| {
            let begin = [
                (1, EndpointSlices, slice(&[("a", true)])),
                (1, Pods, pod("ADDED", "True")),
                (10, Pods, pod("MODIFIED", "False")),
                (20, Pods, pod("MODIFIED", "True")),
            ];
            play(&begin.into_iter().chain(last).collect::<Vec<_>>())
        };
        assert_eq!(flaps(Some((40, EndpointSlices, slice(&[("a", true)])))), [0, 30]);
        assert_eq!(flaps(None), [0]);
    }

    #[test]
    fn an_event_that_changes_no_endpoint_is_not_measured() {
        let events = [
            (10, Pods, pod("ADDED", "True")),
            (11, EndpointSlices, slice(&[("a", true)])),
            (20, Pods, pod("MODIFIED", "True")),
        ];
        assert_eq!(play(&events), [1]);
    }
}

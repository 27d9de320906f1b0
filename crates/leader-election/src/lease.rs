//! A Lease as the API server sends it.
//!
//! This crate keeps it as JSON, so that an update writes back every field that the crate does not
//! know. Fields that are absent or have the wrong type count as client-go's zero values: a person
//! may have edited the Lease.

use std::time::Duration;

use kube_endpoint_api_writer::EventSubject;
use kube_endpoint_core_model::{ResourceVersion, Timestamp};
use serde_json::{Map, Value, json};

use crate::leadership::{LAST_WRITES_ANNOTATION, LastWrites};
use crate::options::RESERVED;

/// A Lease. A clone is cheap: a holder, two times and some metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease(Value);

/// The fields that change with each renewal and each new holder. When they change, a standby knows
/// that the leader is alive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record(Value);

impl Lease {
    /// Returns a Lease to be created.
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {},
        }))
    }

    /// Returns the Lease in an answer of the API server, or `None` if the answer is not a Lease.
    pub(crate) fn from_json(value: Value) -> Option<Self> {
        (value["kind"] == "Lease" && value["metadata"].is_object()).then_some(Self(value))
    }

    pub(crate) fn as_json(&self) -> &Value {
        &self.0
    }

    pub(crate) fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns the Lease as the object of an event.
    pub(crate) fn event_subject(&self) -> EventSubject {
        let metadata = &self.0["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().into();
        EventSubject {
            api_version: "coordination.k8s.io/v1".into(),
            kind: "Lease".into(),
            name: text("name"),
            namespace: text("namespace"),
            resource_version: text("resourceVersion"),
            uid: text("uid"),
        }
    }

    /// Returns the resource version; zero if it cannot be compared.
    pub(crate) fn version(&self) -> ResourceVersion {
        self.0["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns the holder; empty if nobody holds the Lease.
    pub(crate) fn holder(&self) -> &str {
        self.0["spec"]["holderIdentity"].as_str().unwrap_or_default()
    }

    /// Returns how long a candidate that has just seen the record must respect it, or `None` if the
    /// Lease does not tell.
    pub(crate) fn duration(&self) -> Option<Duration> {
        let seconds = self.0["spec"]["leaseDurationSeconds"].as_u64().filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds.min(i32::MAX as u64)))
    }

    /// Returns how often the holder has changed.
    pub(crate) fn transitions(&self) -> i32 {
        let transitions = self.0["spec"]["leaseTransitions"].as_i64().unwrap_or_default();
        i32::try_from(transitions.max(0)).unwrap_or(i32::MAX)
    }

    /// Returns true if the last holder has released the Lease: it cleared the holder, and either
    /// set a duration of 1 s, as client-go does, or removed the duration.
    pub(crate) fn is_released(&self) -> bool {
        self.holder().is_empty() && self.duration().is_none_or(|duration| duration <= Duration::from_secs(1))
    }

    pub(crate) fn record(&self) -> Record {
        Record(self.0["spec"].clone())
    }

    /// Returns the last writes that the holder left when it released the Lease, or `None` if the
    /// annotation is missing, unreadable, or from an earlier release: holders that do not know the
    /// annotation keep it.
    pub(crate) fn last_writes(&self) -> Option<LastWrites> {
        if !self.is_released() {
            return None;
        }
        let text = self.0["metadata"]["annotations"][LAST_WRITES_ANNOTATION].as_str()?;
        let left: Value = serde_json::from_str(text).ok()?;
        let time = |value: &Value| Some(value.as_str()?.parse::<Timestamp>().ok()?.as_microsecond());
        if time(&left["released"])? != time(&self.0["spec"]["renewTime"])? {
            return None;
        }
        let versions = left["versions"].as_object()?;
        let read = |(plural, version): (&String, &Value)| {
            let version: ResourceVersion = version.as_str()?.parse().ok()?;
            Some((plural.clone(), version))
        };
        versions.iter().map(read).collect()
    }

    /// Returns the Lease with `identity` as its new holder. `lease_duration` is in seconds.
    pub(crate) fn acquired(mut self, identity: &str, lease_duration: i32, now: Timestamp) -> Self {
        self.set("acquireTime", micro_time(now));
        // A Lease that does not exist yet has no version. Its first holder is no transition.
        let exists = !self.0["metadata"]["resourceVersion"].is_null();
        self.set("leaseTransitions", self.transitions().saturating_add(i32::from(exists)));
        self.renewed(identity, lease_duration, now)
    }

    /// Returns the Lease with the time of a renewal by its holder.
    pub(crate) fn renewed(mut self, identity: &str, lease_duration: i32, now: Timestamp) -> Self {
        if self.0["spec"]["acquireTime"].is_null() {
            self.set("acquireTime", micro_time(now));
        }
        self.set("holderIdentity", identity);
        self.set("leaseDurationSeconds", lease_duration);
        self.set("leaseTransitions", self.transitions());
        self.set("renewTime", micro_time(now));
        if let Some(annotations) = self.0["metadata"]["annotations"].as_object_mut() {
            annotations.remove(LAST_WRITES_ANNOTATION);
        }
        self
    }

    /// Returns the Lease for a holder that does not exist: candidates wait this long.
    pub(crate) fn reserved(mut self, reserve_for: Duration, now: Timestamp) -> Self {
        self.set("holderIdentity", RESERVED);
        self.set("leaseDurationSeconds", i32::try_from(reserve_for.as_secs()).unwrap_or(i32::MAX));
        self.set("leaseTransitions", self.transitions());
        self.set("acquireTime", micro_time(now));
        self.set("renewTime", micro_time(now));
        self
    }

    /// Returns the Lease without a holder, as client-go leaves it, and with the last writes.
    pub(crate) fn released(mut self, now: Timestamp, last_writes: Option<&LastWrites>) -> Self {
        self.set("holderIdentity", "");
        self.set("leaseDurationSeconds", 1);
        self.set("leaseTransitions", self.transitions());
        self.set("acquireTime", micro_time(now));
        self.set("renewTime", micro_time(now));
        if let Some(LastWrites(versions)) = last_writes {
            let versions: Map<String, Value> = versions
                .iter()
                .map(|(plural, version)| (plural.clone(), version.to_string().into()))
                .collect();
            let left = json!({"released": micro_time(now), "versions": versions});
            let annotations = &mut self.0["metadata"]["annotations"];
            if !annotations.is_object() {
                *annotations = json!({});
            }
            annotations[LAST_WRITES_ANNOTATION] = left.to_string().into();
        }
        self
    }

    fn set(&mut self, field: &str, value: impl Into<Value>) {
        let spec = &mut self.0["spec"];
        if !spec.is_object() {
            *spec = json!({});
        }
        spec[field] = value.into();
    }
}

/// Returns a time as a Lease has it: with microseconds, as Kubernetes' `MicroTime`.
fn micro_time(time: Timestamp) -> Value {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn lease(spec: Value) -> Lease {
        let metadata = json!({"name": "l", "namespace": "kube-system", "resourceVersion": "7"});
        Lease::from_json(json!({"kind": "Lease", "metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn acquiring_counts_a_transition_and_renewing_does_not() {
        let now = time("2026-01-01T00:00:00.1234567Z");
        let new = Lease::new("kube-system", "l").acquired("a", 15, now);
        let at = "2026-01-01T00:00:00.123456Z";
        let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": at, "renewTime": at});
        assert_eq!(new.as_json()["spec"], spec);
        let mut later = new.renewed("a", 15, time("2026-01-01T00:00:02Z"));
        let spec = json!({"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": at, "renewTime": "2026-01-01T00:00:02.000000Z"});
        assert_eq!(later.as_json()["spec"], spec);
        later.0["metadata"]["resourceVersion"] = "8".into();
        let next = later.acquired("b", 16, time("2026-01-01T00:00:03Z"));
        let at = "2026-01-01T00:00:03.000000Z";
        let spec = json!({"holderIdentity": "b", "leaseDurationSeconds": 16, "leaseTransitions": 1,
            "acquireTime": at, "renewTime": at});
        assert_eq!(next.as_json()["spec"], spec);
    }

    #[test]
    fn fields_that_are_not_known_here_are_kept() {
        let mut old =
            lease(json!({"strategy": "OldestEmulationVersion", "preferredHolder": "x", "more": [1]}));
        old.0["metadata"]["labels"] = json!({"a": "b"});
        old.0["metadata"]["annotations"] = json!({"c": "d", LAST_WRITES_ANNOTATION: "{}"});
        let now = time("2026-01-01T00:00:00Z");
        let new = old.acquired("a", 15, now);
        assert_eq!(new.0["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(new.0["metadata"]["annotations"], json!({"c": "d"}));
        assert_eq!(new.0["metadata"]["resourceVersion"], "7");
        assert_eq!(new.0["spec"]["preferredHolder"], "x");
        assert_eq!(new.0["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(new.0["spec"]["more"], json!([1]));
    }

    #[test]
    fn last_writes_belong_to_one_release() {
        let left: LastWrites = [("endpoints", ResourceVersion(12)), ("endpointslices", ResourceVersion(34))]
            .into_iter()
            .collect();
        let held = lease(json!({"holderIdentity": "a", "leaseTransitions": 3}));
        let released = held.released(time("2026-01-01T00:00:00.5Z"), Some(&left));
        assert_eq!(
            released.0["metadata"]["annotations"][LAST_WRITES_ANNOTATION],
            r#"{"released":"2026-01-01T00:00:00.500000Z","versions":{"endpoints":"12","endpointslices":"34"}}"#
        );
        assert!(released.is_released());
        assert_eq!(released.transitions(), 3);
        assert_eq!(released.last_writes(), Some(left));
        // client-go keeps annotations. Its release has another time.
        let mut other = released.clone();
        other.0["spec"]["renewTime"] = "2026-01-01T00:00:09.000000Z".into();
        assert_eq!(other.last_writes(), None);
        let acquired = released.clone().acquired("b", 15, time("2026-01-01T00:00:01Z"));
        assert_eq!(acquired.last_writes(), None);
        assert_eq!(acquired.released(time("2026-01-01T00:00:02Z"), None).last_writes(), None);
        // An annotation that a person wrote.
        for garbage in
            ["", "[]", "{}", r#"{"released":"2026-01-01T00:00:00.5Z","versions":{"endpoints":12}}"#]
        {
            let mut edited = released.clone();
            edited.0["metadata"]["annotations"][LAST_WRITES_ANNOTATION] = garbage.into();
            assert_eq!(edited.last_writes(), None, "{garbage}");
        }
    }

    #[test]
    fn absent_and_wrong_fields_are_zero_values() {
        let check = |spec: Value, holder: &str, seconds: Option<u64>, transitions: i32, released: bool| {
            let lease = lease(spec.clone());
            let got = (
                lease.holder(),
                lease.duration().map(|d| d.as_secs()),
                lease.transitions(),
                lease.is_released(),
            );
            assert_eq!(got, (holder, seconds, transitions, released), "{spec}");
            let _ = (lease.last_writes(), lease.version());
            let renewed = lease.acquired("a", 15, time("2026-01-01T00:00:00Z"));
            assert_eq!(
                (renewed.holder(), renewed.transitions()),
                ("a", transitions.saturating_add(1)),
                "{spec}"
            );
        };
        check(Value::Null, "", None, 0, true);
        check(json!([]), "", None, 0, true);
        check(
            json!({"holderIdentity": null, "leaseDurationSeconds": null, "leaseTransitions": null}),
            "",
            None,
            0,
            true,
        );
        check(
            json!({"holderIdentity": 5, "leaseDurationSeconds": "x", "leaseTransitions": {}}),
            "",
            None,
            0,
            true,
        );
        check(
            json!({"holderIdentity": "a", "leaseDurationSeconds": -1, "leaseTransitions": -1}),
            "a",
            None,
            0,
            false,
        );
        check(json!({"leaseDurationSeconds": 15}), "", Some(15), 0, false);
        check(json!({"leaseDurationSeconds": 1}), "", Some(1), 0, true);
        check(
            json!({"leaseDurationSeconds": i64::MAX, "leaseTransitions": i64::MAX}),
            "",
            Some(i32::MAX as u64),
            i32::MAX,
            false,
        );
    }

    #[test]
    fn an_answer_that_is_no_lease_is_refused() {
        for value in
            [Value::Null, json!({}), json!({"kind": "Status", "metadata": {}}), json!({"kind": "Lease"})]
        {
            assert_eq!(Lease::from_json(value.clone()), None, "{value}");
        }
    }
}

//! A Lease, by which programs elect a leader, and the pod that its holder names.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::meta::or_default;
use crate::{Intern, Interner, ObjectKey, Pod, ResourceVersion, Text, Timestamp, address, text, time};

/// How long a record counts that does not say for how long: client-go's default.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(15);
/// The longest time for which a record counts, whatever it says: a day.
pub const LONGEST_DURATION: Duration = Duration::from_secs(86_400);
/// The length of the longest hostname that a kubelet gives a pod.
const LONGEST_HOSTNAME: usize = 63;

/// The fields of a Lease (`coordination.k8s.io/v1`) that tell who leads.
///
/// ```
/// use kube_endpoint_core_model::Lease;
/// let lease: Lease = serde_json::from_str(r#"{
///     "metadata": {"name": "scheduler", "namespace": "ops"},
///     "spec": {"holderIdentity": "scheduler-0_6bb9", "leaseDurationSeconds": 15}
/// }"#)?;
/// assert_eq!(lease.record.holder, "scheduler-0_6bb9");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    pub key: ObjectKey,
    /// Version of the object behind this view.
    pub resource_version: ResourceVersion,
    pub record: Record,
}

/// The part of a Lease that its holder changes. A holder that lives changes it again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The identity of the holder; empty if nobody holds the Lease.
    pub holder: Text,
    /// How long the record counts, in seconds, if it says so.
    pub duration_seconds: Option<i32>,
    /// When the holder got the Lease, by the holder's clock.
    pub acquired: Option<Timestamp>,
    /// When the holder renewed it last, by the holder's clock.
    pub renewed: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: Option<i32>,
}

impl Record {
    /// Returns how long the record counts after it has changed: 15 s if it does not say, and a day
    /// at most.
    pub fn duration(&self) -> Duration {
        match self.duration_seconds.map(u64::try_from) {
            Some(Ok(seconds)) if seconds > 0 => Duration::from_secs(seconds).min(LONGEST_DURATION),
            _ => DEFAULT_DURATION,
        }
    }

    /// Returns true if the holder renewed the Lease last before a process started, so that another
    /// process holds it. Without one of the times, nobody knows.
    ///
    /// The kubelet writes whole seconds, so a renewal in the second of the start is no older.
    ///
    /// ```
    /// use kube_endpoint_core_model::lease::Record;
    /// let record = Record { renewed: "2026-01-01T00:00:10.9Z".parse().ok(), ..Record::default() };
    /// assert!(record.is_older_than("2026-01-01T00:00:11Z".parse().ok()));
    /// assert!(!record.is_older_than("2026-01-01T00:00:10Z".parse().ok()));
    /// assert!(!record.is_older_than(None));
    /// ```
    pub fn is_older_than(&self, started: Option<Timestamp>) -> bool {
        let times = started.zip(self.renewed);
        times.is_some_and(|(started, renewed)| renewed.as_second() < started.as_second())
    }

    /// Returns the duration that the record says, if the record counts for less.
    pub fn beyond_limit(&self) -> Option<Duration> {
        let said = self.duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        said.map(Duration::from_secs).filter(|said| *said > LONGEST_DURATION)
    }
}

/// The pod that the identity of a holder names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// It names this pod and no other.
    Pod(&'a Arc<Pod>),
    /// It names none of the pods.
    Nobody,
    /// It names more than one of them.
    Several,
}

/// Finds the pod that the identity of a holder names, among the pods that a selector selects.
///
/// The identity is split at `_`, `/`, `:`, `,`, `@` and blanks. It names a pod if one of the parts
/// equals the pod's name, uid or hostname, the name as a kubelet shortens it for the hostname, or,
/// compared as an address, one of the pod's addresses. It also names a pod if a part is the node of
/// the pod, the pod is in the network of that node, and no other of the pods is. A host name
/// without a domain is the node of the one pod whose node has that name and a domain, if nothing
/// else is named.
///
/// A part of a name never counts: `web-1` does not name `web-10`. The namespace of the pods does
/// not count at the beginning, before a `/`. A pod that has ended counts only if the identity names
/// no other.
///
/// ```
/// use std::sync::Arc;
/// use kube_endpoint_core_model::lease::{Named, named};
/// use kube_endpoint_core_model::{ObjectKey, Pod};
///
/// let pod = |name: &str| Arc::new(Pod { key: ObjectKey::new("ops", name), ..Pod::default() });
/// let pods = [pod("scheduler-0"), pod("scheduler-1")];
/// assert_eq!(named("scheduler-1_6bb9", &pods), Named::Pod(&pods[1]));
/// assert_eq!(named("scheduler", &pods), Named::Nobody);
/// ```
pub fn named<'a>(identity: &str, pods: &'a [Arc<Pod>]) -> Named<'a> {
    let namespace = pods.first().map_or("", |pod| &pod.key.namespace);
    let after = identity.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('/'));
    let tokens = Tokens::of(after.unwrap_or(identity));
    let steps: [&dyn Fn(&Pod) -> bool; 3] = [
        &|pod| !pod.is_terminal() && (tokens.name(pod) || tokens.name_node_of(pod, pods)),
        &|pod| tokens.name_host_of(pod),
        // Nothing has replaced the pod yet.
        &|pod| pod.is_terminal() && tokens.name(pod),
    ];
    let mut found = steps.into_iter().map(|is_named| only(pods, is_named));
    found.find(|found| *found != Named::Nobody).unwrap_or(Named::Nobody)
}

/// Finds the one pod that `is_named`.
fn only(pods: &[Arc<Pod>], is_named: impl Fn(&Pod) -> bool) -> Named<'_> {
    let mut found = pods.iter().filter(|pod| is_named(pod));
    match (found.next(), found.next()) {
        (None, _) => Named::Nobody,
        (Some(pod), None) => Named::Pod(pod),
        _ => Named::Several,
    }
}

/// The parts of an identity.
struct Tokens<'a> {
    texts: Vec<&'a str>,
    addresses: Vec<IpAddr>,
}

impl<'a> Tokens<'a> {
    fn of(identity: &'a str) -> Self {
        let is_blank_or = |others: &'static str| {
            move |character: char| character.is_whitespace() || others.contains(character)
        };
        let (mut texts, mut addresses) = (Vec::new(), Vec::new());
        for part in identity.split(is_blank_or("_/,@")).filter(|part| !part.is_empty()) {
            // An IPv6 address has colons, and a port may follow it. Its groups name nobody.
            if let Some(address) = address_in(part) {
                addresses.push(address);
                texts.push(part);
                continue;
            }
            let narrow = || part.split(':').filter(|text| !text.is_empty());
            addresses.extend(narrow().filter_map(address_in));
            texts.extend(narrow());
        }
        Self { texts, addresses }
    }

    fn has(&self, text: &str) -> bool {
        self.texts.contains(&text)
    }

    fn name(&self, pod: &Pod) -> bool {
        self.has(&pod.key.name)
            || self.has(&pod.uid)
            || pod.hostname.as_ref().is_some_and(|hostname| self.has(hostname))
            || self.has(shortened(&pod.key.name))
            // Somebody else may have the address of a pod that has ended.
            || !pod.is_terminal()
                && self.addresses.iter().any(|it| pod.has_ip(*it))
    }

    /// Returns true if a part is the node of a pod, and the pod is the only one in the network of
    /// that node.
    fn name_node_of(&self, pod: &Pod, pods: &[Arc<Pod>]) -> bool {
        host_of(pod).is_some_and(|node| {
            self.has(node) && pods.iter().filter(|other| host_of(other) == Some(node)).count() == 1
        })
    }

    /// Returns true if a part is the name of a pod's node without its domain, and the pod is in the
    /// network of that node.
    fn name_host_of(&self, pod: &Pod) -> bool {
        let short =
            host_of(pod).filter(|node| address_in(node).is_none()).and_then(|node| node.split_once('.'));
        short.is_some_and(|(host, _)| self.has(host))
    }
}

/// Returns the node in whose network a pod runs, if there is one.
fn host_of(pod: &Pod) -> Option<&Text> {
    pod.node_name.as_ref().filter(|_| pod.host_network && !pod.is_terminal())
}

/// Returns the address that a text is, with or without a port.
fn address_in(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = address::parse_sloppy(inner);
    address.or_else(|| text.parse().ok().map(|socket: SocketAddr| socket.ip()))
}

/// Returns the hostname that a kubelet makes of a pod's name.
fn shortened(name: &str) -> &str {
    name.get(..LONGEST_HOSTNAME).map_or(name, |start| start.trim_end_matches(['-', '.']))
}

impl Intern for Lease {
    fn intern(&mut self, interner: &mut Interner) {
        interner.text(&mut self.key.namespace);
    }
}

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawLease { metadata, spec } = RawLease::deserialize(deserializer)?;
        Ok(Self {
            key: ObjectKey { namespace: metadata.namespace, name: metadata.name },
            resource_version: metadata.resource_version,
            record: Record {
                holder: spec.holder_identity,
                duration_seconds: spec.lease_duration_seconds,
                acquired: spec.acquire_time,
                renewed: spec.renew_time,
                transitions: spec.lease_transitions,
            },
        })
    }
}

#[derive(Deserialize)]
struct RawLease {
    metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: RawSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    #[serde(deserialize_with = "text::or_empty")]
    name: Text,
    #[serde(default, deserialize_with = "text::or_empty")]
    namespace: Text,
    #[serde(default)]
    resource_version: ResourceVersion,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    #[serde(deserialize_with = "text::or_empty")]
    holder_identity: Text,
    lease_duration_seconds: Option<i32>,
    #[serde(deserialize_with = "time::lenient")]
    acquire_time: Option<Timestamp>,
    #[serde(deserialize_with = "time::lenient")]
    renew_time: Option<Timestamp>,
    lease_transitions: Option<i32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
        let mut pod = Pod { key: ObjectKey::new("ops", name), ..Pod::default() };
        change(&mut pod);
        Arc::new(pod)
    }

    fn name(identity: &str, pods: &[Arc<Pod>]) -> String {
        match named(identity, pods) {
            Named::Pod(pod) => pod.key.name.to_string(),
            Named::Nobody => "nobody".to_owned(),
            Named::Several => "several".to_owned(),
        }
    }

    #[test]
    fn an_identity_names_a_pod_by_name_uid_hostname_or_address() {
        let long = format!("{}-long-name", "a".repeat(62));
        let pods = [
            pod("web-1", |pod| pod.uid = "0c3f-11".into()),
            pod("web-10", |pod| pod.hostname = Some("first".into())),
            pod("web-2", |pod| {
                pod.pod_ip = Some("10.0.0.2".parse().unwrap());
                pod.pod_ips = Box::new(["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()]);
            }),
            pod(&long, |_| {}),
        ];
        let check = |identity: &str, want: &str| assert_eq!(name(identity, &pods), want, "{identity}");
        for identity in ["web-1", "web-1_6bb9", "6bb9/web-1", "x:web-1", "a,web-1", "me@web-1", " web-1\n"] {
            check(identity, "web-1");
        }
        check("0c3f-11", "web-1");
        check("first_0", "web-10");
        for identity in [
            "10.0.0.2",
            "10.0.0.2:8080",
            "10.0.0.02",
            "fd00::2",
            "FD00:0::2_x",
            "[fd00::2]:8080",
            "[fd00::2]",
        ] {
            check(identity, "web-2");
        }
        check(&"a".repeat(62), &long);
        check(&format!("{}_x", &long[..63]), "nobody");
        for identity in
            ["", "_", "web", "web-", "eb-1", "web-100", "0c3f", "10.0.0.22", "fd00::", "::", "first.web"]
        {
            check(identity, "nobody");
        }
        assert_eq!(name("fd00:1::beef_x", &[pod("beef", |_| {})]), "nobody");
        check("web-1_web-2", "several");
        check("web-1_web-1_0c3f-11", "web-1");
    }

    #[test]
    fn a_node_names_its_only_pod_in_the_network_of_the_node() {
        let on = |name: &str, node: &str, host: bool| {
            pod(name, |pod| (pod.node_name, pod.host_network) = (Some(node.into()), host))
        };
        let pods = [on("a", "one", true), on("b", "one", false), on("c", "two", true), on("d", "two", true)];
        assert_eq!(name("one_6bb9", &pods), "a");
        assert_eq!(name("two_6bb9", &pods), "nobody");
        assert_eq!(name("three", &pods), "nobody");
        assert_eq!(name("one", &pods[1..]), "nobody");
        // A pod that has ended is no longer there.
        let ended = pod("d", |pod| {
            (pod.node_name, pod.host_network) = (Some("two".into()), true);
            pod.phase = crate::pod::PodPhase::Failed;
        });
        assert_eq!(name("two", &[on("c", "two", true), ended]), "c");
    }

    #[test]
    fn a_host_name_names_the_only_node_that_has_it_and_a_domain() {
        let on = |name: &str, node: &str| {
            pod(name, |pod| (pod.node_name, pod.host_network) = (Some(node.into()), true))
        };
        let pods = [on("a", "one.example.com"), on("b", "two.example.com"), on("c", "10.0.0.7")];
        assert_eq!(name("one_6bb9", &pods), "a");
        assert_eq!(name("two", &pods), "b");
        assert_eq!(name("one.example", &pods), "nobody");
        assert_eq!(name("10", &pods), "nobody", "an address has no domain");
        // Two nodes, or two pods of one.
        assert_eq!(name("one", &[on("a", "one.example.com"), on("b", "one.example.org")]), "several");
        assert_eq!(name("one", &[on("a", "one.example.com"), on("b", "one.example.com")]), "several");
        // Whatever is named as a whole comes first.
        assert_eq!(name("one", &[on("a", "one.example.com"), on("b", "one")]), "b");
        assert_eq!(name("one", &[on("a", "one.example.com"), pod("one", |_| {})]), "one");
        let elsewhere = pod("a", |pod| pod.node_name = Some("one.example.com".into()));
        assert_eq!(name("one", &[elsewhere]), "nobody", "it has a network of its own");
    }

    #[test]
    fn the_namespace_before_a_slash_names_nobody() {
        let pods = [pod("ops", |_| {}), pod("ops-0", |_| {})];
        assert_eq!(name("ops/ops-0", &pods), "ops-0");
        assert_eq!(name("ops/ops-0_6bb9", &pods), "ops-0");
        assert_eq!(name("ops/ops", &pods), "ops");
        assert_eq!(name("ops/ops-0", &pods[..1]), "nobody", "the holder is not ops");
        assert_eq!(name("ops_6bb9", &pods), "ops");
        assert_eq!(name("ops", &pods), "ops");
        assert_eq!(name("shop/ops-0", &pods), "ops-0");
    }

    #[test]
    fn the_address_of_a_pod_that_has_ended_names_nobody() {
        let ended = pod("a", |pod| {
            pod.pod_ips = Box::new(["10.0.0.2".parse().unwrap()]);
            pod.phase = crate::pod::PodPhase::Succeeded;
        });
        assert_eq!(name("10.0.0.2", std::slice::from_ref(&ended)), "nobody");
        assert_eq!(name("a", &[ended]), "a");
    }

    /// The template of a Deployment sets the hostname, and a pod was evicted.
    #[test]
    fn a_pod_that_has_ended_does_not_make_an_identity_ambiguous() {
        let with_hostname = |name: &str| pod(name, |pod| pod.hostname = Some("scheduler".into()));
        let ended = pod("a", |pod| {
            pod.hostname = Some("scheduler".into());
            pod.phase = crate::pod::PodPhase::Failed;
        });
        let pods = [ended, with_hostname("b")];
        assert_eq!(name("scheduler_6bb9", &pods), "b");
        assert_eq!(name("scheduler_6bb9", &[with_hostname("b"), with_hostname("c")]), "several");
    }

    #[test]
    fn a_record_counts_for_as_long_as_it_says_within_limits() {
        let check = |seconds: Option<i32>, want: u64| {
            let record = Record { duration_seconds: seconds, ..Record::default() };
            assert_eq!(record.duration(), Duration::from_secs(want), "{seconds:?}");
        };
        check(None, 15);
        check(Some(0), 15);
        check(Some(-1), 15);
        check(Some(1), 1);
        check(Some(86_400), 86_400);
        check(Some(86_401), 86_400);
        check(Some(i32::MAX), 86_400);
        let beyond = |seconds| Record { duration_seconds: seconds, ..Record::default() }.beyond_limit();
        assert_eq!([None, Some(-1), Some(86_400)].map(beyond), [None; 3]);
        assert_eq!(beyond(Some(86_401)), Some(Duration::from_secs(86_401)));
    }

    #[test]
    fn odd_fields_are_absent() {
        let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": null})).unwrap();
        assert_eq!(lease.record, Record::default());
        let spec = json!({"holderIdentity": null, "leaseDurationSeconds": null, "renewTime": "soon", "acquireTime": null});
        let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": spec})).unwrap();
        assert_eq!(lease.record, Record::default());
    }
}

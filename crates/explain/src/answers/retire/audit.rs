//! Reads audit logs of API servers: they tell who asked for Endpoints, and only for requests that
//! they show.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::{Deserialize, Serialize};

use super::clients;
use super::evidence::{EvidenceKind, Findings, Names, READS, Requests, Source, as_text};

/// The most clients, each with the namespace that it asks for, that a log holds. A log of a cluster
/// has some hundreds.
const CLIENTS: usize = 20_000;
/// The longest user or user agent that is kept, in bytes: clients choose their user agents.
const LONGEST_NAME: usize = 300;
const PROXY_REMEDY: &str = "Use kubectl port-forward, an Ingress or a Gateway, or update the API servers to 1.37, which need no \
     Endpoints for it.";

const WRITER_REMEDY: &str = "Let it write EndpointSlices.";

/// The events of audit logs, added up line by line, so that a log may be larger than memory.
#[derive(Clone, Debug, Default)]
pub struct AuditLog {
    /// The number of logs that were begun.
    logs: usize,
    summary: AuditSummary,
    clients: BTreeMap<Client, BTreeMap<String, Count>>,
    /// Events of clients that came after [`CLIENTS`] others.
    left_out: u64,
}

/// The extent of an audit log. A policy may drop requests, and a log begins and ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditSummary {
    pub events: u64,
    /// The number of lines that are not JSON.
    pub damaged: u64,
    /// The number of lines that are JSON and no audit event.
    pub others: u64,
    /// The times of the first and the last request.
    #[serde(serialize_with = "as_text")]
    pub from: Option<Timestamp>,
    #[serde(serialize_with = "as_text")]
    pub to: Option<Timestamp>,
    /// The verbs of all requests.
    pub verbs: BTreeSet<String>,
    /// The verbs of requests for Endpoints.
    pub verbs_of_endpoints: BTreeSet<String>,
    /// True if it has requests to `services/NAME/proxy`.
    pub shows_services_proxy: bool,
}

/// A client, and what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Client {
    user: String,
    agent: String,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// The Endpoints of a namespace, or of all if it is empty.
    Endpoints(String),
    /// The Service of a request to `services/NAME/proxy`.
    Proxy(ObjectKey),
}

/// Requests with one verb. Each request may have an event when it starts and one when it ends.
#[derive(Clone, Debug, Default)]
struct Count {
    started: u64,
    ended: u64,
    refused: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    names: Names,
}

impl Count {
    fn requests(&self) -> u64 {
        self.started.max(self.ended)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEvent<'l> {
    #[serde(borrow)]
    kind: Cow<'l, str>,
    #[serde(borrow)]
    api_version: Cow<'l, str>,
    #[serde(borrow, default)]
    stage: Cow<'l, str>,
    #[serde(borrow, default)]
    verb: Cow<'l, str>,
    #[serde(borrow, default)]
    user: RawUser<'l>,
    #[serde(borrow, default)]
    impersonated_user: Option<RawUser<'l>>,
    #[serde(borrow, default)]
    user_agent: Cow<'l, str>,
    #[serde(borrow, default)]
    object_ref: Option<RawReference<'l>>,
    #[serde(default)]
    response_status: Option<RawStatus>,
    #[serde(borrow, default)]
    request_received_timestamp: Option<Cow<'l, str>>,
}

#[derive(Default, Deserialize)]
struct RawUser<'l> {
    #[serde(borrow, default)]
    username: Cow<'l, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawReference<'l> {
    #[serde(borrow)]
    resource: Cow<'l, str>,
    #[serde(borrow)]
    api_group: Cow<'l, str>,
    #[serde(borrow)]
    namespace: Cow<'l, str>,
    #[serde(borrow)]
    name: Cow<'l, str>,
    #[serde(borrow)]
    subresource: Cow<'l, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    code: i64,
}

impl AuditLog {
    /// Begins the log of another API server.
    pub fn begin(&mut self) {
        self.logs += 1;
    }

    /// Returns the number of logs that were begun, and one at least.
    pub(super) fn logs(&self) -> usize {
        self.logs.max(1)
    }

    /// Adds a line. A damaged one only counts; an empty one does not.
    pub fn add(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        match serde_json::from_slice::<RawEvent<'_>>(line) {
            Ok(event) if event.kind == "Event" && event.api_version.starts_with("audit.k8s.io/") => {
                self.add_event(&event);
            }
            Ok(_) => self.summary.others += 1,
            Err(_) if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() => {
                self.summary.others += 1;
            }
            Err(_) => self.summary.damaged += 1,
        }
    }

    /// Adds a line that is too long to be read.
    pub fn add_damaged(&mut self) {
        self.summary.damaged += 1;
    }

    /// Returns the number of lines that were added, without empty ones.
    pub fn lines(&self) -> u64 {
        self.summary.events + self.summary.damaged + self.summary.others
    }

    /// Returns the number of events.
    pub fn events(&self) -> u64 {
        self.summary.events
    }

    fn add_event(&mut self, event: &RawEvent<'_>) {
        let summary = &mut self.summary;
        summary.events += 1;
        let at = event.request_received_timestamp.as_ref().and_then(|at| at.parse::<Timestamp>().ok());
        summary.from = earlier(summary.from, at);
        summary.to = summary.to.max(at);
        insert(&mut summary.verbs, &event.verb);
        // The first event of a request does not tell as whom the client asks, nor the answer.
        if event.stage == "RequestReceived" {
            return;
        }
        let Some(object) = event.object_ref.as_ref().filter(|object| object.api_group.is_empty()) else {
            return;
        };
        let target = match (&*object.resource, &*object.subresource) {
            ("endpoints", _) => {
                insert(&mut summary.verbs_of_endpoints, &event.verb);
                Target::Endpoints(object.namespace.clone().into_owned())
            }
            ("services", "proxy") => {
                summary.shows_services_proxy = true;
                Target::Proxy(ObjectKey::new(&*object.namespace, service_name(&object.name)))
            }
            _ => return,
        };
        let user = event.impersonated_user.as_ref().unwrap_or(&event.user);
        let client = Client { user: shortened(&user.username), agent: shortened(&event.user_agent), target };
        if self.clients.len() >= CLIENTS && !self.clients.contains_key(&client) {
            self.left_out += 1;
            return;
        }
        let count =
            self.clients.entry(client).or_default().entry(event.verb.clone().into_owned()).or_default();
        match &*event.stage {
            "ResponseStarted" => count.started += 1,
            _ => {
                count.ended += 1;
                let code = event.response_status.as_ref().map_or(0, |status| status.code);
                count.refused += u64::from(code == 401 || code == 403);
            }
        }
        count.first = earlier(count.first, at);
        count.last = count.last.max(at);
        if !object.name.is_empty() {
            count.names.add(&object.name);
        }
    }

    pub(super) fn summary(&self) -> &AuditSummary {
        &self.summary
    }
}

/// Says what audit logs tell. `managers` are the users of the pods of kube-endpoint-manager;
/// `proxy_reads` is true if API servers read Endpoints for requests to `services/NAME/proxy`.
pub(super) fn evidence(log: Option<&AuditLog>, managers: &BTreeSet<Text>, proxy_reads: bool) -> Findings {
    let mut findings = Findings::default();
    let Some(log) = log else {
        findings.hidden(
            "No audit log was given, so nobody knows who asks for Endpoints",
            "Give the audit log of each API server: --audit-log FILE. Where there is none, only a rehearsal tells: the annotation \
             kube-endpoint-manager.github.io/endpoints: retired-until=TIME of a Service.",
        );
        return findings;
    };
    limits(&log.summary, &mut findings);
    for (client, verbs) in &log.clients {
        match &client.target {
            Target::Endpoints(_) if clients::is_known(&client.user, &client.agent, managers) => {}
            Target::Endpoints(namespace) => of_endpoints(client, verbs, namespace, &mut findings),
            Target::Proxy(service) if proxy_reads => of_proxy(client, verbs, service, &mut findings),
            Target::Proxy(_) => {}
        }
    }
    if log.left_out > 0 {
        let what = format!(
            "{} more events are of other clients than the {CLIENTS} that this report holds",
            log.left_out
        );
        let remedy = "Give a part of the log, or one of a single API server.";
        findings.add(EvidenceKind::Reader, Source::AuditLog, None, what, remedy);
    }
    findings
}

/// Says what the log cannot show.
fn limits(summary: &AuditSummary, findings: &mut Findings) {
    if !READS.iter().any(|verb| summary.verbs_of_endpoints.contains(*verb)) {
        findings.hidden(
            "The audit log has no get, list or watch of Endpoints at all, not even those of kube-controller-manager, so \
             its policy seems to drop them",
            "Log requests for endpoints at the level Metadata, and give a log that has been written since.",
        );
    }
    if summary.damaged > 0 {
        let lines =
            if summary.damaged == 1 { "1 line".to_owned() } else { format!("{} lines", summary.damaged) };
        findings.hidden(
            format!("{lines} of the audit log could not be read"),
            "Give a log that is whole; lines that are cut off may hold a reader.",
        );
    }
}

/// Tells reads and writes of Endpoints that the API server did not refuse.
fn of_endpoints(client: &Client, verbs: &BTreeMap<String, Count>, namespace: &str, findings: &mut Findings) {
    let namespace = Some(Text::from(namespace)).filter(|namespace| !namespace.is_empty());
    let place = if namespace.is_some() { "" } else { " of all namespaces" };
    for (kind, reads, remedy) in [
        (EvidenceKind::Reader, true, clients::remedy(&client.agent)),
        (EvidenceKind::Writer, false, WRITER_REMEDY),
    ] {
        let counts = answered(verbs, |verb| READS.contains(&verb) == reads);
        if !counts.is_empty() {
            let what = format!("{}: {} of Endpoints{place}", named(client), in_words(&counts));
            let evidence = findings.add(kind, Source::AuditLog, namespace.as_ref(), what, remedy);
            evidence.requests = Some(requests(client, &counts));
        }
    }
}

fn of_proxy(client: &Client, verbs: &BTreeMap<String, Count>, service: &ObjectKey, findings: &mut Findings) {
    let counts = answered(verbs, |_| true);
    if !counts.is_empty() {
        let what = format!("{}: {} to services/{}/proxy", named(client), in_words(&counts), service.name);
        let (kind, namespace) = (EvidenceKind::Reader, Some(&service.namespace));
        let evidence = findings.add(kind, Source::AuditLog, namespace, what, PROXY_REMEDY);
        evidence.requests = Some(requests(client, &counts));
    }
}

/// Returns the wanted verbs with requests that the API server did not refuse.
fn answered(verbs: &BTreeMap<String, Count>, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<&str, &Count> {
    let all = verbs.iter().map(|(verb, count)| (&**verb, count));
    all.filter(|(verb, count)| is_wanted(verb) && count.refused < count.requests()).collect()
}

fn named(client: &Client) -> String {
    let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
    format!("{} ({})", or(&client.user, "a user without a name"), or(&client.agent, "no user agent"))
}

/// Returns verbs with the number of requests, the names that they had, and their period.
fn in_words(counts: &BTreeMap<&str, &Count>) -> String {
    let verb = |(verb, count): (&&str, &&Count)| {
        let times =
            if count.requests() == 1 { String::new() } else { format!(" {} times", count.requests()) };
        let names = count.names.to_string();
        let names = if names.is_empty() { names } else { format!(" ({names})") };
        format!("{verb}{times}{names}")
    };
    counts.iter().map(verb).collect::<Vec<_>>().join(", ")
}

fn requests(client: &Client, counts: &BTreeMap<&str, &Count>) -> Requests {
    Requests {
        user: client.user.clone(),
        agent: client.agent.clone(),
        verbs: counts.iter().map(|(verb, count)| ((*verb).to_owned(), count.requests())).collect(),
        first: counts.values().fold(None, |first, count| earlier(first, count.first)),
        last: counts.values().filter_map(|count| count.last).max(),
    }
}

/// Returns the name of a Service in `SCHEME:NAME:PORT`, `NAME:PORT` or `NAME`.
fn service_name(name: &str) -> &str {
    let parts: Vec<&str> = name.split(':').collect();
    match &*parts {
        [_, name, _] | [name, _] | [name] => name,
        _ => name,
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

fn insert(verbs: &mut BTreeSet<String>, verb: &str) {
    if !verbs.contains(verb) && verbs.len() < 100 {
        verbs.insert(shortened(verb));
    }
}

fn shortened(name: &str) -> String {
    let end =
        (0..=LONGEST_NAME.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or_default();
    name.get(..end).unwrap_or_default().to_owned()
}

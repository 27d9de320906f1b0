//! Puts the evidence and the verdicts together.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::retirement::ServerVersion;
use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use super::evidence::{Evidence, EvidenceKind, Findings, Unseen};
use super::metrics::KnownWatches;
use super::{
    AuditLog, AuditSummary, Called, ConfigurationRead, EndpointsObjects, Metrics, Pods, PrometheusObjects,
    Rbac, audit, metrics, pods, prometheus, rbac, server, written,
};
use crate::answers::doctor::Read;

/// The facts about a cluster, each as it was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The namespace of the report; `None` for all.
    pub namespace: Option<Text>,
    /// The version of the API server that answered.
    pub server: Read<ServerVersion>,
    /// The number of API servers.
    pub api_servers: Read<usize>,
    /// The metrics of API servers.
    pub metrics: Read<Vec<Metrics>>,
    /// The audit logs, if some were given.
    pub audit_log: Option<AuditLog>,
    pub endpoints: Read<EndpointsObjects>,
    /// The Services of the namespace, or of all.
    pub services: Read<BTreeSet<ObjectKey>>,
    /// The pods of all namespaces, or of those that could be read.
    pub pods: Read<Pods>,
    /// The reason why pods of other namespaces than that of the report could not be read.
    pub pods_elsewhere: Read<()>,
    pub rbac: Read<Rbac>,
    /// The configurations of the Prometheus servers among the pods.
    pub configurations: Vec<ConfigurationRead>,
    /// The objects of prometheus-operator; empty if the server does not serve them.
    pub prometheus: Read<PrometheusObjects>,
    /// The Services that API servers call; needed for versions up to 1.33.
    pub called: Read<Vec<Called>>,
}

/// Says if a namespace may leave its Endpoints behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Somebody reads them, or an object has to stay.
    Refuse,
    /// No reader was seen, but something that would show one could not be seen.
    Unknown,
    /// No reader was seen. There may be one that asked at another time, or in another way.
    NoReaderSeen,
}

/// The verdict on a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NamespaceVerdict {
    pub namespace: Text,
    pub verdict: Verdict,
    /// The number of its Endpoints; `None` if they could not be read.
    pub endpoints: Option<usize>,
    /// The evidence that is about this namespace only.
    pub evidence: Vec<Evidence>,
}

/// The report of `retire`. Its JSON is documented in `docs/kubectl-plugin.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The version of the API server, such as `1.36`.
    pub server: Option<String>,
    /// The extent of the audit log.
    pub audit_log: Option<AuditSummary>,
    pub namespaces: Vec<NamespaceVerdict>,
    /// The evidence that is about all namespaces.
    pub evidence: Vec<Evidence>,
    /// Everything that could not be seen.
    pub not_seen: Vec<Unseen>,
}

impl Report {
    /// Makes the report.
    pub fn of(facts: &Facts) -> Self {
        let findings = findings(facts);
        let mut own: BTreeMap<Text, Vec<Evidence>> = BTreeMap::new();
        let mut evidence = Vec::new();
        for piece in findings.evidence {
            match piece.namespace.clone() {
                Some(namespace) => own.entry(namespace).or_default().push(piece),
                None => evidence.push(piece),
            }
        }
        evidence.sort_by(order);
        let not_seen = findings.unseen;
        let counts = counts(facts);
        let namespaces = counts.into_iter().map(|(namespace, endpoints)| {
            let mut own = own.remove(&namespace).unwrap_or_default();
            own.sort_by(order);
            let verdict = verdict(evidence.iter().chain(&own), &not_seen);
            NamespaceVerdict { verdict, endpoints, evidence: own, namespace }
        });
        Self {
            namespaces: namespaces.collect(),
            server: facts.server.as_ref().ok().map(ToString::to_string),
            audit_log: facts.audit_log.as_ref().map(AuditLog::summary),
            evidence,
            not_seen,
        }
    }

    /// Returns the exit code: 1 if a namespace is refused, 2 if none is but one is unknown,
    /// otherwise 0. Without a namespace, what could not be seen counts.
    pub fn exit_code(&self) -> u8 {
        let any = |verdict| self.namespaces.iter().any(|of| of.verdict == verdict);
        let is_unknown = self.namespaces.is_empty() && self.not_seen.iter().any(|unseen| unseen.decides);
        match (any(Verdict::Refuse), any(Verdict::Unknown) || is_unknown) {
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => 0,
        }
    }
}

/// The worst comes first; pieces with one remedy are together.
fn order(one: &Evidence, other: &Evidence) -> Ordering {
    let key = |piece: &Evidence| (piece.kind, piece.source);
    key(one).cmp(&key(other)).then_with(|| one.remedy.cmp(&other.remedy))
}

fn verdict<'e>(mut evidence: impl Iterator<Item = &'e Evidence>, not_seen: &[Unseen]) -> Verdict {
    if evidence.any(|piece| matches!(piece.kind, EvidenceKind::Reader | EvidenceKind::Refused)) {
        Verdict::Refuse
    } else if not_seen.iter().any(|unseen| unseen.decides) {
        Verdict::Unknown
    } else {
        Verdict::NoReaderSeen
    }
}

/// Returns the namespaces of the report, each with the number of its Endpoints. Of all namespaces,
/// these are those that have Services or Endpoints besides that of the API server.
fn counts(facts: &Facts) -> BTreeMap<Text, Option<usize>> {
    let endpoints = facts.endpoints.as_ref().ok();
    let none = endpoints.map(|_| 0);
    let mut counts: BTreeMap<Text, Option<usize>> = BTreeMap::new();
    for service in facts.services.iter().flatten() {
        if !(*service.namespace == *"default" && *service.name == *"kubernetes") {
            counts.insert(service.namespace.clone(), none);
        }
    }
    for (namespace, count) in endpoints.iter().flat_map(|endpoints| endpoints.counts()) {
        if count > 0 {
            counts.insert(namespace.clone(), Some(count));
        }
    }
    if let Some(namespace) = &facts.namespace {
        let count = counts.remove(namespace).unwrap_or(none);
        counts = [(namespace.clone(), count)].into();
    }
    counts
}

fn findings(facts: &Facts) -> Findings {
    let mut all = Findings::default();
    let mut add = |findings: Findings| {
        all.evidence.extend(findings.evidence);
        all.unseen.extend(findings.unseen);
    };
    let mut unread = Findings::default();
    let version = facts.server.as_ref().ok().copied();
    let log = facts.audit_log.as_ref();
    let api_servers = facts.api_servers.as_ref().ok().copied();
    let seen = facts.pods.as_ref().ok();
    let known = seen.map(Pods::known).unwrap_or_default();
    let watches = KnownWatches {
        replicas: seen.map_or(0, Pods::watching_replicas),
        of_each_server: server::resolves(version),
    };
    let proxied = metrics::nobody_proxied(&facts.metrics, api_servers);
    let proxy_reads = server::reads_for_proxy(version);
    add(audit::evidence(log, &known, proxy_reads, facts.services.as_ref().ok()));
    if let Some(all) = api_servers.filter(|all| *all > 1 && log.is_some()) {
        let what = format!("There are {all} API servers, and the audit log of each has only requests to it");
        let remedy = "Give the logs of all of them: --audit-log FILE for each.";
        // A client that lists at another server is in the log of that one only.
        let decides = log.is_some_and(|log| log.logs() < all);
        add(Findings { unseen: vec![Unseen::new(what, decides, remedy)], ..Findings::default() });
    }
    let shows_proxy = log.is_some_and(AuditLog::shows_proxy);
    add(server::evidence(&facts.server, &facts.called, shows_proxy, proxied));
    add(metrics::evidence(&facts.metrics, api_servers, watches));
    match &facts.endpoints {
        Ok(endpoints) => add(written::evidence(endpoints, seen.is_some_and(Pods::has_kube_dns))),
        Err(why) => unread.unread("Who writes Endpoints", why),
    }
    match &facts.rbac {
        Ok(rbac) => add(rbac::evidence(rbac, seen, &known)),
        Err(why) => unread.unread("Who may read Endpoints", why),
    }
    add(prometheus::evidence(seen, &facts.configurations, &facts.prometheus));
    match &facts.pods {
        Ok(pods) => add(pods::evidence(pods)),
        Err(why) => unread.unread("Programs that read Endpoints by their configuration", why),
    }
    if let Err(why) = &facts.pods_elsewhere {
        unread.unread("Programs of other namespaces that read Endpoints by their configuration", why);
    }
    if let Err(why) = &facts.services {
        unread.unread("Services", why);
    }
    add(unread);
    // Whatever could hide a reader comes first.
    all.unseen.sort_by_key(|unseen| !unseen.decides);
    all
}

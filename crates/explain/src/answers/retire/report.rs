//! Puts the evidence and the verdicts together.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::retirement::ServerVersion;
use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use super::evidence::{Evidence, EvidenceKind, Findings, Unseen};
use super::metrics::KnownWatches;
use super::{AuditLog, AuditSummary, Metrics, audit, metrics, server};
use crate::answers::doctor::{Instance, Read, runs_beside};

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
    /// The Services of the namespace, or of all.
    pub services: Read<BTreeSet<ObjectKey>>,
    /// The pods of kube-endpoint-manager, whose requests do not count.
    pub managers: Read<Vec<Instance>>,
}

/// Says if a namespace may leave its Endpoints behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Somebody reads them, or the API servers need them.
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
    /// Everything that could hide a reader.
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
        let known: BTreeSet<Text> = own.keys().cloned().collect();
        let namespaces = namespaces(facts, known).into_iter().map(|namespace| {
            let mut own = own.remove(&namespace).unwrap_or_default();
            own.sort_by(order);
            let verdict = verdict(evidence.iter().chain(&own), &not_seen);
            NamespaceVerdict { verdict, evidence: own, namespace }
        });
        Self {
            namespaces: namespaces.collect(),
            server: facts.server.as_ref().ok().map(ToString::to_string),
            audit_log: facts.audit_log.as_ref().map(|log| log.summary().clone()),
            evidence,
            not_seen,
        }
    }

    /// Returns the exit code: 1 if a namespace is refused, 2 if none is but one is unknown,
    /// otherwise 0. Without a namespace, what could not be seen counts.
    pub fn exit_code(&self) -> u8 {
        let any = |verdict| self.namespaces.iter().any(|of| of.verdict == verdict);
        let is_unknown = self.namespaces.is_empty() && !self.not_seen.is_empty();
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
    } else if !not_seen.is_empty() {
        Verdict::Unknown
    } else {
        Verdict::NoReaderSeen
    }
}

/// Returns the namespaces of the report: that of the command, or those that have a Service besides
/// that of the API server. Without the Services, these are those with evidence.
fn namespaces(facts: &Facts, with_evidence: BTreeSet<Text>) -> BTreeSet<Text> {
    if let Some(namespace) = &facts.namespace {
        return [namespace.clone()].into();
    }
    let Ok(services) = &facts.services else { return with_evidence };
    let of_api_server = ObjectKey::new("default", "kubernetes");
    let others = services.iter().filter(|service| **service != of_api_server);
    others.map(|service| service.namespace.clone()).collect()
}

fn findings(facts: &Facts) -> Findings {
    let version = facts.server.as_ref().ok().copied();
    let log = facts.audit_log.as_ref();
    let api_servers = facts.api_servers.as_ref().ok().copied();
    let managers = facts.managers.as_deref().unwrap_or_default();
    let users = managers.iter().filter_map(|pod| pod.user.as_deref().map(Text::from)).collect();
    let mut all = audit::evidence(log, &users, server::reads_for_proxy(version));
    if let (Some(log), Some(servers)) =
        (log, api_servers.filter(|servers| log.is_some_and(|log| log.logs() < *servers)))
    {
        // A client that lists at another server is in the log of that one only.
        all.hidden(
            format!("The audit logs are those of {} of {servers} API servers", log.logs()),
            "Give the logs of all of them: --audit-log FILE for each.",
        );
    }
    let shows_proxy = log.is_some_and(|log| log.summary().shows_services_proxy);
    all.extend(server::evidence(&facts.server, shows_proxy, metrics::proxied(&facts.metrics, api_servers)));
    // Those that run may watch.
    let running: Vec<&Instance> = managers.iter().filter(|pod| pod.started.is_some()).collect();
    let watches = KnownWatches {
        replicas: if runs_beside(running.iter().copied()) { 0 } else { running.len() },
        of_each_server: server::resolves(version),
    };
    all.extend(metrics::evidence(&facts.metrics, api_servers, watches));
    if let Err(why) = &facts.managers {
        all.unread("The pods of kube-endpoint-manager, whose requests do not count", why);
    }
    if let Err(why) = &facts.services {
        all.unread("Services", why);
    }
    all
}

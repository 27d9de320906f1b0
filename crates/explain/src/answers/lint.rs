//! Lint: lists all faults of the Services of a cluster, the worst first.

use std::collections::BTreeSet;

use kube_endpoint_core_model::well_known::{
    ENDPOINT_CONTROLLER, ENDPOINTSLICE_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY, MIRRORING_CONTROLLER,
    SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, LabelSelector, ObjectKey, StringMap, Text, Timestamp,
};
use serde::Serialize;

use crate::answers::backends;
use crate::answers::explain::{Near, explain_with};
use crate::answers::explanation::{Advice, Explanation};
use crate::facts::across::Across;
use crate::facts::objects::Objects;
use crate::facts::options::{Known, Options};
use crate::facts::references::Referrer;
use crate::facts::remedy::Remedy;
use crate::findings::code::Severity;
use crate::findings::evidence::{Evidence, Read};
use crate::findings::finding::Problem;
use crate::findings::inputs::Behind;
use crate::findings::rank::{Rank, TrafficLost};
use crate::findings::{
    ClusterUnserved, Code, Fault, NotAttached, OrphanedEndpoints, OrphanedSlice, ProxyNotReady,
};
use crate::models::cluster::{ClusterFacts, Helper, NotReadyPods, Waiting};
use crate::models::near::NearIndex;

/// One problem of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Lint {
    /// Kind of the object: `Service`, `EndpointSlice` or `Endpoints`; `Cluster` for what concerns
    /// all Services.
    pub kind: &'static str,
    pub object: ObjectKey,
    pub code: Code,
    pub name: &'static str,
    pub severity: Severity,
    pub message: String,
    #[serde(flatten)]
    pub remedy: Remedy,
    /// The fields that it rests on.
    pub evidence: Vec<Evidence>,
    /// Number of pods with the problem, or zero if the object itself has it.
    pub pods: usize,
    /// The traffic that clients lose because of it.
    pub traffic_lost: TrafficLost,
    /// The place among other problems.
    #[serde(skip)]
    pub rank: Rank,
}

/// The report of a lint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LintReport {
    /// The problems by [rank](Rank), then by object.
    pub problems: Vec<Lint>,
    /// Number of checked Services.
    pub services: usize,
    /// The checked Services, sorted.
    #[serde(skip)]
    pub checked: Vec<ObjectKey>,
    /// The kinds that could be read.
    #[serde(skip)]
    pub known: Known,
    /// True if the objects are from files: the report is about what they have.
    #[serde(skip)]
    pub from_files: bool,
    /// The Services whose slices are late, and what else tells if a controller runs.
    #[serde(skip)]
    pub waiting: Waiting,
    /// Sentences about the kinds that could not be read. The report lacks problems that depend on
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

impl Lint {
    /// Returns the message and the remedy as sentences.
    pub fn sentences(&self) -> [String; 2] {
        [&self.message, &self.remedy.sentence].map(|text| match text.ends_with(['.', '?', '!']) {
            true => text.clone(),
            false => format!("{text}."),
        })
    }

    /// Returns true if the problem only follows from the one with this code, which concerns all
    /// Services.
    pub fn follows_from(&self, root: Code) -> bool {
        root == Code::ClusterUnserved && matches!(self.code, Code::SlicesBehind | Code::EndpointsBehind)
    }

    /// Compares two problems by rank, then by object and code.
    pub fn worst_first(one: &Self, two: &Self) -> std::cmp::Ordering {
        (one.rank, &one.object, one.code).cmp(&(two.rank, &two.object, two.code))
    }
}

impl LintReport {
    /// Sets [`not_read`](Self::not_read).
    pub fn with_not_read(self, not_read: Vec<String>) -> Self {
        Self { not_read, ..self }
    }

    /// Returns the report without the problems of codes that may pass, unless an earlier report has
    /// them, too.
    pub fn lasting(mut self, earlier: &[Lint], may_pass: impl Fn(Code) -> bool) -> Self {
        let was_there =
            |lint: &Lint| earlier.iter().any(|then| (&then.object, then.code) == (&lint.object, lint.code));
        self.problems.retain(|lint| !may_pass(lint.code) || was_there(lint));
        self
    }

    /// Returns the cause of all late slices, if no endpoint controller serves the cluster. Call it
    /// after [`lasting`](Self::lasting).
    pub fn root_cause(&self, now: Timestamp) -> Option<Lint> {
        let is_late = |lint: &&Lint| lint.code == Code::SlicesBehind;
        let late: BTreeSet<&ObjectKey> =
            self.problems.iter().filter(is_late).map(|lint| &lint.object).collect();
        let mut waiting = self.waiting.clone();
        waiting.retain(|service| late.contains(service));
        let fault = Fault::from(ClusterUnserved(waiting.unserved(now)?));
        let object = ObjectKey::new("", "endpoint-controllers");
        let traffic_lost = self.problems.iter().filter(is_late).map(|lint| lint.traffic_lost).max();
        let mut cause = of_fault("Cluster", object.clone(), &Read::new(&Objects::new(), &object), &fault);
        cause.traffic_lost = traffic_lost.unwrap_or_default();
        cause.rank = Rank {
            traffic_lost: cause.traffic_lost,
            pods_hit: self.problems.iter().filter(is_late).map(|lint| lint.rank.pods_hit).sum(),
            ..cause.rank
        };
        Some(cause)
    }

    /// Replaces the problems of late slices and Endpoints by their [root cause](Self::root_cause),
    /// if they have one.
    pub fn with_root_cause(mut self, now: Timestamp) -> Self {
        let Some(cause) = self.root_cause(now) else { return self };
        self.problems.retain(|lint| !lint.follows_from(cause.code));
        self.problems.push(cause);
        self.problems.sort_by(Lint::worst_first);
        self
    }

    /// Returns the exit code of a program that checks a cluster: 1 if there is a problem that
    /// fails, otherwise 2 if objects could not be read without which the report is not complete,
    /// otherwise 0.
    pub fn exit_code(&self, fail_on: FailOn) -> u8 {
        match self.problems.iter().any(|lint| fail_on.fails(lint.severity)) {
            true => 1,
            false if self.is_incomplete(fail_on) => 2,
            false => 0,
        }
    }

    /// Returns true if objects could not be read without which the report is not complete: other
    /// ones than nodes, and than those that files do not have, unless these count, too.
    pub(crate) fn is_incomplete(&self, fail_on: FailOn) -> bool {
        let lacks_nodes_alone =
            !self.known.is_complete() && Known { nodes: true, ..self.known }.is_complete();
        !self.not_read.is_empty() && (fail_on.strict || !(lacks_nodes_alone || self.from_files))
    }
}

/// The findings with which the check of a cluster fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailOn {
    /// The least severity with which a problem fails, or `None` if no problem does.
    pub severity: Option<Severity>,
    /// True if the check also fails if only nodes could not be read.
    pub strict: bool,
}

impl Default for FailOn {
    /// Errors and warnings fail.
    fn default() -> Self {
        Self { severity: Some(Severity::Warning), strict: false }
    }
}

impl FailOn {
    /// Returns true if a problem of this severity fails.
    pub fn fails(self, severity: Severity) -> bool {
        self.severity.is_some_and(|least| severity >= least)
    }
}

/// Selects the problems of a report.
#[derive(Clone, Debug, Default)]
pub struct LintOptions {
    /// Codes that the report leaves out.
    pub ignore: BTreeSet<Code>,
    /// True if the report includes problems of severity `info`.
    pub include_info: bool,
    /// Selects the Services by their labels, or `None` for all. It selects slices and Endpoints
    /// whose Service does not exist by their own.
    pub selector: Option<LabelSelector>,
    /// The namespace whose objects were read, or `None` for all.
    pub namespace: Option<Text>,
}

impl LintOptions {
    fn selects(&self, labels: &StringMap) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }
}

/// Checks all Services, and slices and Endpoints whose Service does not exist.
pub fn lint(objects: &Objects, now: Timestamp, options: &Options, lint_options: &LintOptions) -> LintReport {
    let topology = objects.topology();
    let mut cluster = ClusterFacts::of(objects, options, now);
    // The Leases tell about all Services together.
    let stale_leases = std::mem::take(&mut cluster.stale_leases);
    let mut waiting = Waiting::new(cluster.signs.slices, stale_leases);
    let mut problems = Vec::new();
    // Services are sorted by namespace.
    let mut nearby: Option<(Text, NearIndex)> = None;
    let across = Across::new(objects, options);
    let selected = objects.services.iter().filter(|(_, service)| lint_options.selects(&service.labels));
    let checked: Vec<ObjectKey> = selected.map(|(key, _)| key.clone()).collect();
    for key in &checked {
        let near = |selector: &StringMap| {
            let is_other = nearby.as_ref().is_none_or(|(namespace, _)| *namespace != key.namespace);
            if is_other {
                nearby = None;
            }
            let (_, index) = nearby.get_or_insert_with(|| {
                (key.namespace.clone(), NearIndex::new(objects.labels_of(&key.namespace)))
            });
            index.near(selector)
        };
        let near = Near { near, metadata: None };
        let explanation = explain_with(objects, key, (&topology, &cluster), now, near, &across, options);
        if let Some(explanation) =
            explanation.as_ref().filter(|_| objects.service(key).is_some_and(|it| it.selects_pods()))
        {
            let behind = slices_behind(explanation);
            waiting.count(key, behind.and_then(Behind::late));
            if let Some(refused) = behind.and_then(|behind| behind.refused.as_ref()) {
                waiting.tried(refused.time(now));
            }
        }
        problems.extend(of_service(explanation, key));
    }
    problems.extend(of_leftovers(objects, options, lint_options));
    let proxies =
        NotReadyPods::of(objects, Helper::KubeProxy, now).filter(|_| lint_options.selector.is_none());
    problems.extend(proxies.map(|pods| {
        let object = pods.object();
        of_fault("Cluster", object.clone(), &Read::new(objects, &object), &ProxyNotReady(pods).into())
    }));
    problems.extend(
        backends::without_service(objects, lint_options.namespace.as_deref(), options).iter().map(
            |missing| {
                let Referrer { kind, object } = missing.reference.from.clone();
                let service = &missing.reference.service;
                of_fault(kind, object, &Read::new(objects, service), &missing.clone().into())
            },
        ),
    );
    problems.extend(not_attached(objects, now));
    problems.retain(|lint| {
        !lint_options.ignore.contains(&lint.code)
            && (lint_options.include_info || lint.severity > Severity::Info)
    });
    problems.sort_by(Lint::worst_first);
    let (known, from_files) = (options.known, options.are_from_files());
    let not_read = Vec::new();
    LintReport { problems, services: checked.len(), checked, known, from_files, waiting, not_read }
}

/// Returns the due writes of slices, if a finding tells of them.
fn slices_behind(explanation: &Explanation) -> Option<&Behind> {
    explanation.faults.iter().find_map(|fault| match fault {
        Fault::SlicesBehind(behind) => Some(&behind.0),
        _ => None,
    })
}

fn of_service(explanation: Option<Explanation>, key: &ObjectKey) -> impl Iterator<Item = Lint> {
    let advice = explanation.map(|explanation| explanation.to_do).unwrap_or_default();
    // The report tells once for all Services which kinds could not be read, and in addition for
    // each Service that seems down because of it.
    let is_told = |advice: &Advice| advice.code == Code::NotKnown && advice.severity < Severity::Error;
    advice.into_iter().filter(move |advice| !is_told(advice)).map(|advice| Lint {
        kind: "Service",
        object: key.clone(),
        code: advice.code,
        name: advice.code.name(),
        severity: advice.severity,
        traffic_lost: advice.traffic_lost,
        rank: advice.rank(),
        message: if advice.pods > 0 {
            format!("{} {}: {}", advice.pods, if advice.pods == 1 { "pod" } else { "pods" }, advice.message)
        } else {
            advice.message
        },
        remedy: advice.remedy,
        evidence: advice.evidence,
        pods: advice.pods,
    })
}

/// Returns the routes, Gateways and Ingresses that no controller serves.
fn not_attached(objects: &Objects, now: Timestamp) -> impl Iterator<Item = Lint> {
    let found = objects.raw.attached.keys().flat_map(move |from| NotAttached::of(objects, from, now));
    found.map(|it| {
        let Referrer { kind, object } = it.from.clone();
        of_fault(kind, object.clone(), &Read::new(objects, &object), &it.into())
    })
}

/// Returns the slices and Endpoints that a controller made, and whose Service does not exist.
fn of_leftovers(objects: &Objects, options: &Options, lint_options: &LintOptions) -> Vec<Lint> {
    let is_ours = |slice: &EndpointSlice| {
        let managers =
            [&*options.slices.manager, ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER];
        managers.iter().any(|manager| slice.is_managed_by(manager))
    };
    let is_from_pods = |endpoints: &Endpoints| {
        let manager = endpoints.metadata.labels.get(LABEL_ENDPOINTS_MANAGED_BY);
        manager.is_some_and(|manager| **manager == *ENDPOINT_CONTROLLER)
    };
    let of_missing = objects.slices.iter().filter(|(service, _)| objects.service(service).is_none());
    let slices = of_missing.flat_map(|(service, slices)| slices.iter().map(move |slice| (service, slice)));
    let is_wanted = |slice: &EndpointSlice| is_ours(slice) && lint_options.selects(&slice.metadata.labels);
    let slices = slices.filter(|(_, slice)| is_wanted(slice)).map(|(service, slice)| {
        let orphan = OrphanedSlice { slice: slice.metadata.name.clone(), service: service.name.clone() };
        of_fault("EndpointSlice", slice.key(), &Read::new(objects, service), &orphan.into())
    });
    let endpoints = objects.endpoints.iter().filter(|(key, endpoints)| {
        objects.service(key).is_none()
            && is_from_pods(endpoints)
            && lint_options.selects(&endpoints.metadata.labels)
    });
    let endpoints = endpoints.map(|(key, _)| {
        let orphan = OrphanedEndpoints { endpoints: key.clone() };
        of_fault("Endpoints", key.clone(), &Read::new(objects, key), &orphan.into())
    });
    slices.chain(endpoints).collect()
}

/// `read` is about the name under which the Service of the object would be.
fn of_fault(kind: &'static str, object: ObjectKey, read: &Read<'_>, fault: &Fault) -> Lint {
    Lint {
        kind,
        code: fault.code(),
        name: fault.code().name(),
        severity: fault.severity(),
        message: fault.to_string(),
        remedy: fault.remedy(read.key()),
        evidence: fault.evidence(read),
        pods: 0,
        traffic_lost: TrafficLost::None,
        rank: Rank {
            severity: fault.severity(),
            traffic_lost: TrafficLost::None,
            pods_hit: 0,
            is_of_service: true,
        },
        object,
    }
}

//! The explanation of one Service, as data.

use crate::answers::from_pod::FromPod;
use crate::answers::history::LastChange;
use crate::facts::details::{LastWrite, RecentEvent, write_optional_time};
use crate::facts::remedy::Remedy;
use crate::findings::code::Severity;
use crate::findings::counts::Counts;
use crate::findings::evidence::{Evidence, Read};
use crate::findings::finding::{Found, Problem};
use crate::findings::pod::PodExplanation;
use crate::findings::pod_reason::PodsOf;
use crate::findings::rank::{Rank, TrafficLost};
use crate::findings::{Code, Fault, NotKnown, PodReason, PublishedNotReady};
use crate::models::near::NearMatch;
use crate::models::selection::SelectedBy;
use crate::models::traffic::ServedBy;
use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{AddressType, ObjectKey, Service, Text, Timestamp};
use serde::{Serialize, Serializer};

/// The reasons why a Service has its endpoints.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Explanation {
    pub service: ObjectKey,
    pub verdict: ServiceVerdict,
    /// The client that the explanation is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<FromPod>,
    /// Since when its state lasts, at least, if the objects show that.
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The last change before that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_change: Option<LastChange>,
    /// The program that sends clients to its endpoints.
    pub served_by: ServedBy,
    /// The EndpointSelector that the Service names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected_by: Option<SelectedBy>,
    pub pods_by_publication: Counts,
    /// The faults of the Service, its slices and its Endpoints, the worst first.
    pub faults: Faults,
    /// The pods that it selects, by name.
    pub pods: Vec<PodExplanation>,
    /// Pods that differ from the selector in one label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearly_matching: Vec<NearMatch>,
    /// Number of all of these pods: the list has the largest groups only.
    #[serde(skip)]
    pub(crate) nearly_matching_pods: usize,
    /// The slices that are labelled with its name.
    pub slices: Vec<SliceSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointsSummary>,
    /// True if an annotation or a flag retires its Endpoints.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub endpoints_retired: bool,
    /// The last write and the newest change.
    pub freshness: Freshness,
    /// Events about the Service, the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<RecentEvent>,
    /// The advice, the most important first.
    pub to_do: Vec<Advice>,
    /// Sentences about the kinds that could not be read. The explanation lacks problems that depend
    /// on them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// The state of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// All pods that should receive traffic do.
    Ok,
    /// It has no endpoints, by design.
    NoEndpoints,
    /// The readable objects do not tell which of the others it is.
    Unknown,
    /// It receives traffic, and something is wrong.
    Degraded,
    /// No endpoint receives traffic, and the pods are starting, within what their specifications
    /// allow.
    Starting,
    /// No endpoint receives traffic.
    Down,
}

/// The verdict on a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServiceVerdict {
    pub status: Status,
    /// The code of the most important finding; [`Code::Published`] if nothing is wrong.
    pub code: Code,
    pub severity: Severity,
    /// The number of endpoints that receive traffic and the most important finding, as one
    /// sentence.
    pub message: String,
}

/// One slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SliceSummary {
    pub name: Text,
    /// The manager that its label names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<Text>,
    pub address_type: AddressType,
    pub ports: Vec<String>,
    pub endpoints: usize,
    pub ready: usize,
    /// The maximum number of its endpoints, if the EndpointSlice controller fills it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<usize>,
    /// The time and the field manager of its last write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_write: Option<LastWrite>,
}

/// The Endpoints object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EndpointsSummary {
    pub ready: usize,
    /// Number of addresses that are not ready.
    pub not_ready: usize,
    /// True if it is annotated as truncated.
    pub truncated: bool,
    /// The time and the field manager of its last write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_write: Option<LastWrite>,
}

/// The age of the outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Freshness {
    /// Time of the last write of a slice or the Endpoints, from their metadata.
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub last_write: Option<Timestamp>,
    /// Its age in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_write_seconds: Option<i64>,
    /// Time of the newest change that should be published.
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub newest_change: Option<Timestamp>,
    /// Its age in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_change_seconds: Option<i64>,
}

/// The remedy for one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Advice {
    pub code: Code,
    pub severity: Severity,
    pub message: String,
    #[serde(flatten)]
    pub remedy: Remedy,
    /// The fields that it rests on; those of the first pod, if it concerns pods.
    pub evidence: Vec<Evidence>,
    /// Number of pods that it concerns; zero if it concerns the Service itself.
    pub pods: usize,
    /// Names of some of these pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Text>,
    /// The traffic that clients lose because of it.
    pub traffic_lost: TrafficLost,
    /// True if no endpoint receives traffic because of it, and it goes away by itself.
    #[serde(skip)]
    pub(crate) passes: bool,
    /// Number of pods of the Service.
    #[serde(skip)]
    pub(crate) selected: usize,
}

impl Advice {
    /// Returns the advice about a Service itself. `is_down` is true if no endpoint of it receives
    /// traffic.
    pub(crate) fn of_fault(fault: &Fault, read: &Read<'_>, is_down: bool, selected: usize) -> Self {
        Self {
            code: fault.code(),
            severity: fault.severity(),
            message: fault.to_string(),
            remedy: fault.remedy(read.key()),
            evidence: fault.evidence(read),
            pods: 0,
            examples: Vec::new(),
            traffic_lost: fault.traffic_lost(is_down),
            passes: false,
            selected,
        }
    }

    /// Returns the rank. Advice about the Service itself concerns all of its pods.
    pub(crate) fn rank(&self) -> Rank {
        let is_of_service = self.pods == 0;
        Rank {
            severity: self.severity,
            traffic_lost: self.traffic_lost,
            pods_hit: if is_of_service { self.selected } else { self.pods },
            is_of_service,
        }
    }
}

/// Faults of one Service. Each serialises with its code, message and remedy.
#[derive(Clone, Debug)]
pub struct Faults {
    service: ObjectKey,
    all: Vec<Fault>,
    /// The fields that each of them rests on.
    evidence: Vec<Vec<Evidence>>,
}

impl Faults {
    pub(crate) fn new(read: &Read<'_>, all: Vec<Fault>) -> Self {
        let evidence = all.iter().map(|fault| fault.evidence(read)).collect();
        Self { service: read.key().clone(), all, evidence }
    }

    /// Returns each finding with its remedy.
    pub(crate) fn with_remedies(&self) -> impl Iterator<Item = (&Fault, Remedy)> {
        self.all.iter().map(|fault| (fault, fault.remedy(&self.service)))
    }
}

impl std::ops::Deref for Faults {
    type Target = [Fault];

    fn deref(&self) -> &[Fault] {
        &self.all
    }
}

impl Serialize for Faults {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.all
                .iter()
                .zip(&self.evidence)
                .map(|(fault, evidence)| Found::new(fault, Fault::remedy(fault, &self.service), evidence)),
        )
    }
}

/// Returns the position of the advice about the finding of a verdict.
pub(crate) fn position_of_cause(verdict: &ServiceVerdict, to_do: &[Advice]) -> Option<usize> {
    to_do.iter().position(|it| it.code == verdict.code && verdict.message.ends_with(&it.message))
}

/// The maximum number of pods that an advice names.
const EXAMPLES: usize = 3;

impl Explanation {
    /// Returns the position of the advice about the finding of the verdict.
    pub(crate) fn cause(&self) -> Option<usize> {
        position_of_cause(&self.verdict, &self.to_do)
    }

    /// Returns the codes of all findings, sorted, each once.
    pub fn codes(&self) -> Vec<Code> {
        let of_pods = self.pods.iter().filter_map(|pod| pod.reason.as_ref()).map(Problem::code);
        let is_hidden = self.pods.iter().any(PodExplanation::is_published_broken);
        let hidden = is_hidden.then_some(Code::PublishedNotReady);
        let mut codes: Vec<Code> =
            self.faults.iter().map(Problem::code).chain(of_pods).chain(hidden).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// Sets [`not_read`](Self::not_read).
    pub fn with_not_read(self, not_read: Vec<String>) -> Self {
        Self { not_read, ..self }
    }

    /// Returns the exit code of a program that prints the explanation: 2 if the status is not
    /// known, otherwise 0.
    pub fn exit_code(&self) -> u8 {
        if self.verdict.status == Status::Unknown { 2 } else { 0 }
    }
}

/// Returns one advice for each fault, and one for each reason of pods, the worst first. A pod's
/// reason counts as an error if no pod receives traffic, and at least as a warning if only pods
/// that are being deleted do.
pub(crate) fn advice(
    service: &Service,
    faults: &[Fault],
    pods: &[PodExplanation],
    counts: Counts,
    read: &Read<'_>,
) -> Vec<Advice> {
    let mut all: Vec<Advice> = faults
        .iter()
        .map(|fault| Advice::of_fault(fault, read, counts.serves_nobody(), counts.selected + counts.deleted))
        .collect();
    let mut groups: BTreeMap<(Code, String), Vec<(&PodExplanation, &PodReason)>> = BTreeMap::new();
    let published = PodReason::PublishedNotReady(PublishedNotReady { since: None });
    for (pod, reason) in pods.iter().filter_map(|pod| Some((pod, pod.reason.as_ref()?))) {
        if faults.iter().any(|fault| fault.explains_pod(&pod.name, reason)) {
            continue;
        }
        let also = pod.is_published_broken().then_some(&published);
        for reason in [reason].into_iter().chain(also) {
            groups.entry((reason.code(), reason.group())).or_default().push((pod, reason));
        }
    }
    let lasting = pods.iter().filter(|pod| !pod.is_ending()).count();
    let is_left_to_ending = is_left_to_ending(pods);
    // Clients are refused once the program ends, and its kubelet reports that later.
    let is_last = |pod: &PodExplanation| {
        counts.receiving == Some(0) && pod.is_deleted && (pod.is_last_resort() || pod.is_sent_traffic())
    };
    for ((code, _), pods) in groups {
        let Some((pod, first)) = pods.first() else { continue };
        let reason = first.finding();
        if reason.is_consequence() && !faults.is_empty() {
            continue;
        }
        let reasons: Vec<&PodReason> = pods.iter().map(|(_, reason)| *reason).collect();
        let is_alone = reason.is_ending() && is_left_to_ending;
        let breaks =
            counts.serves_nobody() && (is_alone || !reason.is_ending()) && !reason.receives_traffic();
        let has_last = pods.iter().any(|(pod, _)| is_last(pod));
        let severity = match (breaks, has_last || is_alone && counts.ending > 0) {
            (true, _) if reason.passes() => Severity::Warning,
            (true, _) => Severity::Error,
            (false, true) => first.severity().max(Severity::Warning),
            (false, false) => first.severity(),
        };
        let is_alone = is_alone && severity > Severity::Info;
        let remedy = PodReason::remedy(&reasons, &PodsOf { service: &service.key, pod: &pod.name, is_alone });
        let remedy = match static_nodes(&pods) {
            Some(nodes) => remedy.of_static_pod(&nodes),
            None if pod.is_assumed => remedy.of_template(&pod.name),
            None => remedy,
        };
        let remedy = match reason.peers_wait() && counts.serves_nobody() {
            true => with_peers(remedy),
            false => remedy,
        };
        let remedy = remedy.then(reason.patch(service).filter(|_| pods.len() == lasting));
        let mut message = PodReason::message(&reasons);
        if breaks && counts.is_down() && reason.passes() {
            message += "; clients fail now";
        }
        all.push(Advice {
            code,
            severity,
            message,
            remedy,
            evidence: pod.evidence.clone(),
            pods: pods.len(),
            examples: pods.iter().take(EXAMPLES).map(|(pod, _)| pod.name.clone()).collect(),
            passes: breaks && reason.passes(),
            traffic_lost: if breaks { TrafficLost::All } else { reason.traffic_lost() },
            selected: counts.selected + counts.deleted,
        });
    }
    all.sort_by_key(|advice| (advice.rank(), advice.code));
    all
}

/// Returns the nodes of pods if all of these are static.
fn static_nodes(pods: &[(&PodExplanation, &PodReason)]) -> Option<String> {
    let nodes: Option<BTreeSet<&str>> = pods.iter().map(|(pod, _)| pod.static_on.as_deref()).collect();
    Some(nodes?.into_iter().collect::<Vec<_>>().join(", "))
}

/// Returns true if all of these pods have ended or are being deleted.
pub(crate) fn is_left_to_ending(pods: &[PodExplanation]) -> bool {
    pods.iter().all(PodExplanation::is_ending)
}

/// Adds to the remedy for pods that are not ready what to do if they wait for one another.
fn with_peers(remedy: Remedy) -> Remedy {
    let sentence = format!(
        "{}; if the pods wait for one another, set publishNotReadyAddresses of the Service, because DNS has the name of a pod only while it is ready",
        remedy.sentence
    );
    remedy.saying(sentence)
}

/// Returns the verdict. `advice` is sorted; `open` is what is not known, if it is a question about
/// the Service.
pub(crate) fn verdict(
    counts: Counts,
    what: &str,
    served_by: &ServedBy,
    advice: &[Advice],
    open: Option<&NotKnown>,
) -> ServiceVerdict {
    let worst = advice.first().filter(|advice| advice.severity > Severity::Info);
    // The alias of no name is broken; a Service without pods whose program starts them is not.
    let is_alias =
        *served_by == ServedBy::Nobody && worst.is_none_or(|worst| worst.severity < Severity::Error);
    let is_empty_by_design = worst.is_none() && advice.iter().any(|it| it.code == Code::NoPodMatches);
    let status = match worst {
        _ if is_alias || is_empty_by_design => Status::NoEndpoints,
        _ if open.is_some_and(|it| it.open.hides_status()) => Status::Unknown,
        Some(worst) if counts.is_down() && worst.passes => Status::Starting,
        _ if counts.is_down() => Status::Down,
        Some(_) => Status::Degraded,
        None => Status::Ok,
    };
    let cause = match status {
        Status::Unknown => advice.iter().find(|advice| advice.code == Code::NotKnown),
        // Something must be wrong with a Service that is down; perhaps a write is under way.
        Status::Down => worst.or(advice.first()),
        _ if is_alias || is_empty_by_design => advice.first(),
        _ => worst,
    };
    let due = match open {
        Some(NotKnown { from_files: true, .. }) => "would be published",
        _ => "should receive traffic",
    };
    let message = match (numbers(counts, what, due, served_by), cause) {
        (Some(numbers), Some(cause)) if !is_alias && cause.pods > 1 => {
            format!("{numbers}; {} pods: {}", cause.pods, cause.message)
        }
        (Some(numbers), Some(cause)) if !is_alias => format!("{numbers}; {}", cause.message),
        (_, Some(cause)) => cause.message.clone(),
        (numbers, None) => numbers.unwrap_or_else(|| format!("no {what} are selected")),
    };
    let severity = match (status, cause) {
        (_, Some(cause)) => cause.severity,
        (Status::Down, None) => Severity::Error,
        (_, None) => Severity::Info,
    };
    ServiceVerdict { status, code: cause.map_or(Code::Published, |cause| cause.code), severity, message }
}

/// Returns a text with the number of pods that receive traffic, or that should if the former is not
/// known: `due` says what these should. Returns `None` if there is nothing to count, or pods are
/// not known.
fn numbers(counts: Counts, what: &str, due: &str, served_by: &ServedBy) -> Option<String> {
    // Others run in the place of pods that have ended.
    let ended = Some(counts.ended).filter(|ended| *ended < counts.selected).unwrap_or_default();
    let (all, deleted) = (counts.selected - ended, counts.deleted);
    if counts.receiving.is_none() && counts.ready == 0 && (all == 0 || !counts.none_is_due) {
        return None;
    }
    let others = match counts.others {
        0 => String::new(),
        1 => "1 other endpoint".to_owned(),
        others => format!("{others} other endpoints"),
    };
    let (and, besides) = match &*others {
        "" => (String::new(), String::new()),
        others => (format!(" and {others}"), format!(", besides {others}")),
    };
    let numbers = match (counts.receiving, counts.ending) {
        (None, _) => format!("{} of {all} {what} {due}", counts.ready),
        (Some(ready), _) if matches!(served_by, ServedBy::OtherProxy { .. }) => {
            format!(
                "{ready} of {all} {what}{and} are ready for another proxy than kube-proxy, and whether it runs is not known"
            )
        }
        (Some(_), 0) if all + deleted == 0 => format!("0 {what}{and} receive traffic"),
        (Some(0), 1) if all == 0 => {
            format!("1 of {deleted} {what} receives traffic until it is deleted{besides}")
        }
        (Some(0), ending) if all == 0 && ending > 0 => {
            format!("{ending} of {deleted} {what} receive traffic until they are deleted{besides}")
        }
        (Some(_), 0) if all == 0 => format!("0 of {deleted} {what}{and} receive traffic"),
        (Some(receiving), 0) => format!("{receiving} of {all} {what}{and} receive traffic"),
        (Some(receiving), ending) => {
            let until = if ending == 1 { "until it is deleted" } else { "until they are deleted" };
            format!("{receiving} of {all} {what} receive traffic, and {ending} more {until}{besides}")
        }
    };
    let numbers = match deleted - counts.ending {
        0 => numbers,
        _ if all == 0 => numbers,
        1 => format!("{numbers}; 1 more is being deleted"),
        more => format!("{numbers}; {more} more are being deleted"),
    };
    let numbers = match ended {
        0 => numbers,
        1 => format!("{numbers}; 1 more has ended"),
        more => format!("{numbers}; {more} more have ended"),
    };
    (all + deleted > 0 || counts.others > 0).then_some(numbers)
}

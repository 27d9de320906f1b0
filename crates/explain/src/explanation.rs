//! The explanation of one Service, as data.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{AddressType, ObjectKey, Text, Timestamp};
use serde::{Serialize, Serializer};

use crate::details::{LastWrite, RecentEvent, write_optional_time};
use crate::fault::Fault;
use crate::finding::{self, Problem, in_namespace};
use crate::near::NearMatch;
use crate::pod::{PodExplanation, Publication};
use crate::pod_reason::{PodReason, Together};
use crate::{Code, Severity};

/// Why a Service has the endpoints that it has.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Explanation {
    /// The Service.
    pub service: ObjectKey,
    /// The verdict in one line.
    pub verdict: ServiceVerdict,
    /// Numbers of pods.
    pub pods_by_publication: Counts,
    /// What is wrong with the Service, its slices and its Endpoints; the worst is first.
    #[serde(serialize_with = "serialize_faults")]
    pub faults: Vec<Fault>,
    /// The pods that it selects, by name.
    pub pods: Vec<PodExplanation>,
    /// Pods that differ from the selector in one label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearly_matching: Vec<NearMatch>,
    /// The slices that are labelled with its name.
    pub slices: Vec<SliceSummary>,
    /// Its Endpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointsSummary>,
    /// The last write and the newest change.
    pub freshness: Freshness,
    /// Events about the Service, the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<RecentEvent>,
    /// What to do, the most important first.
    pub to_do: Vec<Advice>,
}

/// Whether a Service works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// All that should be published is.
    Ok,
    /// It has no endpoints, by design.
    NoEndpoints,
    /// It receives traffic, and something is wrong.
    Degraded,
    /// No endpoint receives traffic.
    Down,
}

/// The verdict on a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServiceVerdict {
    /// Whether it works.
    pub status: Status,
    /// The code of what matters most; [`Code::Published`] if nothing is wrong.
    pub code: Code,
    /// How bad that is.
    pub severity: Severity,
    /// Endpoints that receive traffic and what matters most, as one sentence.
    pub message: String,
}

/// Numbers of pods, or of addresses if the Service selects no pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Counts {
    /// All that are selected.
    pub selected: usize,
    /// Those that should receive traffic.
    pub ready: usize,
    /// Those that are listed as not ready.
    pub not_ready: usize,
    /// Those that are not listed.
    pub left_out: usize,
    /// Of the ones that should receive traffic, those that do: a slice holds them as ready.
    pub receiving: usize,
}

/// One slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SliceSummary {
    /// Its name.
    pub name: Text,
    /// Its manager, if it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<Text>,
    /// Type of its addresses.
    pub address_type: AddressType,
    /// Its ports, as text.
    pub ports: Vec<String>,
    /// Number of endpoints.
    pub endpoints: usize,
    /// Number of ready endpoints.
    pub ready: usize,
    /// Maximum number of endpoints, if this controller fills it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<usize>,
    /// When it was written last, and by whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_write: Option<LastWrite>,
}

/// The Endpoints object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EndpointsSummary {
    /// Number of ready addresses.
    pub ready: usize,
    /// Number of addresses that are not ready.
    pub not_ready: usize,
    /// Whether it is annotated as truncated.
    pub truncated: bool,
    /// When it was written last, and by whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_write: Option<LastWrite>,
}

/// How old the outputs are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Freshness {
    /// Time of the last write of a slice or the Endpoints, as the objects say.
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

/// What to do about one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Advice {
    /// The code.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do, as a sentence.
    pub remedy: String,
    /// Number of pods that it concerns; zero if it concerns the Service itself.
    pub pods: usize,
    /// Names of some of these pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Text>,
}

fn serialize_faults<S: Serializer>(faults: &[Fault], serializer: S) -> Result<S::Ok, S::Error> {
    finding::serialize_all(faults, serializer)
}

/// Pods that an advice names at most.
const EXAMPLES: usize = 3;

impl Explanation {
    /// Returns the codes of all that was found, sorted, each once.
    pub fn codes(&self) -> Vec<Code> {
        let of_pods = self.pods.iter().filter_map(|pod| pod.reason.as_ref()).map(Problem::code);
        let mut codes: Vec<Code> = self.faults.iter().map(Problem::code).chain(of_pods).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}

/// Counts pods.
pub(crate) fn count(pods: &[PodExplanation]) -> Counts {
    let of = |publication| pods.iter().filter(|pod| pod.publication == publication).count();
    let receives = |pod: &&PodExplanation| pod.publication == Publication::Ready && pod.is_held_as_ready();
    Counts {
        selected: pods.len(),
        ready: of(Publication::Ready),
        not_ready: of(Publication::NotReady),
        left_out: of(Publication::LeftOut),
        receiving: pods.iter().filter(receives).count(),
    }
}

/// Returns what to do: one advice for each fault, and one for each reason of pods, the worst first. A pod's reason counts as
/// an error if no pod receives traffic.
pub(crate) fn advice(
    namespace: &str,
    faults: &[Fault],
    pods: &[PodExplanation],
    is_down: bool,
) -> Vec<Advice> {
    let mut all: Vec<Advice> = faults
        .iter()
        .map(|fault| Advice {
            code: fault.code(),
            severity: fault.severity(),
            message: fault.to_string(),
            remedy: in_namespace(&fault.remedy(), namespace),
            pods: 0,
            examples: Vec::new(),
        })
        .collect();
    let mut groups: BTreeMap<(Code, String), Vec<(&Text, &PodReason)>> = BTreeMap::new();
    for (pod, reason) in pods.iter().filter_map(|pod| Some((pod, pod.reason.as_ref()?))) {
        groups.entry((reason.code(), reason.group())).or_default().push((&pod.name, reason));
    }
    for ((code, _), pods) in groups {
        let Some((name, reason)) = pods.first() else { continue };
        if reason.is_consequence() && !faults.is_empty() {
            continue;
        }
        let together = Together(pods.iter().map(|(_, reason)| *reason).collect());
        let breaks = is_down && !reason.is_ending() && !reason.receives_traffic();
        all.push(Advice {
            code,
            severity: if breaks { Severity::Error } else { reason.severity() },
            message: together.to_string(),
            remedy: in_namespace(&together.remedy(name), namespace),
            pods: pods.len(),
            examples: pods.iter().take(EXAMPLES).map(|(name, _)| (*name).clone()).collect(),
        });
    }
    // Of the same severity: the most pods first; what concerns the Service itself concerns all of them.
    let concerned = |advice: &Advice| if advice.pods == 0 { usize::MAX } else { advice.pods };
    all.sort_by_key(|advice| {
        (std::cmp::Reverse(advice.severity), std::cmp::Reverse(concerned(advice)), advice.code)
    });
    all
}

/// Returns the verdict. `advice` is sorted.
pub(crate) fn verdict(counts: Counts, what: &str, advice: &[Advice], is_alias: bool) -> ServiceVerdict {
    let worst = advice.first().filter(|advice| advice.severity > Severity::Info);
    let cause = if is_alias { advice.first() } else { worst };
    let status = match (is_alias, counts.receiving, worst) {
        (true, ..) => Status::NoEndpoints,
        (false, 0, _) => Status::Down,
        (false, _, Some(_)) => Status::Degraded,
        (false, _, None) => Status::Ok,
    };
    // Something must be wrong with a Service that is down; perhaps all of its pods are ending.
    let cause = if status == Status::Down { cause.or(advice.first()) } else { cause };
    let numbers = format!("{} of {} {what} receive traffic", counts.receiving, counts.selected);
    let message = match cause {
        Some(cause) if is_alias || counts.selected == 0 => cause.message.clone(),
        Some(cause) if cause.pods > 1 => format!("{numbers}; {} pods: {}", cause.pods, cause.message),
        Some(cause) => format!("{numbers}; {}", cause.message),
        None => numbers,
    };
    ServiceVerdict {
        status,
        code: cause.map_or(Code::Published, |cause| cause.code),
        severity: match status {
            Status::Down => Severity::Error,
            _ => cause.map_or(Severity::Info, |cause| cause.severity),
        },
        message,
    }
}

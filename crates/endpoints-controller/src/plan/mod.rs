//! What one sync of a Service should write: a function of what is known, without clock, randomness, log or client.
//!
//! The plan holds the whole Endpoints object to create or to replace, and a verdict on every pod. The same inputs give
//! the same plan, whatever the order of the pods.

mod address;
mod capacity;
mod change;
mod render;
mod upstream_order;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::endpoints::{EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::publish::{UnreadableAnnotation, publish_not_ready};
use kube_endpoint_core_model::repack::repack;
use kube_endpoint_core_model::{Endpoints, LeftOut, Pod, PodVerdict, Service, Text, Timestamp, Verdict};

pub use render::render;

/// How many addresses an Endpoints object holds at most (upstream `maxCapacity`).
pub const MAX_CAPACITY: usize = 1000;

/// All that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct PlanInputs<'a> {
    /// The Service.
    pub service: &'a Service,
    /// The pods that it selects, in any order.
    pub pods: &'a [Arc<Pod>],
    /// Its Endpoints, if there are any.
    pub existing: Option<&'a Endpoints>,
    /// When the change happened that led to this sync, if that is known.
    pub trigger_time: Option<Timestamp>,
    /// Settings.
    pub options: &'a PlanOptions,
}

/// Settings of a plan. The default is this project's behaviour; [`PlanOptions::upstream`] is Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// How many addresses an Endpoints object holds at most. Upstream knows [`MAX_CAPACITY`] only.
    pub capacity: usize,
    /// Leave a truncated object alone that already is what would be written. Upstream compares it with the full list,
    /// and so writes it again at every sync.
    pub keep_equal_truncated: bool,
    /// Leave an object alone whose Service carries a label that the controller itself sets on Endpoints, where the rest
    /// agrees. Upstream counts such a label as missing, and so writes the object again at every sync.
    pub ignore_reserved_labels: bool,
    /// Let the annotation `service.alpha.kubernetes.io/tolerate-unready-endpoints`, where readable, override
    /// `spec.publishNotReadyAddresses`. Off by default, as it was dropped upstream.
    pub tolerate_unready_annotation: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            capacity: MAX_CAPACITY,
            keep_equal_truncated: true,
            ignore_reserved_labels: true,
            tolerate_unready_annotation: false,
        }
    }
}

impl PlanOptions {
    /// Writes whenever Kubernetes' own controller writes.
    pub fn upstream() -> Self {
        Self { keep_equal_truncated: false, ignore_reserved_labels: false, ..Self::default() }
    }
}

/// What to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    #[default]
    None,
    /// Create this object.
    Create(Endpoints),
    /// Replace the existing object by this one, which carries its uid and version.
    Update(Endpoints),
}

/// What one sync decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to write.
    pub action: Action,
    /// What became of each pod, sorted by name. Empty when the Service gets no Endpoints from this controller.
    pub verdicts: Vec<PodVerdict>,
    /// How many pods are published as ready.
    pub ready: usize,
    /// How many pods are published as not ready.
    pub not_ready: usize,
    /// Whether addresses were left out because there are too many.
    pub truncated: bool,
    /// An annotation of the Service that could not be read.
    pub warning: Option<UnreadableAnnotation>,
}

/// Plans one sync (upstream `syncService`, for a Service that exists). Services without a selector, and aliases
/// (`ExternalName`), get nothing written and nothing deleted.
pub fn plan(inputs: &PlanInputs<'_>) -> Plan {
    let PlanInputs { service, existing, options, .. } = *inputs;
    if !service.selects_pods() {
        return Plan::default();
    }
    let (publish_not_ready, warning) = publish_not_ready(service, options.tolerate_unready_annotation);
    let Gathered { subsets: mut full, mut pods } = gather(service, inputs.pods, publish_not_ready);
    if full.len() > 1 && capacity::count(&full) > options.capacity {
        upstream_order::sort(&mut full);
    }
    let truncated = capacity::truncate(&full, options.capacity);
    if let Some(truncated) = &truncated {
        let kept: BTreeSet<(&str, &str)> = capacity::addresses(truncated).map(|a| a.identity()).collect();
        for pod in &mut pods {
            if pod.address.as_ref().is_some_and(|(ip, uid)| !kept.contains(&(&**ip, &**uid))) {
                pod.verdict.verdict = Verdict::LeftOut(LeftOut::OverCapacity);
            }
        }
    }
    let desired = change::Desired { service, full: &full, truncated: truncated.as_deref() };
    let action = match existing.filter(|existing| !existing.metadata.resource_version.is_none()) {
        Some(existing) if desired.is_met_by(existing, options) => Action::None,
        Some(existing) => Action::Update(desired.object(Some(existing), inputs.trigger_time)),
        None => Action::Create(desired.object(existing, inputs.trigger_time)),
    };
    let verdicts: Vec<PodVerdict> = pods.into_iter().map(|pod| pod.verdict).collect();
    let published = |wanted: bool| {
        let same = |v: &&PodVerdict| matches!(v.verdict, Verdict::Published { ready, .. } if ready == wanted);
        verdicts.iter().filter(same).count()
    };
    Plan {
        ready: published(true),
        not_ready: published(false),
        action,
        verdicts,
        truncated: truncated.is_some(),
        warning,
    }
}

/// What the pods come to.
struct Gathered {
    /// All addresses, in canonical form.
    subsets: Vec<EndpointSubset>,
    /// The pods, sorted by name.
    pods: Vec<JudgedPod>,
}

/// A verdict, and the identity of the address where there is one.
struct JudgedPod {
    verdict: PodVerdict,
    address: Option<(Text, Text)>,
}

fn gather(service: &Service, pods: &[Arc<Pod>], publish_not_ready: bool) -> Gathered {
    let mut sorted: Vec<&Pod> = pods.iter().map(Arc::as_ref).collect();
    sorted.sort_by(|a, b| (&a.key, &a.uid).cmp(&(&b.key, &b.uid)));
    let mut by_ports: BTreeMap<Vec<EndpointsPort>, EndpointSubset> = BTreeMap::new();
    let mut judged = Vec::with_capacity(sorted.len());
    for pod in sorted {
        let (verdict, address) = match address::publish(pod, service, publish_not_ready) {
            Err(reason) => (Verdict::LeftOut(reason), None),
            Ok(found) => {
                let ready = publish_not_ready || pod.is_ready();
                let identity = (found.address.ip.clone(), pod.uid.clone());
                let subset = by_ports.entry(found.ports).or_default();
                if ready {
                    subset.addresses.push(found.address);
                } else {
                    subset.not_ready_addresses.push(found.address);
                }
                let verdict = Verdict::Published {
                    ready,
                    serving: pod.is_ready(),
                    terminating: pod.is_terminating(),
                    missing_ports: found.missing_ports,
                };
                (verdict, Some(identity))
            }
        };
        judged.push(JudgedPod { verdict: PodVerdict { pod: pod.key.clone(), verdict }, address });
    }
    let subsets: Vec<EndpointSubset> =
        by_ports.into_iter().map(|(ports, subset)| EndpointSubset { ports, ..subset }).collect();
    Gathered { subsets: repack(&subsets), pods: judged }
}

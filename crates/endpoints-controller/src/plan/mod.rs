//! The plan of one sync of a Service: a function of its inputs, without clock, randomness, log or
//! client.
//!
//! The plan holds the whole Endpoints object to create or to replace, and a verdict on every pod.
//! The same inputs give the same plan, and the order of the pods makes no difference.

mod address;
mod capacity;
mod change;
mod inputs;
mod outcome;
mod upstream_order;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::endpoints::{EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::repack::repack;
use kube_endpoint_core_model::{LeftOut, Pod, PodVerdict, Service, Text, Verdict, Writes};

pub use inputs::{MAX_CAPACITY, PlanInputs, PlanOptions};
pub use outcome::Plan;

/// Plans one sync of a Service that exists (upstream `syncService`). The plan for a Service without
/// a selector, or of type `ExternalName`, writes and deletes nothing.
pub fn plan(inputs: &PlanInputs<'_>) -> Plan {
    let PlanInputs { service, existing, options, .. } = *inputs;
    if !service.selects_pods() {
        return Plan::default();
    }
    let Gathered { subsets: mut full, mut pods } = gather(service, inputs.pods);
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
    let stored = existing.filter(|existing| !existing.metadata.resource_version.is_none());
    let is_met = stored.is_some_and(|stored| desired.is_met_by(stored, options));
    let is_truncated = truncated.is_some();
    let mut writes = Writes::default();
    if !is_met {
        let subsets = truncated.unwrap_or(full);
        let object = change::object(service, subsets, is_truncated, existing, inputs.trigger_time);
        let list = if stored.is_some() { &mut writes.update } else { &mut writes.create };
        list.push(object);
    }
    let verdicts: Vec<PodVerdict> = pods.into_iter().map(|pod| pod.verdict).collect();
    let published = |wanted: bool| {
        let same = |v: &&PodVerdict| matches!(v.verdict, Verdict::Published { ready, .. } if ready == wanted);
        verdicts.iter().filter(same).count()
    };
    let (ready, not_ready) = (published(true), published(false));
    Plan { ready, not_ready, writes, verdicts, truncated: is_truncated }
}

/// The addresses of all pods, and a verdict on each pod.
struct Gathered {
    /// All addresses, in canonical form.
    subsets: Vec<EndpointSubset>,
    /// The pods, sorted by name.
    pods: Vec<GatheredPod>,
}

/// A verdict, and the identity of the pod's address if it has one.
struct GatheredPod {
    verdict: PodVerdict,
    address: Option<(Text, Text)>,
}

fn gather(service: &Service, pods: &[Arc<Pod>]) -> Gathered {
    let publish_not_ready = service.publish_not_ready_addresses;
    let mut sorted: Vec<&Pod> = pods.iter().map(Arc::as_ref).collect();
    sorted.sort_by(|a, b| (&a.key, &a.uid).cmp(&(&b.key, &b.uid)));
    let mut by_ports: BTreeMap<Vec<EndpointsPort>, EndpointSubset> = BTreeMap::new();
    let mut gathered = Vec::with_capacity(sorted.len());
    for pod in sorted {
        let (verdict, address) = match address::publish(pod, service, publish_not_ready) {
            Err(reason) => (PodVerdict { pod: pod.key.clone(), verdict: Verdict::LeftOut(reason) }, None),
            Ok(found) => {
                let ready = publish_not_ready || pod.is_ready();
                let identity = (found.address.ip.clone(), pod.uid.clone());
                let subset = by_ports.entry(found.ports).or_default();
                if ready {
                    subset.addresses.push(found.address);
                } else {
                    subset.not_ready_addresses.push(found.address);
                }
                (address::verdict(pod, ready, found.missing_ports), Some(identity))
            }
        };
        gathered.push(GatheredPod { verdict, address });
    }
    let subsets: Vec<EndpointSubset> =
        by_ports.into_iter().map(|(ports, subset)| EndpointSubset { ports, ..subset }).collect();
    Gathered { subsets: repack(&subsets), pods: gathered }
}

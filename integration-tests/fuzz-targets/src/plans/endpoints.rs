//! Target for the plan of Endpoints: the same histories, in which other clients edit the object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arbitrary::{Arbitrary, Unstructured};
use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::endpoints::EndpointSubset;
use kube_endpoint_core_model::{Endpoints, Pod, ResourceVersion, Service, Text, Verdict};
use kube_endpoint_endpoints_controller::{Plan, PlanInputs, PlanOptions, PlanState, plan, plan_and_keep};

use super::history::{History, Step};

/// The pods of a step, by name.
type Pods = BTreeMap<Text, Arc<Pod>>;

/// Plays a history of up to four steps. After each step, it checks the laws of plans, and that the
/// plan from the changed pods equals the plan from all of them.
pub fn plan_endpoints(bytes: &[u8]) {
    let Ok(history) = History::arbitrary(&mut Unstructured::new(bytes)) else { return };
    let options = PlanOptions::default().with_capacity(history.endpoints_capacity());
    let (mut existing, mut before, mut state, mut verdicts) = (None, Pods::new(), None, Vec::new());
    for input in &history.steps {
        let Step { service, pods, .. } = Step::new(input, Vec::new(), &history.options());
        let service = Service { selector: Some([("app", "a")].into_iter().collect()), ..service };
        if let Some(edited) = existing.take() {
            existing = input.edit_endpoints(edited);
        }
        let inputs = PlanInputs::new(&service, &pods).with_options(&options);
        let (first, after_all) = plan_and_keep(&inputs, existing.as_ref());
        let mut reversed = pods.clone();
        reversed.reverse();
        let of_reversed = plan(&inputs.with_pods(&reversed).with_existing(existing.as_deref()));
        assert_eq!(of_reversed, first, "the order of pods matters");
        let now: Pods = pods.iter().map(|pod| (pod.key.name.clone(), Arc::clone(pod))).collect();
        let changed = changed(&before, &now);
        let from_changed = state.take().and_then(|state: PlanState| {
            state.plan(&inputs.with_pods(&[]), existing.as_ref(), &changed, |name| now.get(name).cloned())
        });
        state = match from_changed {
            Some((plan, after)) => {
                let mut of_changes = first.clone();
                of_changes.verdicts.retain(|one| {
                    changed.iter().any(|changed| changed.name == one.pod.name) || !verdicts.contains(one)
                });
                assert_eq!(plan, of_changes, "from all pods:\n{first}");
                Some(after)
            }
            None => after_all,
        };
        existing = carried_out(existing, &first);
        check(&first, existing.as_deref(), &options);
        let second = plan(&inputs.with_existing(existing.as_deref()));
        assert!(second.is_empty(), "first\n{first}\nthen\n{second}");
        assert_eq!(second.verdicts, first.verdicts);
        (before, verdicts) = (now, first.verdicts);
    }
}

fn changed(before: &Pods, now: &Pods) -> Vec<ChangedPod> {
    let names: BTreeSet<&Text> = before.keys().chain(now.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != now.get(*name));
    let of = |name: &Text| {
        let now = now.get(name).cloned();
        let is_replaced = |before: &&Arc<Pod>| {
            now.as_ref().is_none_or(|now| {
                (&now.uid, &now.pod_ips, now.pod_ip) != (&before.uid, &before.pod_ips, before.pod_ip)
            })
        };
        let replaced = before.get(name).filter(is_replaced).cloned().into_iter().collect();
        ChangedPod { name: name.clone(), replaced, now }
    };
    changed.map(of).collect()
}

/// Returns the object after a plan.
fn carried_out(existing: Option<Arc<Endpoints>>, plan: &Plan) -> Option<Arc<Endpoints>> {
    let writes = &plan.writes;
    assert!(writes.delete.is_empty() && writes.create.len() + writes.update.len() <= 1, "{plan}");
    let Some(written) = writes.create.iter().chain(&writes.update).next() else { return existing };
    let version = existing.as_ref().map(|existing| existing.metadata.resource_version);
    assert_eq!(writes.create.is_empty(), existing.is_some(), "{plan}");
    assert_eq!(written.metadata.resource_version, version.unwrap_or_default(), "{plan}");
    let mut object = written.clone();
    object.metadata.resource_version = ResourceVersion(version.unwrap_or_default().0 + 1);
    Some(Arc::new(object))
}

/// Checks that the object has no more addresses than the capacity, and that it has each published
/// pod, ready or not.
fn check(plan: &Plan, object: Option<&Endpoints>, options: &PlanOptions) {
    let subsets = object.and_then(|object| object.subsets.listed()).unwrap_or_default();
    let count = |subset: &EndpointSubset| subset.addresses.len() + subset.not_ready_addresses.len();
    assert!(subsets.iter().map(count).sum::<usize>() <= options.capacity, "{plan}");
    let mut got = BTreeSet::new();
    for subset in subsets {
        assert!(count(subset) > 0, "{plan}");
        let ready = subset.addresses.iter().map(|address| (address, true));
        let addresses = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        got.extend(
            addresses.filter_map(|(address, is_ready)| {
                Some((address.target_ref.as_ref()?.name.clone(), is_ready))
            }),
        );
    }
    let wanted = plan.verdicts.iter().filter_map(|one| match one.verdict {
        Verdict::Published { ready, .. } => Some((one.pod.name.clone(), ready)),
        _ => None,
    });
    assert_eq!(got, wanted.collect::<BTreeSet<_>>(), "{plan}");
}

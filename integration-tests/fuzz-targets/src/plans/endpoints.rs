//! Target for the plan of Endpoints: the same histories, in which other clients edit the object.

use std::collections::BTreeSet;
use std::sync::Arc;

use arbitrary::{Arbitrary, Unstructured};
use kube_endpoint_core_model::endpoints::EndpointSubset;
use kube_endpoint_core_model::{Endpoints, ResourceVersion, Service, Verdict};
use kube_endpoint_endpoints_controller::{Plan, PlanInputs, PlanOptions, plan};

use super::history::{History, Step};

/// Plays a history of up to four steps. After each step, it checks the laws of plans.
pub fn plan_endpoints(bytes: &[u8]) {
    let Ok(history) = History::arbitrary(&mut Unstructured::new(bytes)) else { return };
    let options = PlanOptions::default().with_capacity(history.endpoints_capacity());
    let mut existing: Option<Arc<Endpoints>> = None;
    for input in &history.steps {
        let Step { service, pods, .. } = Step::new(input, Vec::new(), &history.options());
        let service = Service { selector: Some([("app", "a")].into_iter().collect()), ..service };
        if let Some(edited) = existing.take() {
            existing = input.edit_endpoints(edited);
        }
        let inputs = PlanInputs::new(&service, &pods).with_options(&options);
        let first = plan(&inputs.with_existing(existing.as_deref()));
        let mut reversed = pods.clone();
        reversed.reverse();
        let of_reversed = plan(&inputs.with_pods(&reversed).with_existing(existing.as_deref()));
        assert_eq!(of_reversed, first, "the order of pods matters");
        existing = carried_out(existing, &first);
        check(&first, existing.as_deref(), &options);
        let second = plan(&inputs.with_existing(existing.as_deref()));
        assert!(second.is_empty(), "first\n{first}\nthen\n{second}");
        assert_eq!(second.verdicts, first.verdicts);
    }
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

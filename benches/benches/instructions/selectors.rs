//! A pod event in a namespace of 1,000 Services that select by EndpointSelectors.

use kube_endpoint_benches::planned_service::{PlannedService, Selecting, Size};

use crate::callgrind::Counter;

const SIZE: Size = Size { services: 1_000, pods: 100, other_pods: 0 };

/// Counts an event about a pod whose labels the index knows, and one about new labels. Only the
/// latter evaluates selectors: those that the index finds by a label, and those that compare no
/// label with values.
pub(crate) fn selectors(counter: &Counter) {
    for (name, selecting) in [
        ("own selectors", Selecting::Own),
        ("EndpointSelectors of an equality", Selecting::Equality),
        ("EndpointSelectors of an In", Selecting::In),
        ("EndpointSelectors without either", Selecting::Exists),
    ] {
        let mut service = PlannedService::selecting(SIZE, selecting);
        let count = |event: &str| format!("event, 1,000 {name}: {event}");
        let flipped = service.flipped(0);
        counter.count(&count("a pod becomes unready"), || service.apply(flipped));
        let added = service.added(None);
        counter.count(&count("a pod of known labels"), || service.apply(added));
        let added = service.added(Some(("track", "stable")));
        counter.count(&count("a pod of new labels"), || service.apply(added));
        std::mem::forget(service);
    }
}

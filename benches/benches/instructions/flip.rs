//! One pod becomes unready: from the event of the watch to the body of the write of the slice.

use kube_endpoint_benches::planned_service::{PlannedService, Size};
use kube_endpoint_core_model::protobuf::ObjectToWrite;

use crate::callgrind::Counter;

/// Returns the size of a namespace whose only Service has this number of pods.
const fn alone(pods: usize) -> Size {
    Size { services: 1, pods, other_pods: 0 }
}

/// Services of up to 5,000 pods, and small ones in large namespaces.
pub(crate) fn flip(counter: &Counter) {
    count("flip, 1,000 pods", alone(1_000), counter);
    count("flip, 2,000 pods", alone(2_000), counter);
    count("flip, 5,000 pods", alone(5_000), counter);
    let namespace = |services, other_pods| Size { services, pods: 100, other_pods };
    count("flip, 100 pods, 100 Services", namespace(100, 0), counter);
    count("flip, 100 pods, 10,000 Services", namespace(10_000, 0), counter);
    count("flip, 100 pods of 50,000, 100 Services", namespace(100, 49_900), counter);
}

/// A Service of 100,000 pods.
pub(crate) fn large(counter: &Counter) {
    count("flip, 100,000 pods", alone(100_000), counter);
}

/// Counts the steps of one event after some others.
fn count(name: &str, size: Size, counter: &Counter) {
    let mut service = PlannedService::new(size);
    let flipped = service.flipped(0);
    let count = |step: &str| format!("{name}: {step}");
    counter.count(&count("apply the event, find the Service"), || service.apply(flipped));
    let changed = counter.count(&count("read the change"), || {
        let changed = service.read_changed();
        service.trigger_time(&changed);
        changed
    });
    let slices = counter.count(&count("plan the slices"), || service.plan_slices(&changed));
    let [slice] = &slices[..] else { panic!("one slice is written, not {}", slices.len()) };
    counter.count(&count("encode the slice"), || slice.to_protobuf());
    // The process ends soon, and dropping each object would take a tenth of its time.
    std::mem::forget((service, changed, slices));
}

//! Plans from all pods, after one of them became unready and after half of a rollout.

use kube_endpoint_benches::planned_service::{PlannedService, Size};
use kube_endpoint_core_model::protobuf::ObjectToWrite as _;

use crate::callgrind::Counter;

/// Services of three sizes.
pub(crate) fn plan(counter: &Counter) {
    for (pods, name) in [(100, "100 pods"), (1_000, "1,000 pods"), (5_000, "5,000 pods")] {
        let mut service = PlannedService::new(Size { services: 1, pods, other_pods: 0 });
        let flipped = service.flipped(0);
        service.apply(flipped);
        let all = counter.count(&format!("from all pods, {name}: read the pods"), || {
            let all = service.read_all();
            service.trigger_time(&all);
            all
        });
        let slices =
            counter.count(&format!("from all pods, {name}: plan the slices"), || service.plan_slices(&all));
        assert_eq!(slices.len(), 1);
        let endpoints =
            counter.count(&format!("from all pods, {name}: plan the Endpoints"), || service.plan_endpoints());
        let endpoints = endpoints.expect("the Endpoints are written");
        counter.count(&format!("from all pods, {name}: encode the Endpoints"), || endpoints.to_protobuf());
        service.store_slices(slices);
        service.replace_half();
        let all = service.read_all();
        let slices = counter.count(&format!("repack, {name}: plan the slices"), || service.plan_slices(&all));
        assert!(!slices.is_empty());
    }
}

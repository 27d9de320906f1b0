//! Pods and slices of the tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::pod::{PodPhase, ReadyCondition};
use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, LABEL_MANAGED_BY, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{
    Endpoint, EndpointSlice, ObjectKey, ObjectReference, OwnerReference, Pod, Service, Timestamp,
};

/// Pods of the tests. `a` and `b` are ready, `u` is not, `t` is being deleted, `f` has ended.
pub(crate) fn pods() -> BTreeMap<&'static str, Arc<Pod>> {
    ["a", "b", "u", "t", "f"].into_iter().map(|name| (name, Arc::new(pod(name)))).collect()
}

pub(crate) fn pod(name: &str) -> Pod {
    let ready = ReadyCondition { is_true: name != "u", last_transition: None };
    let address = address(name).parse().unwrap();
    Pod {
        key: ObjectKey::new("shop", name),
        uid: format!("uid-{name}").into(),
        ready: Some(ready),
        deletion_timestamp: (name == "t").then(Timestamp::default),
        phase: if name == "f" { PodPhase::Failed } else { PodPhase::Running },
        pod_ip: Some(address),
        pod_ips: [address].into(),
        has_pod_ip: true,
        ..Pod::default()
    }
}

pub(crate) fn address(name: &str) -> String {
    format!("10.0.0.{}", name.as_bytes()[0])
}

pub(crate) fn service() -> Service {
    Service { key: ObjectKey::new("shop", "web"), uid: "uid-web".into(), ..Service::default() }
}

/// Returns a slice of a manager. An endpoint that is not ready has a minus before the name of its
/// pod.
pub(crate) fn slice(manager: &str, name: &str, endpoints: &[&str]) -> Arc<EndpointSlice> {
    let mut slice = EndpointSlice::default();
    slice.metadata.name = name.into();
    slice.metadata.namespace = "shop".into();
    slice.metadata.labels = [(LABEL_MANAGED_BY, manager)].into_iter().collect();
    slice.metadata.owner_references = vec![OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: "web".into(),
        uid: "uid-web".into(),
        ..OwnerReference::default()
    }];
    for endpoint in endpoints {
        let name = endpoint.trim_start_matches('-');
        let target = ObjectReference {
            kind: "Pod".into(),
            name: name.into(),
            uid: format!("uid-{name}").into(),
            ..ObjectReference::default()
        };
        let mut one = Endpoint { addresses: vec![address(name).into()], ..Endpoint::default() };
        let ready = !endpoint.starts_with('-');
        one.conditions =
            EndpointConditions { ready: Some(ready), serving: Some(ready), terminating: Some(false) };
        one.target_ref = Some(target);
        slice.endpoints.push(one);
    }
    Arc::new(slice)
}

pub(crate) fn own(endpoints: &[&str]) -> Arc<EndpointSlice> {
    slice(SELECTOR_CONTROLLER, "web-own", endpoints)
}

pub(crate) fn theirs(name: &str, endpoints: &[&str]) -> Arc<EndpointSlice> {
    slice(ENDPOINTSLICE_CONTROLLER, name, endpoints)
}

pub(crate) fn mirrored(endpoints: &[&str]) -> Arc<EndpointSlice> {
    slice(MIRRORING_CONTROLLER, "web-mirrored", endpoints)
}

//! The patch of a Service that misspells the names of container ports.

use kube_endpoint_core_model::Service;
use kube_endpoint_core_model::service::TargetPort;
use serde_json::json;

use super::NamedPort;
use crate::facts::remedy::{PatchForm, Step};
use crate::models::near::is_typo;

/// Returns the patch that corrects the target ports of a Service, if each missing name is likely a
/// typo of exactly one name that the pod has.
pub(crate) fn patch_ports(service: &Service, wanted: &[NamedPort], has: &[NamedPort]) -> Option<Step> {
    let mut operations = Vec::new();
    for (at, port) in service.ports.iter().enumerate() {
        let TargetPort::Name(name) = &port.target_port else { continue };
        if !wanted.iter().any(|one| (&one.name, &one.protocol) == (name, &port.protocol)) {
            continue;
        }
        let mut similar = has.iter().filter(|one| one.protocol == port.protocol && is_typo(name, &one.name));
        let (Some(meant), None) = (similar.next(), similar.next()) else { return None };
        let path = format!("/spec/ports/{at}/targetPort");
        operations.push(json!({"op": "test", "path": path, "value": **name}));
        operations.push(json!({"op": "replace", "path": path, "value": *meant.name}));
    }
    (!operations.is_empty()).then(|| Step::Patch {
        kind: "service",
        object: service.key.clone(),
        form: PatchForm::Json,
        patch: operations.into(),
    })
}

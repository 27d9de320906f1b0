//! Endpoints, after `pkg/registry/core/endpoint/strategy.go` and `ValidateEndpoints` of
//! `pkg/apis/core/validation`. They have no generation.

use serde_json::Value;

use crate::validation::metadata::{self, NameRule};
use crate::validation::names::{PROTOCOLS, dns1123_label, dns1123_subdomain, port_number, qualified_name};
use crate::validation::{Errors, Path, ip};
use crate::value::Fields;

use super::Strategy;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// The strategy of Endpoints.
pub(crate) struct EndpointsStrategy;

impl Strategy for EndpointsStrategy {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn deprecation_warning(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn set_defaults(&self, object: &mut Value) {
        for subset in object.items_mut("subsets") {
            for port in subset.items_mut("ports") {
                port.set_default("protocol", "TCP");
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
        validate(new, Some(old), errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(object)
    }
}

fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    metadata::validate(&object["metadata"], true, NameRule::Subdomain, errors);
    let mut found = Errors::default();
    for (index, subset) in object.list("subsets").iter().enumerate() {
        validate_subset(subset, &Path::Root("subsets").index(index), &mut found);
    }
    // Subsets that an older version accepted stay valid until a client changes them.
    if !found.is_empty() && old.is_none_or(|old| old.list("subsets") != object.list("subsets")) {
        errors.append(found);
    }
}

fn validate_subset(subset: &Value, at: &Path<'_>, errors: &mut Errors) {
    if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
        errors.required(at, "must specify `addresses` or `notReadyAddresses`");
    }
    for list in ["addresses", "notReadyAddresses"] {
        for (index, address) in subset.list(list).iter().enumerate() {
            validate_address(address, &at.child(list).index(index), errors);
        }
    }
    let ports = subset.list("ports");
    for (index, port) in ports.iter().enumerate() {
        validate_port(port, ports.len() > 1, &at.child("ports").index(index), errors);
    }
}

fn validate_address(address: &Value, at: &Path<'_>, errors: &mut Errors) {
    let text = address.text("ip");
    ip::legacy(errors, &at.child("ip"), text, &[]);
    let hostname = address.text("hostname");
    if !hostname.is_empty() {
        errors.invalid_each(&at.child("hostname"), hostname, dns1123_label(hostname));
    }
    if let Some(node) = address.opt_text("nodeName") {
        errors.invalid_each(&at.child("nodeName"), node, dns1123_subdomain(node));
    }
    ip::endpoint(errors, &at.child("ip"), text);
}

fn validate_port(port: &Value, needs_name: bool, at: &Path<'_>, errors: &mut Errors) {
    let name = port.text("name");
    if !name.is_empty() {
        errors.invalid_each(&at.child("name"), name, dns1123_label(name));
    } else if needs_name {
        errors.required(&at.child("name"), "");
    }
    let number = port.int("port");
    errors.invalid_each(&at.child("port"), &number, port_number(number));
    validate_protocols(port, at, errors);
}

/// Validates the required protocol of a port, and its application protocol.
pub(super) fn validate_protocols(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    let protocol = port.text("protocol");
    if protocol.is_empty() && !port.has("protocol") {
        errors.required(&at.child("protocol"), "");
    } else if !PROTOCOLS.contains(&protocol) {
        errors.not_supported(&at.child("protocol"), protocol, &PROTOCOLS);
    }
    if let Some(protocol) = port.opt_text("appProtocol") {
        errors.invalid_each(&at.child("appProtocol"), protocol, qualified_name(protocol));
    }
}

fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    // The controller writes canonical addresses, so upstream skips its objects.
    if object["metadata"]["labels"].text(MANAGED_BY) == "endpoint-controller" {
        return warnings;
    }
    let root = Path::Root("subsets");
    for (index, subset) in object.list("subsets").iter().enumerate() {
        let at = root.index(index);
        for list in ["addresses", "notReadyAddresses"] {
            let at = at.child(list);
            for (index, address) in subset.list(list).iter().enumerate() {
                ip::warnings(&mut warnings, &at.index(index).child("ip"), address.text("ip"));
            }
        }
    }
    warnings
}

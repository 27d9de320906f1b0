//! EndpointSlices, after `pkg/registry/discovery/endpointslice/strategy.go` and
//! `pkg/apis/discovery/validation`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::validation::metadata::{self, NameRule};
use crate::validation::names::{dns1123_label, dns1123_subdomain, label_value};
use crate::validation::{Errors, Path, ip};
use crate::value::Fields;

use super::Strategy;
use super::endpoints::validate_protocols;

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;
const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGERS: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

/// The strategy of EndpointSlices.
pub(crate) struct EndpointSliceStrategy;

impl Strategy for EndpointSliceStrategy {
    fn set_defaults(&self, object: &mut Value) {
        for port in object.items_mut("ports") {
            port.set_default("name", "");
            port.set_default("protocol", "TCP");
        }
    }

    fn prepare_for_create(&self, object: &mut Value) {
        object.child("metadata").set("generation", 1);
        drop_topology(None, object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate(object, None, errors);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        // A change of labels or of anything outside metadata increments the generation.
        let empty = Value::Object(Map::new());
        let labels = |object: &Value| object["metadata"].get("labels").unwrap_or(&empty).clone();
        let changed = ["addressType", "endpoints", "ports"].iter().any(|f| !same(&old[*f], &new[*f]));
        if changed || labels(old) != labels(new) {
            let generation = old["metadata"].int("generation").wrapping_add(1);
            new.child("metadata").set("generation", generation);
        }
        drop_topology(Some(old), new);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        validate(new, Some(old), errors);
        if old.text("addressType") != new.text("addressType") {
            errors.invalid(&Path::Root("addressType"), new.text("addressType"), "field is immutable");
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && new.text("addressType") == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        // The controllers write canonical addresses, so upstream skips their objects.
        if MANAGERS.contains(&new["metadata"]["labels"].text(MANAGED_BY)) {
            return warnings;
        }
        let root = Path::Root("endpoints");
        for (index, endpoint) in new.list("endpoints").iter().enumerate() {
            let at = root.index(index);
            let at = at.child("addresses");
            for (index, address) in endpoint.texts("addresses").iter().enumerate() {
                ip::warnings(&mut warnings, &at.index(index), address);
            }
        }
        warnings
    }
}

/// Compares two values without distinguishing null from an empty list.
fn same(a: &Value, b: &Value) -> bool {
    let empty = |v: &Value| v.is_null() || v.as_array().is_some_and(Vec::is_empty);
    a == b || empty(a) && empty(b)
}

/// Drops the field `deprecatedTopology`, which v1 clients cannot write, unless it was there before.
fn drop_topology(old: Option<&Value>, new: &mut Value) {
    if old.is_none_or(|old| old["endpoints"] != new["endpoints"]) {
        new.items_mut("endpoints").iter_mut().for_each(|endpoint| endpoint.drop_field("deprecatedTopology"));
    }
}

fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    metadata::validate(&object["metadata"], true, NameRule::Subdomain, errors);
    let address_type = object.text("addressType");
    let at = Path::Root("addressType");
    if address_type.is_empty() {
        errors.required(&at, "");
    } else if !ADDRESS_TYPES.contains(&address_type) {
        errors.not_supported(&at, address_type, &ADDRESS_TYPES);
    }
    validate_ports(object, errors);
    let mut found = Errors::default();
    validate_endpoints(object, address_type, &mut found);
    // Endpoints that an older version accepted stay valid until a client changes them.
    if !found.is_empty() && old.is_none_or(|old| !same(&old["endpoints"], &object["endpoints"])) {
        errors.append(found);
    }
}

fn validate_ports(object: &Value, errors: &mut Errors) {
    let root = Path::Root("ports");
    let ports = object.list("ports");
    if ports.len() > MAX_PORTS {
        errors.too_many(&root, ports.len(), MAX_PORTS);
        return;
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = root.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            errors.invalid_each(&at.child("name"), name, dns1123_label(name));
        }
        if !names.insert(name) {
            errors.duplicate(&at.child("name"), name);
        }
        validate_protocols(port, &at, errors);
    }
}

fn validate_endpoints(object: &Value, address_type: &str, errors: &mut Errors) {
    let root = Path::Root("endpoints");
    let endpoints = object.list("endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.too_many(&root, endpoints.len(), MAX_ENDPOINTS);
        return;
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        let at = root.index(index);
        validate_addresses(endpoint, address_type, &at.child("addresses"), errors);
        if let Some(node) = endpoint.opt_text("nodeName") {
            errors.invalid_each(&at.child("nodeName"), node, dns1123_subdomain(node));
        }
        if let Some(hostname) = endpoint.opt_text("hostname") {
            errors.invalid_each(&at.child("hostname"), hostname, dns1123_label(hostname));
        }
        if let Some(hints) = endpoint.get("hints") {
            validate_hints(hints, &at.child("hints"), errors);
        }
    }
}

fn validate_addresses(endpoint: &Value, address_type: &str, at: &Path<'_>, errors: &mut Errors) {
    let addresses = endpoint.list("addresses");
    if addresses.is_empty() {
        errors.required(at, "must contain at least 1 address");
    } else if addresses.len() > MAX_ADDRESSES {
        errors.too_many(at, addresses.len(), MAX_ADDRESSES);
    }
    for (index, address) in addresses.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        let each = at.index(index);
        let before = errors.len();
        match address_type {
            "IPv4" => {
                ip::legacy(errors, &each, address, &[]);
                if errors.len() == before {
                    if !ip::is_ipv4(address) {
                        errors.invalid(at, address, "must be an IPv4 address");
                    }
                    ip::endpoint(errors, &each, address);
                }
            }
            "IPv6" => {
                ip::strict(errors, &each, address);
                if errors.len() == before {
                    if !ip::is_ipv6(address) {
                        errors.invalid(at, address, "must be an IPv6 address");
                    }
                    ip::endpoint(errors, &each, address);
                }
            }
            "FQDN" => validate_fqdn(address, &each, errors),
            _ => {}
        }
    }
}

fn validate_fqdn(address: &str, at: &Path<'_>, errors: &mut Errors) {
    if address.is_empty() {
        errors.required(at, "");
        return;
    }
    let name = address.strip_suffix('.').unwrap_or(address);
    let wrong = dns1123_subdomain(name);
    if !wrong.is_empty() {
        errors.invalid(at, name, &wrong.join(","));
    } else if !name.contains('.') {
        errors.invalid(at, name, "should be a domain with at least two segments separated by dots");
    } else {
        for label in name.split('.') {
            let wrong = dns1123_label(label);
            if !wrong.is_empty() {
                errors.invalid(at, label, &wrong.join(","));
            }
        }
    }
}

fn validate_hints(hints: &Value, at: &Path<'_>, errors: &mut Errors) {
    for list in ["forZones", "forNodes"] {
        let at = at.child(list);
        let items = hints.list(list);
        if items.len() > MAX_HINTS {
            errors.too_many(&at, items.len(), MAX_HINTS);
            return;
        }
        let mut names = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let at = at.index(index);
            let at = at.child("name");
            let name = item.text("name");
            if names.contains(&name) {
                errors.duplicate(&at, name);
            }
            names.push(name);
            let wrong = if list == "forZones" { label_value(name) } else { dns1123_subdomain(name) };
            errors.invalid_each(&at, name, wrong);
        }
    }
}

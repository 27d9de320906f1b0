//! Validation of Services, after `validateService` of `pkg/apis/core/validation`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::metadata::{self, NameRule, validate_labels};
use super::names::{PROTOCOLS, dns1123_label, dns1123_subdomain, port_name, port_number, qualified_name};
use super::service_ips::{validate_cluster_ips, validate_cluster_ips_change};
use super::{Errors, Path, Raw, ip};
use crate::strategy::service_util::{
    TOPOLOGY_HINTS, TOPOLOGY_MODE, is_externally_accessible, is_headless, needs_health_check,
};
use crate::value::{Fields, spec};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

pub(crate) fn validate(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    match old {
        None => metadata::validate(&service["metadata"], true, NameRule::Label, errors),
        Some(old) => {
            metadata::validate_update(&service["metadata"], &old["metadata"], errors);
            validate_cluster_ips_change(service, old, errors);
            validate_class(service, Some(old), errors);
            let (now, before) = (spec(service), spec(old));
            if needs_health_check(service)
                && needs_health_check(old)
                && now.int("healthCheckNodePort") != before.int("healthCheckNodePort")
            {
                errors.forbidden(&Path::Root("spec.healthCheckNodePort"), "field is immutable");
            }
        }
    }
    validate_annotations(service, errors);
    validate_type(service, errors);
    validate_ports(service, errors);
    let root = Path::Root("spec");
    validate_labels(spec(service), "selector", &root.child("selector"), errors);
    validate_affinity(service, errors);
    validate_cluster_ips(service, old, errors);
    let before = old.map(|old| spec(old).texts("externalIPs")).unwrap_or_default();
    for (index, address) in spec(service).texts("externalIPs").iter().enumerate() {
        let at = root.child("externalIPs");
        let found = errors.len();
        ip::legacy(errors, &at.index(index), address, &before);
        if errors.len() == found {
            ip::endpoint(errors, &at.index(index), address);
        }
    }
    let kind = spec(service).text("type");
    if !TYPES.contains(&kind) {
        errors.not_supported(&root.child("type"), kind, &TYPES);
    }
    validate_port_numbers(service, errors);
    if kind != "LoadBalancer" && spec(service).has("allocateLoadBalancerNodePorts") {
        errors.forbidden(&root.child("allocateLoadBalancerNodePorts"), BALANCER_ONLY);
    }
    validate_class(service, None, errors);
    validate_policies(service, errors);
}

fn validate_annotations(service: &Value, errors: &mut Errors) {
    let annotations = &service["metadata"]["annotations"];
    if let (Some(hints), Some(mode)) =
        (annotations.opt_text(TOPOLOGY_HINTS), annotations.opt_text(TOPOLOGY_MODE))
        && hints != mode
    {
        let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(&Path::Root("metadata.annotations").key(TOPOLOGY_MODE), mode, &why);
    }
}

fn validate_type(service: &Value, errors: &mut Errors) {
    let root = Path::Root("spec");
    let spec = spec(service);
    let kind = spec.text("type");
    if spec.list("ports").is_empty() && !is_headless(service) && kind != "ExternalName" {
        errors.required(&root.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(service) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&root.child("clusterIPs").index(0), "None", &why);
        }
        "ExternalName" => {
            let given = [
                ("clusterIPs", !spec.list("clusterIPs").is_empty()),
                ("ipFamilies", !spec.list("ipFamilies").is_empty()),
                ("ipFamilyPolicy", spec.has("ipFamilyPolicy")),
            ];
            for (field, _) in given.iter().filter(|(_, given)| *given) {
                errors.forbidden(&root.child(field), "may not be set for ExternalName services");
            }
            let name = spec.text("externalName");
            let name = name.strip_suffix('.').unwrap_or(name);
            let at = root.child("externalName");
            if name.is_empty() {
                errors.required(&at, "");
            } else {
                errors.invalid_each(&at, name, dns1123_subdomain(name));
            }
        }
        _ => {}
    }
}

fn validate_ports(service: &Value, errors: &mut Errors) {
    let root = Path::Root("spec.ports");
    let ports = spec(service).list("ports");
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = root.index(index);
        let name = port.text("name");
        if !name.is_empty() {
            errors.invalid_each(&at.child("name"), name, dns1123_label(name));
            if !names.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
        } else if ports.len() > 1 {
            errors.required(&at.child("name"), "");
        }
        let number = port.int("port");
        errors.invalid_each(&at.child("port"), &number, port_number(number));
        let protocol = port.text("protocol");
        if !PROTOCOLS.contains(&protocol) {
            errors.not_supported(&at.child("protocol"), protocol, &PROTOCOLS);
        }
        validate_number_or_name(&port["targetPort"], &at.child("targetPort"), errors);
        if let Some(protocol) = port.opt_text("appProtocol") {
            errors.invalid_each(&at.child("appProtocol"), protocol, qualified_name(protocol));
        }
    }
}

/// Validates a port, which is a number or a name.
pub(crate) fn validate_number_or_name(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    if let Some(name) = port.as_str() {
        errors.invalid_each(at, name, port_name(name));
    } else {
        let number = port.as_i64().unwrap_or(0);
        errors.invalid_each(at, &number, port_number(number));
    }
}

fn validate_affinity(service: &Value, errors: &mut Errors) {
    let root = Path::Root("spec");
    let spec = spec(service);
    let at = root.child("sessionAffinityConfig");
    match spec.text("sessionAffinity") {
        "None" if spec.has("sessionAffinityConfig") => {
            errors.forbidden(&at, "must not be set when session affinity is None");
        }
        "None" => {}
        "ClientIP" => {
            let timeout = spec["sessionAffinityConfig"]["clientIP"].int("timeoutSeconds");
            if timeout <= 0 || timeout > 86_400 {
                let at = at.child("clientIP");
                let why = "must be greater than 0 and less than 86400";
                errors.invalid(&at.child("timeoutSeconds"), &timeout, why);
            }
        }
        other => errors.not_supported(&root.child("sessionAffinity"), other, &["ClientIP", "None"]),
    }
}

/// Validates that node ports fit the type and that neither (protocol, node port) nor (protocol,
/// port) occurs twice.
fn validate_port_numbers(service: &Value, errors: &mut Errors) {
    let root = Path::Root("spec.ports");
    let ports = spec(service).list("ports");
    if spec(service).text("type") == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, p)| p.int("nodePort") != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(&root.index(index).child("nodePort"), why);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let number = port.int("nodePort");
        if number != 0 && !seen.insert((port.text("protocol"), number)) {
            errors.duplicate(&root.index(index).child("nodePort"), &number);
        }
    }
    seen.clear();
    for (index, port) in ports.iter().enumerate() {
        let (protocol, number) = (port.text("protocol"), port.int("port"));
        if !seen.insert((protocol, number)) {
            // Upstream prints its lookup key, which is a port of its internal type.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\
                 \"NodePort\":0}}",
                json!(protocol)
            );
            errors.duplicate(&root.index(index), &Raw(shown));
        }
    }
}

fn validate_class(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = Path::Root("spec.loadBalancerClass");
    let balancer = |s: &Value| spec(s).text("type") == "LoadBalancer";
    let class = spec(service).opt_text("loadBalancerClass");
    if let Some(old) = old
        && balancer(old)
        && balancer(service)
        && spec(old).opt_text("loadBalancerClass") != class
    {
        errors.invalid(&at, &spec(service)["loadBalancerClass"], "may not change once set");
    }
    match class {
        Some(class) if balancer(service) => errors.invalid_each(&at, class, qualified_name(class)),
        Some(_) => errors.forbidden(&at, BALANCER_ONLY),
        None => {}
    }
}

fn validate_policies(service: &Value, errors: &mut Errors) {
    let root = Path::Root("spec");
    let spec = spec(service);
    let policy = spec.text("externalTrafficPolicy");
    let at = root.child("externalTrafficPolicy");
    if !is_externally_accessible(service) {
        if !policy.is_empty() {
            errors.invalid(&at, policy, "may only be set for externally-accessible services");
        }
    } else if !matches!(policy, "Cluster" | "Local") {
        errors.not_supported(&at, policy, &["Cluster", "Local"]);
    }
    let check = spec.int("healthCheckNodePort");
    let at = root.child("healthCheckNodePort");
    if !needs_health_check(service) {
        if check != 0 {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&at, &check, why);
        }
    } else if check != 0 {
        // Zero is valid, since the server allocates the port later.
        errors.invalid_each(&at, &check, port_number(check));
    }
    if let Some(policy) =
        spec.opt_text("internalTrafficPolicy").filter(|p| !matches!(*p, "Cluster" | "Local"))
    {
        errors.not_supported(&root.child("internalTrafficPolicy"), policy, &["Cluster", "Local"]);
    }
    if let Some(wish) = spec.opt_text("trafficDistribution").filter(|d| !DISTRIBUTIONS.contains(d)) {
        errors.not_supported(&root.child("trafficDistribution"), wish, &DISTRIBUTIONS);
    }
}

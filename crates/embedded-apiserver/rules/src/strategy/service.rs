//! Services: defaults, preparation, warnings and the order of their validation, after
//! `pkg/registry/core/service/strategy.go` and `pkg/apis/core/v1/defaults.go`. They have no
//! generation.

use serde_json::{Value, json};

use crate::status::Status;
use crate::validation::{Errors, Path, ip, metadata, service};
use crate::value::{Fields, spec};

use super::service_ips;
use super::service_util::{
    TOPOLOGY_HINTS, TOPOLOGY_MODE, is_externally_accessible, needs_cluster_ip, needs_health_check, node_ports,
};
use super::{Families, Strategy};

const LOAD_BALANCER: &str = "LoadBalancer";

fn has_node_port_type(service: &Value) -> bool {
    matches!(spec(service).text("type"), LOAD_BALANCER | "NodePort")
}

/// The strategy of Services.
pub(crate) struct ServiceStrategy;

impl Strategy for ServiceStrategy {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn set_defaults(&self, object: &mut Value) {
        let spec = object.child("spec");
        spec.set_default("sessionAffinity", "None");
        match spec.text("sessionAffinity") {
            "None" => spec.drop_field("sessionAffinityConfig"),
            "ClientIP" if !spec["sessionAffinityConfig"]["clientIP"].has("timeoutSeconds") => {
                spec.set("sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
            }
            _ => {}
        }
        spec.set_default("type", "ClusterIP");
        for port in spec.items_mut("ports") {
            port.set_default("protocol", "TCP");
            if matches!(port.get("targetPort"), None | Some(Value::Null))
                || port["targetPort"] == 0
                || port["targetPort"] == ""
            {
                let number = port.int("port");
                port.set("targetPort", number);
            }
        }
        let kind = spec.text("type").to_owned();
        let external = matches!(kind.as_str(), LOAD_BALANCER | "NodePort")
            || kind == "ClusterIP" && !spec.list("externalIPs").is_empty();
        if external {
            spec.set_default("externalTrafficPolicy", "Cluster");
        }
        if matches!(kind.as_str(), LOAD_BALANCER | "NodePort" | "ClusterIP") {
            spec.set_default("internalTrafficPolicy", "Cluster");
        } else if kind == "ExternalName" {
            // Older versions set it by default, so this drops it.
            spec.drop_field("internalTrafficPolicy");
        }
        if kind == LOAD_BALANCER {
            spec.set_default("allocateLoadBalancerNodePorts", true);
            for ingress in object["status"]["loadBalancer"].items_mut("ingress") {
                if !ingress.text("ip").is_empty() {
                    ingress.set_default("ipMode", "VIP");
                }
            }
        }
    }

    fn default_on_read(&self, object: &mut Value, families: Families) {
        service_ips::default_on_read(object, families);
    }

    fn begin_create(
        &self,
        object: &mut Value,
        families: Families,
        errors: &mut Errors,
    ) -> Result<(), Status> {
        service_ips::init_on_create(object, families, errors);
        Ok(())
    }

    fn prepare_for_create(&self, object: &mut Value) {
        object.set("status", json!({"loadBalancer": {}}));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        service::validate(object, None, errors);
    }

    fn begin_update(&self, new: &mut Value, old: &Value, families: Families, errors: &mut Errors) {
        service_ips::init_on_update(new, old, families, errors);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("status", old);
        drop_type_dependent_fields(old, new);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        service::validate(new, Some(old), errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(object)
    }
}

/// The strategy of the status of Services.
pub(crate) struct ServiceStatusStrategy;

impl Strategy for ServiceStatusStrategy {
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("spec", old);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        metadata::validate_update(&new["metadata"], &old["metadata"], errors);
        let root = Path::Root("status.loadBalancer.ingress");
        let ingresses = new["status"]["loadBalancer"].list("ingress");
        if spec(new).text("type") != LOAD_BALANCER && !ingresses.is_empty() {
            errors.forbidden(&root, "may only be used when `spec.type` is 'LoadBalancer'");
        }
    }
}

/// Drops fields that do not apply to the new type, that the server may have set itself, and that
/// the client did not change.
fn drop_type_dependent_fields(old: &Value, new: &mut Value) {
    let same = |new: &Value, field: &str| spec(old).get(field) == spec(new).get(field);
    let mut wiped: Vec<&str> = Vec::new();
    if needs_cluster_ip(old) && !needs_cluster_ip(new) {
        if same(new, "clusterIP") && same(new, "clusterIPs") {
            wiped.extend(["clusterIP", "clusterIPs"]);
        }
        wiped.extend(["ipFamilies", "ipFamilyPolicy"].iter().filter(|f| same(new, f)));
    }
    let wipe_ports =
        has_node_port_type(old) && !has_node_port_type(new) && node_ports(new).is_subset(&node_ports(old));
    if needs_health_check(old) && !needs_health_check(new) && same(new, "healthCheckNodePort") {
        wiped.push("healthCheckNodePort");
    }
    let was_balancer = spec(old).text("type") == LOAD_BALANCER && spec(new).text("type") != LOAD_BALANCER;
    if was_balancer {
        wiped.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"].iter().filter(|f| same(new, f)));
    }
    if is_externally_accessible(old) && !is_externally_accessible(new) && same(new, "externalTrafficPolicy") {
        wiped.push("externalTrafficPolicy");
    }
    let balancer = spec(new).text("type") == LOAD_BALANCER;
    let spec = new.child("spec");
    for field in wiped {
        spec.drop_field(field);
    }
    if wipe_ports {
        for port in spec.items_mut("ports") {
            port.drop_field("nodePort");
        }
    }
    if !balancer {
        new.child("status").set("loadBalancer", json!({}));
    }
}

fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = spec(service);
    let root = Path::Root("spec");
    let kind = spec.text("type");
    let external_name = kind == "ExternalName";
    if service["metadata"]["annotations"].has(TOPOLOGY_HINTS) {
        warnings
            .push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    if !matches!(spec.text("clusterIP"), "" | "None") {
        for (index, address) in spec.texts("clusterIPs").iter().enumerate() {
            ip::warnings(&mut warnings, &root.child("clusterIPs").index(index), address);
        }
    }
    let headless = kind == "ClusterIP" && spec.text("clusterIP") == "None";
    let externals = spec.texts("externalIPs");
    let balancer = spec.text("loadBalancerIP");
    if headless {
        for (field, given) in [
            ("loadBalancerIP", !balancer.is_empty()),
            ("externalIPs", !externals.is_empty()),
            ("SessionAffinity", spec.text("sessionAffinity") != "None"),
        ] {
            if given {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    for (index, address) in externals.iter().enumerate() {
        ip::warnings(&mut warnings, &root.child("externalIPs").index(index), address);
    }
    if !externals.is_empty() && !headless && !external_name {
        let text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    if !balancer.is_empty() {
        ip::warnings(&mut warnings, &root.child("loadBalancerIP"), balancer);
    }
    if external_name && !externals.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external_name && !spec.text("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        let text = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(text.to_owned());
    }
    warnings
}

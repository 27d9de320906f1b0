//! The interdependent fields clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy of a Service,
//! normalized and inferred before the allocation. After
//! `pkg/registry/core/service/storage/{storage,alloc}.go`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::validation::service_ips::validate_cluster_ips;
use crate::validation::{Errors, Path, ip};
use crate::value::{Fields, spec};

use super::families::Families;
use super::service_util::{needs_cluster_ip, needs_health_check, node_ports};

const SINGLE_STACK: &str = "SingleStack";
const REQUIRE_DUAL_STACK: &str = "RequireDualStack";
const PREFER_DUAL_STACK: &str = "PreferDualStack";

fn other_family(family: &str) -> &'static str {
    if family == "IPv4" { "IPv6" } else { "IPv4" }
}

fn family_of(address: &str) -> &'static str {
    if ip::is_ipv6(address) { "IPv6" } else { "IPv4" }
}

/// Sets these fields of a Service that the server stored before they existed.
pub(super) fn default_on_read(service: &mut Value, cluster: Families) {
    normalize_on_create(service);
    if !needs_cluster_ip(service) || !spec(service).list("ipFamilies").is_empty() {
        return;
    }
    let now = spec(service);
    let (families, policy) = if now.text("clusterIP") == "None" {
        if now.entries("selector").next().is_none() {
            (vec![cluster.first(), other_family(cluster.first())], REQUIRE_DUAL_STACK)
        } else {
            (vec![cluster.first()], SINGLE_STACK)
        }
    } else {
        let families: Vec<_> = now.texts("clusterIPs").into_iter().map(family_of).collect();
        let policy = if families.len() == 2 { REQUIRE_DUAL_STACK } else { SINGLE_STACK };
        (families, policy)
    };
    if families.is_empty() {
        return;
    }
    set(service, "ipFamilies", families);
    set(service, "ipFamilyPolicy", policy);
}

fn set(service: &mut Value, field: &str, value: impl Into<Value>) {
    service.child("spec").set(field, value);
}

/// Normalizes and infers the fields of a new Service.
pub(super) fn init_on_create(service: &mut Value, cluster: Families, errors: &mut Errors) {
    normalize_on_create(service);
    init_families(service, None, cluster, errors);
}

/// Normalizes and infers the fields of an updated Service.
pub(super) fn init_on_update(service: &mut Value, old: &Value, cluster: Families, errors: &mut Errors) {
    patch_allocated_values(service, old);
    normalize_on_update(service, old);
    init_families(service, Some(old), cluster, errors);
}

fn normalize_on_create(service: &mut Value) {
    let single = spec(service).text("clusterIP").to_owned();
    if !single.is_empty() && spec(service).list("clusterIPs").is_empty() {
        set(service, "clusterIPs", vec![single]);
    }
}

fn normalize_on_update(service: &mut Value, old: &Value) {
    let (before, was) = (spec(old).texts("clusterIPs"), spec(old).text("clusterIP"));
    let now = spec(service).text("clusterIP").to_owned();
    let plural: Vec<String> = spec(service).texts("clusterIPs").into_iter().map(str::to_owned).collect();
    if was == now {
        // A client that knows only clusterIP left it unchanged.
        if !before.is_empty() && plural.is_empty() {
            set(service, "clusterIPs", before);
        }
    } else if before == plural {
        if was.is_empty() || !now.is_empty() {
            set(service, "clusterIPs", vec![now]);
        } else {
            service.child("spec").drop_field("clusterIPs");
        }
    }
}

/// Copies allocated values from the old Service if an update omits them.
fn patch_allocated_values(service: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        let before = spec(old);
        if spec(service).text("clusterIP").is_empty() && before.has("clusterIP") {
            set(service, "clusterIP", before.text("clusterIP"));
        }
        if spec(service).list("clusterIPs").is_empty() && !before.list("clusterIPs").is_empty() {
            set(service, "clusterIPs", before["clusterIPs"].clone());
        }
    }
    if needs_node_port(old) && needs_node_port(service) {
        let used: BTreeSet<i64> = node_ports(old).intersection(&node_ports(service)).copied().collect();
        let by_name: BTreeMap<&str, i64> =
            spec(old).list("ports").iter().map(|p| (p.text("name"), p.int("nodePort"))).collect();
        for port in service.child("spec").items_mut("ports").iter_mut().filter(|p| p.int("nodePort") == 0) {
            let known = by_name.get(port.text("name")).copied().unwrap_or(0);
            if known != 0 && !used.contains(&known) {
                port.set("nodePort", known);
            }
        }
    }
    let checked = spec(old).int("healthCheckNodePort");
    if needs_health_check(old)
        && needs_health_check(service)
        && spec(service).int("healthCheckNodePort") == 0
        && checked != 0
    {
        set(service, "healthCheckNodePort", checked);
    }
}

fn needs_node_port(service: &Value) -> bool {
    let spec = spec(service);
    match spec.text("type") {
        "NodePort" => true,
        "LoadBalancer" => {
            !spec.has("allocateLoadBalancerNodePorts") || spec.flag("allocateLoadBalancerNodePorts")
        }
        _ => false,
    }
}

/// Returns true if an update leaves the families of a Service with PreferDualStack unchanged. The
/// server then keeps them even if the cluster's families have changed.
fn is_unchanged_preference(service: &Value, old: &Value) -> bool {
    let (now, before) = (spec(service), spec(old));
    now.text("ipFamilyPolicy") == PREFER_DUAL_STACK
        && matches!(before.text("ipFamilyPolicy"), "" | PREFER_DUAL_STACK)
        && now.text("type") == before.text("type")
        && needs_cluster_ip(service)
        && now.list("clusterIPs") == before.list("clusterIPs")
        && now.list("ipFamilies") == before.list("ipFamilies")
}

/// Infers families and policy, and rejects inconsistent values.
fn init_families(service: &mut Value, old: Option<&Value>, cluster: Families, errors: &mut Errors) {
    if !needs_cluster_ip(service) || old.is_some_and(|old| is_unchanged_preference(service, old)) {
        return;
    }
    let headless_without_selector =
        spec(service).text("clusterIP") == "None" && spec(service).entries("selector").next().is_none();
    if !spec(service).has("ipFamilyPolicy") {
        let inherited = old.and_then(|old| spec(old).opt_text("ipFamilyPolicy"));
        let inferred = if headless_without_selector { REQUIRE_DUAL_STACK } else { SINGLE_STACK };
        set(service, "ipFamilyPolicy", inherited.unwrap_or(inferred));
    }
    validate_cluster_ips(service, old, errors);
    if !errors.is_empty() {
        return;
    }
    let policy = spec(service).text("ipFamilyPolicy").to_owned();
    settle_second(service, old, &policy, errors);
    let mut families: Vec<String> =
        spec(service).texts("ipFamilies").into_iter().map(str::to_owned).collect();
    let addresses = spec(service).texts("clusterIPs");
    for (index, address) in addresses.iter().enumerate() {
        if *address == "None" {
            break;
        }
        let family = family_of(address);
        if index < families.len() {
            continue;
        }
        if cluster.has(family) {
            families.push(family.to_owned());
        } else {
            let why = format!("{family} is not configured on this cluster");
            errors.invalid(&Path::Root(&format!("spec.clusterIPs[{index}]")), addresses.as_slice(), &why);
        }
    }
    if !errors.is_empty() {
        return;
    }
    // A headless Service without selector needs no addresses, so it may have families that the
    // cluster does not have.
    if !headless_without_selector {
        check_families(&families, &policy, cluster, errors);
        if !errors.is_empty() {
            return;
        }
    }
    if families.is_empty() {
        families.push(cluster.first().to_owned());
    }
    let adds_second = policy != SINGLE_STACK && (cluster.is_dual() || headless_without_selector);
    if families.len() == 1 && adds_second {
        families.push(other_family(&families[0]).to_owned());
    }
    set(service, "ipFamilies", families);
}

/// Releases the second family of a Service that has become SingleStack, and rejects other
/// differences between its policy and its lists.
fn settle_second(service: &mut Value, old: Option<&Value>, policy: &str, errors: &mut Errors) {
    let at = Path::Root("spec.ipFamilyPolicy");
    if let Some(old) = old {
        let lists = [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")];
        if policy == SINGLE_STACK {
            // SingleStack releases a second family that the client did not change.
            for (list, _) in lists {
                let items = spec(service).texts(list);
                if items.len() > 1 && items == spec(old).texts(list) {
                    let first = vec![items[0].to_owned()];
                    set(service, list, first);
                }
            }
        } else {
            for (list, what) in lists {
                let now = spec(service).list(list).len();
                if now > 0 && now < spec(old).list(list).len() {
                    let why = format!("must be 'SingleStack' to release the secondary {what}");
                    errors.invalid(&at, policy, &why);
                }
            }
        }
    }
    if policy == SINGLE_STACK {
        for (list, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if spec(service).list(list).len() == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.invalid(&at, policy, &why);
            }
        }
    }
}

/// Rejects families that the cluster does not have.
fn check_families(families: &[String], policy: &str, cluster: Families, errors: &mut Errors) {
    if policy == REQUIRE_DUAL_STACK && !cluster.is_dual() {
        let why = "this cluster is not configured for dual-stack services";
        errors.invalid(&Path::Root("spec.ipFamilyPolicy"), policy, why);
    }
    for (index, family) in families.iter().enumerate().filter(|(_, family)| !cluster.has(family)) {
        let at = format!("spec.ipFamilies[{index}]");
        errors.invalid(&Path::Root(&at), family.as_str(), "not configured on this cluster");
    }
}

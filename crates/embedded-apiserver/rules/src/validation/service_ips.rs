//! Validation of clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy, after
//! `ValidateServiceClusterIPsRelatedFields` and the up- and downgrade checks of
//! `pkg/apis/core/validation`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Errors, Path, ip};
use crate::strategy::service_util::{is_headless, needs_cluster_ip};
use crate::value::{Fields, spec};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Validates that the fields are consistent, without comparing them with the old Service.
pub(crate) fn validate_cluster_ips(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    if !needs_cluster_ip(service) {
        return;
    }
    let root = Path::Root("spec");
    let at = root.child("clusterIPs");
    let spec_now = spec(service);
    let single = spec_now.text("clusterIP");
    let addresses = spec_now.texts("clusterIPs");
    let shown = addresses.as_slice();
    if single.is_empty() {
        if !addresses.is_empty() {
            errors.invalid(&at, shown, "must be empty when `clusterIP` is not specified");
        }
    } else {
        match addresses.first() {
            None => errors.required(&at, ""),
            Some(first) if *first != single => {
                errors.invalid(&at, shown, "first value must match `clusterIP`");
            }
            Some(_) => {}
        }
    }
    let families = spec_now.texts("ipFamilies");
    let mut seen = BTreeSet::new();
    for (index, family) in families.iter().enumerate() {
        let at = root.child("ipFamilies");
        if !FAMILIES.contains(family) {
            errors.not_supported(&at.index(index), *family, &FAMILIES);
        }
        if !seen.insert(*family) {
            errors.duplicate(&at.index(index), *family);
        }
    }
    if let Some(policy) = spec_now.opt_text("ipFamilyPolicy").filter(|p| !POLICIES.contains(p)) {
        errors.not_supported(&root.child("ipFamilyPolicy"), policy, &POLICIES);
    }
    let before = old.map(|old| spec(old).texts("clusterIPs")).unwrap_or_default();
    let found = errors.len();
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                errors.invalid(&at, shown, "'None' must be the first and only value");
            }
        } else {
            ip::legacy(errors, &at.index(index), address, &before);
        }
    }
    let some_invalid = errors.len() > found;
    if addresses.len() > 2 {
        errors.invalid(&at, shown, "may only hold up to 2 values");
    }
    if some_invalid {
        return;
    }
    if addresses.len() > 1 && !ip::is_dual_stack(&addresses) {
        errors.invalid(&at, shown, "may specify no more than one IP for each IP family");
    }
    if is_headless(service) {
        return;
    }
    for (index, (address, family)) in addresses.iter().zip(&families).enumerate() {
        if FAMILIES.contains(family) && ip::is_ipv6(address) != (*family == "IPv6") {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&at.index(index), *address, &why);
        }
    }
}

/// Validates a change of the fields: the primary family is immutable, and a client may add and
/// release a second one.
pub(crate) fn validate_cluster_ips_change(service: &Value, old: &Value, errors: &mut Errors) {
    if !needs_cluster_ip(service) || !needs_cluster_ip(old) {
        return;
    }
    let headless = (is_headless(old), is_headless(service));
    if headless != (true, true) {
        validate_addresses(service, old, errors);
    }
    if headless == (false, false) {
        validate_families(service, old, errors);
    }
}

fn single_stack(service: &Value) -> bool {
    spec(service).text("ipFamilyPolicy") == "SingleStack"
}

fn validate_addresses(service: &Value, old: &Value, errors: &mut Errors) {
    let root = Path::Root("spec.clusterIPs");
    let (before, now) = (spec(old).texts("clusterIPs"), spec(service).texts("clusterIPs"));
    let set_once = "may not change once set";
    if before.len() == now.len() {
        for (index, _) in before.iter().zip(&now).enumerate().filter(|(_, (b, n))| b != n) {
            errors.invalid(&root.index(index), now.as_slice(), set_once);
        }
        return;
    }
    if now.is_empty() {
        errors.invalid(&root.index(0), now.as_slice(), "primary clusterIP can not be unset");
    } else if !before.is_empty() && before[0] != now[0] {
        errors.invalid(&root.index(0), now.as_slice(), set_once);
    }
    if before.len() > now.len() && now.len() == 1 && !single_stack(service) {
        let why = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.invalid(&Path::Root("spec.ipFamilyPolicy"), &spec(service)["ipFamilyPolicy"], why);
    }
}

fn validate_families(service: &Value, old: &Value, errors: &mut Errors) {
    let root = Path::Root("spec.ipFamilies");
    let (before, now) = (spec(old).texts("ipFamilies"), spec(service).texts("ipFamilies"));
    let set_once = "may not change once set";
    if before.len() == now.len() {
        for _ in before.iter().zip(&now).filter(|(b, n)| b != n) {
            errors.invalid(&root.index(0), now.as_slice(), set_once);
        }
        return;
    }
    let addresses = spec(service).texts("clusterIPs");
    if before.len() > now.len() && addresses.is_empty() {
        errors.invalid(&root.index(0), now.as_slice(), "primary ipFamily can not be unset");
    }
    if !before.is_empty() && !now.is_empty() && before[0] != now[0] {
        errors.invalid(&root.index(0), addresses.as_slice(), set_once);
    }
    if before.len() > now.len() && now.len() == 1 && !single_stack(service) {
        let why = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errors.invalid(&Path::Root("spec.ipFamilyPolicy"), &spec(service)["ipFamilyPolicy"], why);
    }
}

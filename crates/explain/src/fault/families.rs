//! Message and remedy for endpoints whose addresses are not of the Service's IP families.

use kube_endpoint_core_model::{AddressType, IpFamily};

/// Says which families have no endpoint, and which addresses there are.
pub(super) fn differ(missing: &[IpFamily], has: &[AddressType]) -> String {
    let has: Vec<&str> = has.iter().copied().map(addresses).collect();
    format!("no ready endpoint has an {} address; the ready ones have {}", list(missing), has.join(" and "))
}

/// Says how to make the Service and its endpoints agree. `is_new` is true if only a new Service can
/// have the families of the endpoints: nobody can change the first family of a Service.
pub(super) fn remedy(missing: &[IpFamily], has: &[AddressType], is_new: bool) -> String {
    let missing = list(missing);
    let other = has.iter().find(|address_type| **address_type != AddressType::Fqdn);
    match other {
        None => format!(
            "Write {missing} addresses, because kube-proxy ignores domain names, or use a Service with spec.type ExternalName"
        ),
        Some(other) if is_new => format!(
            "Write ready endpoints with {missing} addresses, or create the Service anew with spec.ipFamilies: [{}] and without spec.clusterIP and spec.clusterIPs",
            other.as_str()
        ),
        Some(other) => format!(
            "Write ready endpoints with {missing} addresses, too, or make the Service single-stack: it then keeps {}, its first family",
            other.as_str()
        ),
    }
}

pub(super) fn list(families: &[IpFamily]) -> String {
    let families: Vec<&str> = families.iter().map(|family| AddressType::from(*family).as_str()).collect();
    families.join(" or ")
}

pub(super) fn addresses(address_type: AddressType) -> &'static str {
    match address_type {
        AddressType::IPv4 => "IPv4 addresses",
        AddressType::IPv6 => "IPv6 addresses",
        AddressType::Fqdn => "domain names",
    }
}

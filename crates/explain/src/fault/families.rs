//! What is said about endpoints whose addresses the Service does not use, and what to do.

use kube_endpoint_core_model::{AddressType, IpFamily};

/// Says which addresses the endpoints have.
pub(super) fn differ(wanted: &[IpFamily], has: &[AddressType]) -> String {
    let families = if wanted.len() == 1 { "family" } else { "families" };
    let has: Vec<&str> = has.iter().copied().map(addresses).collect();
    format!(
        "no ready endpoint has an address of the IP {families} {} of the Service: endpoints have {}",
        list(wanted),
        has.join(" and ")
    )
}

/// Says how the Service and its endpoints can be made to agree.
pub(super) fn remedy(wanted: &[IpFamily], has: &[AddressType]) -> String {
    if has == [AddressType::Fqdn] {
        return "Write IP addresses, because kube-proxy ignores domain names, or make the Service an ExternalName"
            .to_owned();
    }
    format!(
        "Write addresses of {}, or make the Service dual-stack (spec.ipFamilyPolicy: RequireDualStack), which the cluster must be, too",
        list(wanted)
    )
}

fn list(families: &[IpFamily]) -> String {
    let families: Vec<&str> = families.iter().map(|family| AddressType::from(*family).as_str()).collect();
    families.join(" and ")
}

fn addresses(address_type: AddressType) -> &'static str {
    match address_type {
        AddressType::IPv4 => "IPv4 addresses",
        AddressType::IPv6 => "IPv6 addresses",
        AddressType::Fqdn => "domain names",
    }
}

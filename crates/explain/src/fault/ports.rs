//! Message and remedy for ports of a Service that its endpoints lack.

use kube_endpoint_core_model::{IpFamily, ObjectKey};

use crate::NamedPort;

/// Says which ports no endpoint has, and which they have.
pub(super) fn differ(
    wanted: &[NamedPort],
    has: &[NamedPort],
    family: Option<IpFamily>,
    none_is_left: bool,
) -> String {
    let endpoint = endpoint(family);
    let lacking = match wanted {
        [one] => format!("no ready {endpoint} has {} of the Service", the(one)),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(the).collect();
            format!("ready {endpoint}s have neither {} nor {} of the Service", first.join(", "), the(last))
        }
        [] => String::new(),
    };
    let they = if wanted.len() == 1 { format!("{endpoint}s") } else { "they".to_owned() };
    let numbered: Vec<NamedPort> = has.iter().filter(|port| port.port.is_some()).cloned().collect();
    let unnumbered: Vec<NamedPort> = has.iter().filter(|port| port.port.is_none()).cloned().collect();
    match (numbered.as_slice(), unnumbered.as_slice()) {
        ([], []) if none_is_left => format!("{lacking}: {they} have no ports"),
        ([], []) => lacking,
        (numbered, []) => {
            format!(
                "{lacking}: {they} have {}, and ports are matched by name and protocol",
                list(numbered, the)
            )
        }
        ([], unnumbered) => {
            format!("{lacking}: {they} have {}, but without a number", list(unnumbered, the))
        }
        (numbered, unnumbered) => format!(
            "{lacking}: {they} have {}, and without a number {}",
            list(numbered, the),
            list(unnumbered, the)
        ),
    }
}

/// Returns the word for an endpoint of this family, or of any.
fn endpoint(family: Option<IpFamily>) -> String {
    family.map_or_else(|| "endpoint".to_owned(), |family| format!("{family:?} endpoint"))
}

/// Says how to make the ports of a Service and of its endpoints agree. Endpoints of another family
/// may have the ports of the Service already.
pub(super) fn remedy(
    wanted: &[NamedPort],
    has: &[NamedPort],
    family: Option<IpFamily>,
    none_is_left: bool,
) -> String {
    let endpoints = format!("the {}s", endpoint(family));
    let mut steps = Vec::new();
    let mut missing = Vec::new();
    for one in wanted {
        let same = has.iter().find(|held| (&held.name, &held.protocol) == (&one.name, &one.protocol));
        let same_name = has.iter().find(|held| held.name == one.name && held.port.is_some());
        match (same, same_name) {
            (Some(same), _) => steps.push(format!("set the number of {} of {endpoints}", the(same))),
            (None, Some(other)) => {
                steps.push(format!("set the protocol of {} of {endpoints} to {}", the(other), one.protocol));
            }
            (None, None) => missing.push(one.clone()),
        }
    }
    if !missing.is_empty() {
        steps.push(add(&missing, wanted, has, family, none_is_left));
    }
    let steps = steps.join(", and ");
    let mut chars = steps.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Says how to add missing ports to endpoints. If one port is missing and one is left over, a user
/// can rename one of the two.
fn add(
    missing: &[NamedPort],
    wanted: &[NamedPort],
    has: &[NamedPort],
    family: Option<IpFamily>,
    none_is_left: bool,
) -> String {
    let endpoints = format!("the {}s", endpoint(family));
    let give = format!("give {endpoints} {}", list(missing, a));
    let ([one], [_], [other]) = (missing, wanted, has) else { return give };
    let is_other_name = one.protocol == other.protocol;
    let endpoints = if one.name.is_empty() && is_other_name {
        format!("remove the name from the port of {endpoints}")
    } else {
        give
    };
    if family.is_some() {
        return endpoints;
    }
    match (other.name.is_empty(), none_is_left) {
        // A Service with several ports must name them.
        (true, false) => endpoints,
        (true, true) if is_other_name => format!("{endpoints}, or remove the name from that of the Service"),
        _ if other.port.is_none() => endpoints,
        _ => format!("{endpoints}, or give the Service {}", a(other)),
    }
}

/// Says on which ports the endpoints of a headless Service listen.
pub(super) fn headless(port: i32, name: &str, targets: &[u16]) -> String {
    let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
    let targets = or(targets);
    format!(
        "no proxy translates the port {port}{name} of a headless Service to {targets}, on which its endpoints listen, so clients have to use {targets}"
    )
}

/// Says which port clients of a headless Service have to use. The SRV record of a port has its
/// number; one without a name has none.
pub(super) fn headless_remedy(
    port: i32,
    name: &str,
    protocol: &str,
    targets: &[u16],
    service: &ObjectKey,
) -> String {
    let ObjectKey { namespace, name: of } = service;
    let srv = match name {
        "" => String::new(),
        name => format!(
            ", or ask DNS for the SRV record _{name}._{}.{of}.{namespace}.svc, which has it",
            protocol.to_lowercase()
        ),
    };
    let targets = or(targets);
    format!(
        "Let clients use port {targets}{srv}; if nobody relies on the number {port}, set the port of the Service to {targets}; if clients need it, create the Service anew with a cluster IP"
    )
}

fn or(numbers: &[u16]) -> String {
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(" or ")
}

pub(super) fn list(ports: &[NamedPort], text: impl Fn(&NamedPort) -> String) -> String {
    ports.iter().map(text).collect::<Vec<_>>().join(" and ")
}

pub(super) fn the(port: &NamedPort) -> String {
    match &*port.name {
        "" => format!("the port without a name ({})", port.protocol),
        name => format!("the port {name:?} ({})", port.protocol),
    }
}

fn a(port: &NamedPort) -> String {
    if port.name.is_empty() { format!("a port without a name ({})", port.protocol) } else { the(port) }
}

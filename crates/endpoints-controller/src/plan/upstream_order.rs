//! Sorts subsets as upstream does. The order decides which addresses a plan leaves out if there are
//! too many.
//!
//! Upstream sorts ports and subsets by FNV-1a (128 bits) of how `k8s.io/utils/dump` prints them
//! (`SortSubsets` in `pkg/api/v1/endpoints/util.go`): spew's `%#v`, with the type before each value
//! except for elements of lists. The order has no meaning, and otherwise this crate sorts by port.
//! But if a list is truncated, the last subset gets what the rounded shares of the others leave.
//! With another order the shares would differ, and this controller would rewrite an object that
//! upstream's controller has truncated.

use std::fmt::{self, Write};

use kube_endpoint_core_model::ObjectReference;
use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};

/// Sorts canonical subsets and their ports as upstream does.
pub(super) fn sort(subsets: &mut [EndpointSubset]) {
    for subset in &mut *subsets {
        subset.ports.sort_by_cached_key(|port| hash(|text| write!(text, "(v1.EndpointPort){}", Port(port))));
    }
    subsets.sort_by_cached_key(|subset| hash(|text| write!(text, "{}", Subset(subset))));
}

/// Computes FNV-1a with 128 bits of the text that is written to it.
struct Hasher(u128);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const PRIME: u128 = (1 << 88) + 0x13b;
        for byte in text.bytes() {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul(PRIME);
        }
        Ok(())
    }
}

fn hash(write: impl FnOnce(&mut Hasher) -> fmt::Result) -> u128 {
    let mut hasher = Hasher(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    // Writing to the hasher cannot fail.
    let _ = write(&mut hasher);
    hasher.0
}

struct Subset<'a>(&'a EndpointSubset);

impl fmt::Display for Subset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndpointSubset { addresses, not_ready_addresses, ports } = self.0;
        write!(f, "(v1.EndpointSubset){{Addresses:([]v1.EndpointAddress)")?;
        list(f, addresses.iter().map(Address))?;
        write!(f, " NotReadyAddresses:([]v1.EndpointAddress)")?;
        list(f, not_ready_addresses.iter().map(Address))?;
        write!(f, " Ports:([]v1.EndpointPort)")?;
        list(f, ports.iter().map(Port))?;
        write!(f, "}}")
    }
}

/// Prints a list. In upstream's canonical form an empty list is nil.
fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: impl Iterator<Item = T>) -> fmt::Result {
    let mut is_empty = true;
    for item in items {
        write!(f, "{}{item}", if is_empty { "[" } else { " " })?;
        is_empty = false;
    }
    write!(f, "{}", if is_empty { "<nil>" } else { "]" })
}

struct Address<'a>(&'a EndpointAddress);

impl fmt::Display for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndpointAddress { ip, hostname, node_name, target_ref } = self.0;
        // For a pod without a node, upstream has a pointer to an empty name.
        let node_name = node_name.as_deref().unwrap_or_default();
        write!(f, "{{IP:(string){ip} Hostname:(string){hostname} NodeName:(*string){node_name}")?;
        write!(f, " TargetRef:(*v1.ObjectReference)")?;
        let Some(target) = target_ref else { return write!(f, "<nil>}}") };
        let ObjectReference { kind, namespace, name, uid, .. } = target;
        write!(f, "{{Kind:(string){kind} Namespace:(string){namespace} Name:(string){name}")?;
        // The controller does not set the other fields.
        write!(f, " UID:(types.UID){uid} APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}}}}")
    }
}

struct Port<'a>(&'a EndpointsPort);

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EndpointsPort { name, port, protocol, app_protocol } = self.0;
        let app_protocol = app_protocol.as_deref().unwrap_or("<nil>");
        write!(f, "{{Name:(string){name} Port:(int32){port} Protocol:(v1.Protocol){protocol}")?;
        write!(f, " AppProtocol:(*string){app_protocol}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv_1a() {
        let check = |text: &str, want: u128| assert_eq!(hash(|f| f.write_str(text)), want, "{text}");
        check("", 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        check("a", 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        check("foobar", 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn subsets_are_printed_as_spew_prints_them() {
        let target = ObjectReference {
            kind: "Pod".into(),
            namespace: "n".into(),
            name: "a".into(),
            uid: "u".into(),
            ..ObjectReference::default()
        };
        let address = EndpointAddress {
            ip: "10.0.0.1".into(),
            node_name: Some("node".into()),
            target_ref: Some(target),
            ..EndpointAddress::default()
        };
        let bare = EndpointAddress { ip: "10.0.0.2".into(), hostname: "h".into(), ..address.clone() };
        let bare = EndpointAddress { node_name: None, target_ref: None, ..bare };
        let port = EndpointsPort {
            name: "web".into(),
            port: 80,
            protocol: "TCP".into(),
            app_protocol: Some("http".into()),
        };
        let plain = EndpointsPort { name: "".into(), app_protocol: None, ..port.clone() };
        let subset = EndpointSubset {
            addresses: vec![address, bare],
            ports: vec![port, plain],
            ..EndpointSubset::default()
        };
        insta::assert_snapshot!(Subset(&subset), @"(v1.EndpointSubset){Addresses:([]v1.EndpointAddress)[{IP:(string)10.0.0.1 Hostname:(string) NodeName:(*string)node TargetRef:(*v1.ObjectReference){Kind:(string)Pod Namespace:(string)n Name:(string)a UID:(types.UID)u APIVersion:(string) ResourceVersion:(string) FieldPath:(string)}} {IP:(string)10.0.0.2 Hostname:(string)h NodeName:(*string) TargetRef:(*v1.ObjectReference)<nil>}] NotReadyAddresses:([]v1.EndpointAddress)<nil> Ports:([]v1.EndpointPort)[{Name:(string)web Port:(int32)80 Protocol:(v1.Protocol)TCP AppProtocol:(*string)http} {Name:(string) Port:(int32)80 Protocol:(v1.Protocol)TCP AppProtocol:(*string)<nil>}]}");
    }

    /// The vectors cover the order of subsets only where it decides which addresses upstream leaves
    /// out. These ports are a real cluster's.
    #[test]
    fn ports_are_sorted_as_in_a_real_cluster() {
        let check = |ports: [(&str, i32, &str, Option<&str>); 2]| {
            let port =
                |(name, port, protocol, app_protocol): (&str, i32, &str, Option<&str>)| EndpointsPort {
                    name: name.into(),
                    port,
                    protocol: protocol.into(),
                    app_protocol: app_protocol.map(Into::into),
                };
            let want: Vec<EndpointsPort> = ports.into_iter().map(port).collect();
            for ports in [want.clone(), want.iter().rev().cloned().collect()] {
                let mut subsets = [EndpointSubset { ports, ..EndpointSubset::default() }];
                sort(&mut subsets);
                assert_eq!(subsets[0].ports, want);
            }
        };
        check([("dns-tcp", 5353, "TCP", None), ("dns", 5353, "UDP", None)]);
        check([("metrics", 9102, "TCP", None), ("http", 8080, "TCP", Some("http"))]);
    }
}

//! IP addresses as Go's `ParseIPSloppy` reads them, and as Go prints them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::Text;

/// A family of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum IpFamily {
    IPv4,
    IPv6,
}

impl IpFamily {
    /// Returns the family of an address.
    pub fn of(address: &IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::IPv4,
            IpAddr::V6(_) => Self::IPv6,
        }
    }
}

/// Parses an address as `k8s.io/utils/net.ParseIPSloppy` does: leading zeros are decimal,
/// `::ffff:a.b.c.d` is IPv4, zones are invalid. The result prints canonically.
pub fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let address = match text.bytes().find(|byte| matches!(byte, b'.' | b':'))? {
        b'.' => IpAddr::V4(sloppy_v4(text)?),
        _ => IpAddr::V6(sloppy_v6(text)?),
    };
    Some(address.to_canonical())
}

/// Prints an address. The first sync of a Service prints the addresses of all pods, so this prints
/// IPv4 without `Display`, which costs nearly three times as much, and without a string for the
/// digits.
pub fn to_text(address: &IpAddr) -> Text {
    let IpAddr::V4(address) = address else { return address.to_string().into() };
    let mut text = [0; "255.255.255.255".len()];
    let mut length = 0;
    let mut push = |character: u8| {
        text[length] = character;
        length += 1;
    };
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            push(b'.');
        }
        let (hundreds, tens, ones) = (octet / 100, octet / 10 % 10, octet % 10);
        if hundreds > 0 {
            push(b'0' + hundreds);
        }
        if hundreds > 0 || tens > 0 {
            push(b'0' + tens);
        }
        push(b'0' + ones);
    }
    // Digits and dots are UTF-8.
    str::from_utf8(&text[..length]).unwrap_or_default().into()
}

/// Returns true if a text is an IPv6 address (upstream `utilnet.IsIPv6String`).
pub fn is_ipv6(text: &str) -> bool {
    matches!(parse_sloppy(text), Some(IpAddr::V6(_)))
}

fn sloppy_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = decimal(parts.next()?)?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

fn decimal(digits: &str) -> Option<u8> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Only leading zeros can make this longer than three digits.
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() { Some(0) } else { significant.parse().ok() }
}

fn sloppy_v6(text: &str) -> Option<Ipv6Addr> {
    let (head, tail) = match text.split_once("::") {
        Some((head, tail)) => (head, Some(tail)),
        None => (text, None),
    };
    let head = groups(head, tail.is_none())?;
    let Some(tail) = tail else {
        let groups: [u16; 8] = head.try_into().ok()?;
        return Some(Ipv6Addr::from(groups));
    };
    let tail = groups(tail, true)?;
    // The ellipsis stands for at least one group.
    let zeros = 8usize.checked_sub(head.len() + tail.len()).filter(|zeros| *zeros > 0)?;
    let all: Vec<u16> = head.into_iter().chain(std::iter::repeat_n(0, zeros)).chain(tail).collect();
    let groups: [u16; 8] = all.try_into().ok()?;
    Some(Ipv6Addr::from(groups))
}

/// Returns the groups between colons. If `at_end`, the last one may be a dotted IPv4 address.
fn groups(text: &str, at_end: bool) -> Option<Vec<u16>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut out = Vec::new();
    let mut parts = text.split(':').peekable();
    while let Some(part) = parts.next() {
        if at_end && parts.peek().is_none() && part.contains('.') {
            let [a, b, c, d] = sloppy_v4(part)?.octets();
            out.extend([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]);
            continue;
        }
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let significant = part.trim_start_matches('0');
        out.push(if significant.is_empty() { 0 } else { u16::from_str_radix(significant, 16).ok()? });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_as_go_does() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(parse_sloppy(text).map(|ip| ip.to_string()).as_deref(), want, "{text}");
        };
        check("10.0.0.1", Some("10.0.0.1"));
        check("010.000.0.01", Some("10.0.0.1"));
        check("10.0.0.0000256", None);
        check("10.0.0.00001", Some("10.0.0.1"));
        check("10.0.0.256", None);
        check("10.0.0", None);
        check("10.0.0.1.2", None);
        check("10.0.0.", None);
        check("", None);
        check("host", None);
        check("::ffff:10.0.0.1", Some("10.0.0.1"));
        check("::ffff:010.0.0.1", Some("10.0.0.1"));
        check("::FFFF:0a00:0001", Some("10.0.0.1"));
        check("FD00:0:0::1", Some("fd00::1"));
        check("fd00:0:0:1:0:0:0:1", Some("fd00:0:0:1::1"));
        check("fd00::1:0:0:1", Some("fd00::1:0:0:1"));
        check("00fd00::00001", Some("fd00::1"));
        check("fd00::1%eth0", None);
        check("1:2:3:4:5:6:7:8", Some("1:2:3:4:5:6:7:8"));
        check("1:2:3:4:5:6:7", None);
        check("1:2:3:4::5:6:7:8", None);
        check("::", Some("::"));
        check("::1.2.3.4", Some("::102:304"));
        check("10.0.0.1/24", None);
        check(" 10.0.0.1", None);
    }

    proptest::proptest! {
        #[test]
        fn an_address_is_printed_as_display_does(octets: [u8; 4], segments: [u16; 8]) {
            for address in [IpAddr::from(octets), IpAddr::from(octets.map(|octet| octet % 11)), IpAddr::from(segments)] {
                assert_eq!(*to_text(&address), *address.to_string());
            }
        }
    }

    #[test]
    fn families() {
        assert!(is_ipv6("fd00::1"));
        assert!(!is_ipv6("10.0.0.1"));
        assert!(!is_ipv6("::ffff:10.0.0.1"));
        assert!(!is_ipv6("None"));
        assert!(!is_ipv6(""));
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_reads_back_the_same(bytes: [u8; 16], four: bool) {
            let address = if four { IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]) } else { IpAddr::from(bytes) };
            let address = address.to_canonical();
            proptest::prop_assert_eq!(parse_sloppy(&address.to_string()), Some(address));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-f:.%]{0,40}") {
            let _ = parse_sloppy(&text);
        }
    }
}

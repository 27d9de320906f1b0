//! IP addresses: the legacy ("sloppy") parser, the strict validation of 1.36, warnings, and how Go
//! prints an address. After `apimachinery/pkg/util/validation/ip.go`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Errors, Path};

/// Parses as `netutils.ParseIPSloppy` does: it ignores leading zeros in IPv4, and an IPv4-mapped
/// address is IPv4.
pub(crate) fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4));
        }
        // An embedded IPv4 address may have leading zeros, too.
        let (head, tail) = text.rsplit_once(':')?;
        let tail = parse_ipv4_sloppy(tail)?;
        let address = format!("{head}:{tail}").parse::<Ipv6Addr>().ok()?;
        return Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4));
    }
    parse_ipv4_sloppy(text).map(IpAddr::V4)
}

fn parse_ipv4_sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then(|| octets.into())
}

/// Returns true if `netip.ParseAddr` accepts it.
fn is_strict(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Returns true if it is an IPv6 address by `netutils.IsIPv6String` (a mapped one is not).
pub(crate) fn is_ipv6(text: &str) -> bool {
    matches!(parse_sloppy(text), Some(IpAddr::V6(_)))
}

/// Returns true if it is an IPv4 address by `netutils.IsIPv4String`.
pub(crate) fn is_ipv4(text: &str) -> bool {
    matches!(parse_sloppy(text), Some(IpAddr::V4(_)))
}

/// Returns true if the addresses are of both families.
pub(crate) fn is_dual_stack(addresses: &[&str]) -> bool {
    addresses.iter().any(|a| is_ipv4(a)) && addresses.iter().any(|a| is_ipv6(a))
}

fn is_mapped(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok_and(|a| a.to_ipv4_mapped().is_some())
}

/// Validates an address in a field that predates strict validation: it need not be canonical, but
/// this rejects leading zeros and IPv4-mapped addresses. Addresses of the old object stay valid.
pub(crate) fn legacy(errors: &mut Errors, path: &Path<'_>, text: &str, before: &[&str]) {
    if before.contains(&text) {
        return;
    }
    if parse_sloppy(text).is_none() {
        errors.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    } else if !is_strict(text) {
        errors.invalid(path, text, "must not have leading 0s");
    } else if is_mapped(text) {
        errors.invalid(path, text, "must not be an IPv4-mapped IPv6 address");
    }
}

/// Validates an address in a newer field: it must be valid and canonical.
pub(crate) fn strict(errors: &mut Errors, path: &Path<'_>, text: &str) {
    let found = errors.len();
    legacy(errors, path, text, &[]);
    if errors.len() == found
        && let Some(address) = parse_sloppy(text)
        && address.to_string() != text
    {
        errors.invalid(path, text, &format!("must be in canonical form (\"{address}\")"));
    }
}

/// Rejects addresses that cannot be endpoints.
pub(crate) fn endpoint(errors: &mut Errors, path: &Path<'_>, text: &str) {
    let Some(address) = parse_sloppy(text) else {
        errors.invalid(path, text, "must be a valid IP address");
        return;
    };
    if address.is_unspecified() {
        errors.invalid(path, text, &format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (unicast, multicast) = match address {
        IpAddr::V4(a) => (a.is_link_local(), a.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(a) => (a.segments()[0] & 0xffc0 == 0xfe80, a.segments()[0] & 0xff0f == 0xff02),
    };
    if unicast {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// Warns of a valid address that is not canonical.
pub(crate) fn warnings(warnings: &mut Vec<String>, path: &Path<'_>, text: &str) {
    let Some(address) = parse_sloppy(text) else { return };
    if !is_strict(text) || is_mapped(text) {
        warnings.push(format!("{path}: non-standard IP address {text:?} is invalid: use \"{address}\""));
    } else if address.is_ipv6() && address.to_string() != text {
        warnings.push(format!(
            "{path}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{address}\")"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sloppy_parser_takes_leading_zeros_and_mapped_addresses() {
        for (text, want) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.002.003.004", Some("10.2.3.4")),
            ("::ffff:1.2.3.4", Some("1.2.3.4")),
            ("2001:DB8:0::1", Some("2001:db8::1")),
            ("1.2.3", None),
            ("1.2.3.256", None),
            ("a.b.c.d", None),
            ("", None),
            ("fe80::1%eth0", None),
        ] {
            assert_eq!(parse_sloppy(text).map(|a| a.to_string()).as_deref(), want, "{text}");
        }
    }

    fn check(text: &str, want: &str) {
        let mut found = Vec::new();
        let path = Path::Root("f");
        warnings(&mut found, &path, text);
        assert_eq!(found.join("\n"), want);
    }

    #[test]
    fn warnings_name_the_better_form() {
        check("192.012.2.2", r#"f: non-standard IP address "192.012.2.2" is invalid: use "192.12.2.2""#);
        check(
            "2001:db8:0:0::2",
            r#"f: IPv6 address "2001:db8:0:0::2" should be in RFC 5952 canonical format ("2001:db8::2")"#,
        );
        check("2001:db8::2", "");
    }
}

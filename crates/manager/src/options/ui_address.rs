//! The value of `--embedded-ui-address`.

use std::net::SocketAddr;
use std::str::FromStr;

/// The address of the page of `--embedded`: `--embedded-ui-address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UiAddress {
    /// There is no page.
    Off,
    /// At this address of loopback.
    At(SocketAddr),
}

impl FromStr for UiAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text == "none" {
            return Ok(Self::Off);
        }
        let address: SocketAddr = text
            .parse()
            .map_err(|_| "expected an IP address and a port, as in 127.0.0.1:8080, or none".to_owned())?;
        match address.ip().is_loopback() {
            true => Ok(Self::At(address)),
            false => {
                Err("the page has no TLS and shows everything, so the address must be one of loopback"
                    .to_owned())
            }
        }
    }
}

impl std::fmt::Display for UiAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("none"),
            Self::At(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_an_address() {
        let check = |text: &str, want: Option<&str>| {
            assert_eq!(text.parse::<UiAddress>().ok().map(|it| it.to_string()).as_deref(), want, "{text:?}");
        };
        check("none", Some("none"));
        check("", Some("none"));
        check("127.0.0.1:0", Some("127.0.0.1:0"));
        check("[::1]:8080", Some("[::1]:8080"));
        for refused in ["0.0.0.0:0", "192.0.2.1:80", "localhost:80", "127.0.0.1", "8080", "off"] {
            check(refused, None);
        }
    }
}

//! Refuses requests before a listener handles them: those of web pages in the user's browser, and
//! those without a valid token.
//!
//! A page of any origin can make the browser send requests to loopback. With DNS rebinding it can
//! even read the responses: it gives its own host name the address 127.0.0.1. Such requests carry a
//! foreign `Host` or an `Origin`, or have no content type that a page may not send without asking
//! first.

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use kube_endpoint_apiserver_rules::status::Status;

use crate::connection::Connection;
use crate::listener;
use crate::router;
use crate::server::Inner;

impl Inner {
    /// Checks the head of a listener's request.
    pub(crate) fn check_head(&self, connection: &Connection, parts: &Parts) -> Result<(), Status> {
        let any_name = self.settings.requires_token && !connection.address.ip().is_loopback();
        for host in hosts(parts) {
            if !is_own_host(&host, connection, any_name) {
                return Err(forbidden(&format!(
                    "the host {host:?} of the request is not an address of this server; use {} (host names other than \
                     localhost are refused, because a web page can give its own name the address of this server)",
                    listener::url(connection.address, connection.has_tls)
                )));
            }
        }
        if let Some(origin) = parts.headers.get(ORIGIN) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            return Err(forbidden(&format!(
                "the request has the header \"Origin: {origin}\": this server refuses requests of web pages"
            )));
        }
        self.check_token(parts)
    }

    /// Returns 401, as the real server does: for an unknown token on any path, and without a token
    /// except on paths for anonymous users.
    fn check_token(&self, parts: &Parts) -> Result<(), Status> {
        if !self.settings.requires_token {
            return Ok(());
        }
        let known = match parts.headers.get(AUTHORIZATION) {
            None => router::allows_anonymous(parts.uri.path()),
            Some(header) => self.reviews.user_of_header(header.to_str().ok()).is_some(),
        };
        if known { Ok(()) } else { Err(Status::new(401, "Unauthorized", "Unauthorized")) }
    }
}

/// Checks the content type of a body of a listener's request. In process, a missing one means JSON,
/// as on the real server; but a web page may send a body without one.
pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), Status> {
    if headers.contains_key(CONTENT_TYPE) {
        // The handlers of the verbs refuse types that they do not know.
        return Ok(());
    }
    let message = "the body of the request has no Content-Type - accepted media types include: application/json, \
                   application/vnd.kubernetes.protobuf";
    Err(Status::new(415, "UnsupportedMediaType", message))
}

fn forbidden(why: &str) -> Status {
    Status::new(403, "Forbidden", format!("forbidden: {why}"))
}

/// Returns the hosts that a request names: in HTTP/2 the authority of its URI, in HTTP/1 the
/// header. HTTP/1.0 has none.
fn hosts(parts: &Parts) -> Vec<String> {
    let headers = parts
        .headers
        .get_all(HOST)
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    parts.uri.authority().map(Authority::to_string).into_iter().chain(headers).collect()
}

/// Returns true if a host, with or without a port, names this server and nobody can rebind it. The
/// port may differ, as it does behind a forwarded port.
fn is_own_host(host: &str, connection: &Connection, any_name: bool) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    match name.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback() || !connection.address.ip().is_loopback(),
        Err(_) => !name.is_empty() && (any_name || name.eq_ignore_ascii_case("localhost")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Closing;

    #[track_caller]
    fn check(listens_on: &str, any_name: bool, own: &[&str], foreign: &[&str]) {
        let closing = Closing(kube_endpoint_watch_channel::channel(false).1);
        let connection = Connection { address: listens_on.parse().unwrap(), has_tls: false, closing };
        let accepts = |host: &&&str| is_own_host(host, &connection, any_name);
        assert_eq!(own.iter().filter(accepts).collect::<Vec<_>>(), own.iter().collect::<Vec<_>>());
        assert_eq!(foreign.iter().filter(accepts).count(), 0, "{foreign:?}");
    }

    #[test]
    fn foreign_hosts_are_told_from_own_ones() {
        let loopback = ["localhost", "LocalHost:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080", "[::1]"];
        let names = ["evil.example", "evil.example:8080", "localhost.evil.example", "localhost."];
        let broken = ["", ":80", "127.0.0.1 evil.example", "user@"];
        check(
            "127.0.0.1:8080",
            false,
            &loopback,
            &[&names[..], &broken, &["192.0.2.1", "[2001:db8::1]:80"]].concat(),
        );
        check("0.0.0.0:8080", false, &[&loopback[..], &["192.0.2.1:8080", "[2001:db8::1]"]].concat(), &names);
        check("0.0.0.0:8080", true, &[&loopback[..], &names].concat(), &broken);
    }
}

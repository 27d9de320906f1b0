//! Guards pages that a browser opens on loopback, where it sends no credentials.
//!
//! Any program of the machine can connect to loopback, and any web page can make the browser send
//! requests there. With DNS rebinding a page can even read the answers: it gives its own host name
//! the address 127.0.0.1. Therefore:
//!
//! - `Host` has to be a literal loopback address or `localhost`, which a page cannot give to
//!   itself.
//! - `Origin`, if there is one, has to be that host, and `Sec-Fetch-Site`, if there is one,
//!   `same-origin` or `none`.
//! - Only `GET` of paths under `/ui` gets through.
//! - With a [`BrowserGuard`], the printed address contains a random token. The guard exchanges it
//!   for a cookie that no script reads (`HttpOnly`) and that no other site's request carries
//!   (`SameSite=Strict`); the browser then loads the address without the token.
//! - Cookies do not distinguish ports: the browser would send this one to any other server of the
//!   machine whose page is open. So the cookie is for a random path below `/ui` only, which no
//!   other page knows, and all pages are below that path.

use std::net::SocketAddr;

use http::header::{
    CACHE_CONTROL, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode};
use ring::rand::SecureRandom;

use crate::error::ServingError;
use crate::hash::Hasher;

/// The guard lets requests through for this path, and for those below it.
const PREFIX: &str = "/ui";

/// The query parameter that holds the token.
const TOKEN: &str = "token";

/// Bytes of a token and of a cookie.
const SECRET_BYTES: usize = 32;

/// Lets only the browser of one user through. Make one guard for each listener.
pub struct BrowserGuard {
    address: SocketAddr,
    token: String,
    cookie: String,
    /// `/ui/~` and a secret.
    place: String,
    hasher: Hasher,
}

impl std::fmt::Debug for BrowserGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrowserGuard").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The guard's decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Answer it. Its path is now that of the page.
    Admit,
    /// Answer with `303 See Other`, this `Location` and this `Set-Cookie`.
    Exchange {
        /// The path without the token.
        location: String,
        cookie: String,
    },
    /// Answer with this status and this text.
    Refuse { status: StatusCode, message: &'static str },
}

impl BrowserGuard {
    /// Returns a guard with a new random token. `address` is that of the listener.
    ///
    /// # Errors
    ///
    /// [`ServingError::Random`] if the system has no randomness.
    pub fn new(address: SocketAddr) -> Result<Self, ServingError> {
        let place = format!("{PREFIX}/~{}", secret()?);
        Ok(Self { address, token: secret()?, cookie: secret()?, place, hasher: Hasher::new()? })
    }

    /// Returns the address to open in a browser. It contains the token: print it to the user and
    /// nowhere else.
    pub fn url(&self) -> String {
        format!("http://{}{PREFIX}/?{TOKEN}={}", self.address, self.token)
    }

    /// Decides about a request. If the request gets through, this removes the secret part of its
    /// path.
    pub fn check(&self, parts: &mut Parts) -> Decision {
        let refuse = |status, message| Decision::Refuse { status, message };
        if let Err((status, message)) = check_origin(parts) {
            return refuse(status, message);
        }
        let query = parts.uri.query().unwrap_or_default();
        let pairs = || query.split('&').filter(|pair| !pair.is_empty());
        let token = |pair: &&str| {
            pair.split_once('=').filter(|(name, _)| *name == TOKEN).map(|(_, value)| value.to_owned())
        };
        if let Some(given) = pairs().find_map(|pair| token(&pair)) {
            if !self.is_same(&given, &self.token) {
                return refuse(
                    StatusCode::UNAUTHORIZED,
                    "The token is not that of this run. Open the address that was printed last.\n",
                );
            }
            let rest: Vec<&str> = pairs().filter(|pair| token(pair).is_none()).collect();
            let below = self.below_place(parts.uri.path());
            return self.exchange(below.unwrap_or(&parts.uri.path()[PREFIX.len()..]), &rest.join("&"));
        }
        let has_cookie =
            cookies(&parts.headers, &self.cookie_name()).any(|value| self.is_same(value, &self.cookie));
        match self.below_place(parts.uri.path()).filter(|_| has_cookie) {
            // The addresses in the page are relative to the path with a slash at its end.
            Some("") => self.exchange("", query),
            Some(below) => {
                let separator = if query.is_empty() { "" } else { "?" };
                match format!("{PREFIX}{below}{separator}{query}").parse() {
                    Ok(uri) => {
                        parts.uri = uri;
                        Decision::Admit
                    }
                    Err(_) => refuse(StatusCode::BAD_REQUEST, "The path is invalid.\n"),
                }
            }
            None => refuse(
                StatusCode::UNAUTHORIZED,
                "This browser has no cookie of this run. Open the address that was printed.\n",
            ),
        }
    }

    /// Returns the rest of a path after its secret part, or `None` if the secret is missing or
    /// wrong.
    fn below_place<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (place, below) = path.split_at_checked(self.place.len())?;
        ((below.is_empty() || below.starts_with('/')) && self.is_same(place, &self.place)).then_some(below)
    }

    /// Sets the cookie and redirects to a page.
    fn exchange(&self, below: &str, query: &str) -> Decision {
        let place = &self.place;
        let below = if below.is_empty() { "/" } else { below };
        let separator = if query.is_empty() { "" } else { "?" };
        let name = self.cookie_name();
        Decision::Exchange {
            location: format!("{place}{below}{separator}{query}"),
            cookie: format!("{name}={}; Path={place}; HttpOnly; SameSite=Strict", self.cookie),
        }
    }

    /// Returns a name that differs between two runs at the same time, so that neither replaces the
    /// other's cookie.
    fn cookie_name(&self) -> String {
        format!("kube-endpoints-{}", self.address.port())
    }

    /// Compares two secrets in a time that does not tell how much of them is the same.
    fn is_same(&self, one: &str, other: &str) -> bool {
        self.hasher.hash(one.as_bytes()) == self.hasher.hash(other.as_bytes())
    }
}

/// Checks what needs no token: that the request is a `GET` of a page and comes from a page of this
/// server, or from the address bar.
///
/// # Errors
///
/// The status and the text of the answer that refuses it.
pub(crate) fn check_origin(parts: &Parts) -> Result<(), (StatusCode, &'static str)> {
    let Some(host) = own_host(parts) else {
        let message = "The host of the request is not this server. Open the address that was printed.\n";
        return Err((StatusCode::FORBIDDEN, message));
    };
    if !is_own_page(&parts.headers, &host) {
        let message = "Requests of other web pages are refused. Paste the address that was printed into the address bar.\n";
        return Err((StatusCode::FORBIDDEN, message));
    }
    if !is_page(parts.uri.path()) {
        return Err((StatusCode::NOT_FOUND, "Only the status page under /ui/ is served here.\n"));
    }
    if parts.method != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "Only GET is allowed.\n"));
    }
    Ok(())
}

/// Adds the headers of every answer to a browser, which forbid to store the page, to frame it, to
/// guess its type, and to name it to other sites.
pub fn add_browser_headers(headers: &mut HeaderMap) {
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Makes a secret of hexadecimal digits.
#[expect(clippy::disallowed_types, reason = "the seed is in the log and would reveal the token")]
fn secret() -> Result<String, ServingError> {
    let mut bytes = [0_u8; SECRET_BYTES];
    ring::rand::SystemRandom::new().fill(&mut bytes).map_err(|_| ServingError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the host that the request names, if only this machine has it. The port may differ from
/// the listener's, as it does behind a forwarded port.
fn own_host(parts: &Parts) -> Option<String> {
    let headers = parts.headers.get_all(HOST).iter().map(|value| value.to_str().ok().map(str::to_owned));
    let uri = parts.uri.authority().map(|authority| Some(authority.to_string()));
    let mut hosts: Vec<String> = uri.into_iter().chain(headers).collect::<Option<_>>()?;
    hosts.dedup();
    let [host] = <[String; 1]>::try_from(hosts).ok()?;
    let authority: Authority = host.parse().ok().filter(|_| !host.contains('@'))?;
    let name = authority.host();
    let is_own = match name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    };
    is_own.then_some(host)
}

/// Returns true if the request comes from a page of this server, or from the address bar.
fn is_own_page(headers: &HeaderMap, host: &str) -> bool {
    let own_origin = format!("http://{host}");
    let all = |name: HeaderName, is_allowed: &dyn Fn(&str) -> bool| {
        headers.get_all(name).iter().all(|value| value.to_str().is_ok_and(is_allowed))
    };
    all(ORIGIN, &|origin| origin.eq_ignore_ascii_case(&own_origin))
        && all(HeaderName::from_static("sec-fetch-site"), &|site| matches!(site, "same-origin" | "none"))
}

/// Returns true if a path is that of a page, without escapes, empty segments, `.` and `..`.
fn is_page(path: &str) -> bool {
    let Some(rest) = path.strip_prefix(PREFIX) else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '/');
    let segments = rest.strip_suffix('/').unwrap_or(rest).split('/').skip(1);
    (rest.is_empty() || rest.starts_with('/'))
        && rest.chars().all(is_plain)
        && segments.into_iter().all(|segment| !matches!(segment, "" | "." | ".."))
}

/// Returns the values of the cookies of a name.
fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).filter_map(move |pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> BrowserGuard {
        BrowserGuard::new(([127, 0, 0, 1], 4711).into()).unwrap()
    }

    /// Returns a request with these headers.
    fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut builder = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    /// Checks the status of the answer to a request with the cookie; 200 if the guard lets it
    /// through.
    #[track_caller]
    fn check(method: &str, uri: &str, headers: &[(&str, &str)], want: u16) {
        let guard = guard();
        let cookie = format!("theme=dark; {}={}", guard.cookie_name(), guard.cookie);
        let headers: Vec<_> = headers.iter().copied().chain([("cookie", &*cookie)]).collect();
        // Pages are requested below the secret path.
        let below =
            uri.strip_prefix(PREFIX).filter(|below| below.is_empty() || below.starts_with(['/', '?']));
        let uri = &below.map_or_else(|| uri.to_owned(), |below| format!("{}{below}", guard.place));
        let status = match guard.check(&mut request(method, uri, &headers)) {
            Decision::Admit => 200,
            Decision::Exchange { .. } => 303,
            Decision::Refuse { status, message } => {
                assert!(message.ends_with(".\n"), "{message}");
                status.as_u16()
            }
        };
        assert_eq!(status, want, "{method} {uri} {headers:?}");
    }

    const OWN: (&str, &str) = ("host", "127.0.0.1:4711");

    #[test]
    fn pages_are_let_through_with_the_cookie() {
        for uri in ["/ui/", "/ui/events", "/ui/explain?namespace=shop&name=web%20", "/ui/a.b-c_d~e/"] {
            check("GET", uri, &[OWN], 200);
        }
        check("GET", "/ui", &[OWN], 303);
    }

    #[test]
    fn only_get_of_pages_is_let_through() {
        for uri in [
            "/",
            "/metrics",
            "/uix",
            "/ui/../metrics",
            "/ui//x",
            "/ui/./x",
            "/ui/%2e%2e/metrics",
            "/ui/a%2fb",
            "/ui/..",
        ] {
            check("GET", uri, &[OWN], 404);
        }
        for method in ["POST", "HEAD", "OPTIONS", "DELETE"] {
            check(method, "/ui/", &[OWN], 405);
        }
    }

    #[test]
    fn foreign_hosts_are_refused() {
        for host in ["localhost:4711", "LOCALHOST", "127.0.0.1", "[::1]:4711", "127.9.9.9:8080"] {
            check("GET", "/ui/", &[("host", host)], 200);
        }
        for host in [
            "evil.example",
            "evil.example:4711",
            "localhost.evil.example",
            "192.0.2.1:4711",
            "127.0.0.1.evil.example",
            "localhost.",
            "user@localhost",
            "",
        ] {
            check("GET", "/ui/", &[("host", host)], 403);
        }
        check("GET", "/ui/", &[], 403);
        check("GET", "/ui/", &[OWN, ("host", "evil.example")], 403);
        check("GET", "http://evil.example/ui/", &[OWN], 403);
    }

    #[test]
    fn requests_of_other_pages_are_refused() {
        check("GET", "/ui/", &[OWN, ("origin", "http://127.0.0.1:4711")], 200);
        for origin in ["null", "http://evil.example", "http://127.0.0.1:4712", "https://127.0.0.1:4711"] {
            check("GET", "/ui/", &[OWN, ("origin", origin)], 403);
        }
        for (site, want) in [("none", 200), ("same-origin", 200), ("same-site", 403), ("cross-site", 403)] {
            check("GET", "/ui/", &[OWN, ("sec-fetch-site", site)], want);
        }
    }

    #[test]
    fn the_token_is_exchanged_for_a_cookie() {
        let guard = guard();
        let url = guard.url();
        assert!(url.starts_with("http://127.0.0.1:4711/ui/?token="), "{url}");
        let uri = url.strip_prefix("http://127.0.0.1:4711").unwrap();
        let exchange = |uri: &str| match guard.check(&mut request("GET", uri, &[OWN])) {
            Decision::Exchange { location, cookie } => (location, cookie),
            decision => panic!("{decision:?}"),
        };
        let place = &guard.place;
        let (location, cookie) = exchange(uri);
        assert_eq!(location, format!("{place}/"));
        let (pair, attributes) = cookie.split_once("; ").unwrap();
        assert_eq!(attributes, format!("Path={place}; HttpOnly; SameSite=Strict"));
        assert!(!cookie.contains(&guard.token));
        let mut inside = request("GET", &format!("{place}/explain?a=1"), &[OWN, ("cookie", pair)]);
        assert_eq!(guard.check(&mut inside), Decision::Admit);
        assert_eq!(inside.uri, "/ui/explain?a=1");
        for uri in [
            format!("/ui/explain?a=1&token={}&b=2", guard.token),
            format!("{place}/explain?a=1&b=2&token={}", guard.token),
        ] {
            assert_eq!(exchange(&uri).0, format!("{place}/explain?a=1&b=2"));
        }
        assert_eq!(exchange(&format!("/ui?token={}", guard.token)).0, format!("{place}/"));
    }

    /// Otherwise the browser would send the cookie to other servers of the machine, too.
    #[test]
    fn pages_are_below_a_path_that_no_other_page_knows() {
        let (guard, other) = (guard(), guard());
        let cookie = format!("{}={}", guard.cookie_name(), guard.cookie);
        for uri in ["/ui/", "/ui/explain", &format!("{}/", other.place), &format!("{}x/", guard.place)] {
            let decision = guard.check(&mut request("GET", uri, &[OWN, ("cookie", &cookie)]));
            let status = StatusCode::UNAUTHORIZED;
            assert!(matches!(decision, Decision::Refuse { status: found, .. } if found == status), "{uri}");
        }
    }

    #[test]
    fn another_token_or_cookie_is_refused() {
        let (guard, other) = (guard(), guard());
        let status = |guard: &BrowserGuard, uri: &str, cookie: &str| match guard.check(&mut request(
            "GET",
            &uri.replacen(PREFIX, &guard.place, 1),
            &[OWN, ("cookie", cookie)],
        )) {
            Decision::Refuse { status, .. } => status.as_u16(),
            decision => panic!("{decision:?}"),
        };
        let name = guard.cookie_name();
        for (uri, cookie) in [
            ("/ui/", String::new()),
            ("/ui/", format!("{name}={}", other.cookie)),
            ("/ui/", format!("{name}={}", guard.token)),
            ("/ui/", format!("other={}", guard.cookie)),
            ("/ui/?token=", String::new()),
            ("/ui/?token=0", format!("{name}={}", guard.cookie)),
        ] {
            assert_eq!(status(&guard, uri, &cookie), 401, "{uri} {cookie}");
        }
        let uri = format!("/ui/?token={}", other.token);
        assert_eq!(status(&guard, &uri, ""), 401);
    }

    #[test]
    fn secrets_are_long_and_differ() {
        let (one, other) = (guard(), guard());
        let mut all: Vec<&str> = [&one, &other]
            .iter()
            .flat_map(|it| [&*it.token, &*it.cookie, &it.place[PREFIX.len() + 2..]])
            .collect();
        assert!(all.iter().all(|secret| secret.len() == 64));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 6);
        assert!(!format!("{one:?}").contains(&one.token));
    }
}

//! Users that an authenticating proxy names in headers. Upstream:
//! `pkg/authentication/request/headerrequest`.
//!
//! The server believes the headers only on a connection whose client certificate the front proxy's
//! CA has signed, and whose common name is allowed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::authentication::Unauthorized;
use crate::user::User;

/// The headers in which a front proxy names the user, and the common names that its certificate may
/// have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Headers with the name of the user (`--requestheader-username-headers`). The first one that
    /// is not empty counts.
    pub username: Vec<String>,
    /// Headers with the uid of the user (`--requestheader-uid-headers`). The first one that is not
    /// empty counts.
    pub uid: Vec<String>,
    /// Headers with a group of the user (`--requestheader-group-headers`). All values count.
    pub group: Vec<String>,
    /// Beginnings of headers with extra attributes of the user
    /// (`--requestheader-extra-headers-prefix`).
    pub extra_prefixes: Vec<String>,
    /// The common names of a front proxy's certificates (`--requestheader-allowed-names`). An empty
    /// list allows every certificate that the CA has signed.
    pub allowed_names: Vec<String>,
}

/// A front proxy whose CA is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontProxyOptions {
    /// The CA of the proxy's certificate (`--requestheader-client-ca-file`).
    pub client_ca_file: PathBuf,
    /// The headers, and the names of the proxy.
    pub headers: RequestHeaders,
}

impl RequestHeaders {
    /// Reads the headers that kube-apiserver publishes in the ConfigMap
    /// `extension-apiserver-authentication`: a JSON array of strings for each field, with the name
    /// of the flag as its key. A missing field is empty.
    ///
    /// # Errors
    ///
    /// A text that names the field that is no such array.
    pub(crate) fn of_config_map(data: &Value) -> Result<Self, String> {
        let list = |key: &str| -> Result<Vec<String>, String> {
            match data[key].as_str().unwrap_or_default() {
                "" => Ok(Vec::new()),
                text => serde_json::from_str(text).map_err(|error| {
                    format!("has a value for {key} that is no JSON array of strings: {error}")
                }),
            }
        };
        Ok(Self {
            username: list("requestheader-username-headers")?,
            uid: list("requestheader-uid-headers")?,
            group: list("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?,
            allowed_names: list("requestheader-allowed-names")?,
        })
    }

    /// Returns true if a certificate with this common name may be a front proxy's.
    pub(crate) fn allow(&self, common_name: &str) -> bool {
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == common_name)
    }

    /// Returns the user that the headers name, if they name one. Call it only for the request of a
    /// front proxy.
    ///
    /// # Errors
    ///
    /// [`Unauthorized`] if a header is not UTF-8.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Result<Option<User>, Unauthorized> {
        let name = first(headers, &self.username)?;
        if name.is_empty() {
            return Ok(None);
        }
        let mut groups = Vec::new();
        for header in &self.group {
            for value in headers.get_all(header).iter().filter(|value| !value.is_empty()) {
                groups.push(text(value)?);
            }
        }
        Ok(Some(User { name, uid: first(headers, &self.uid)?, groups, extra: self.extra(headers)? }))
    }

    fn extra(&self, headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, Unauthorized> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        // An empty prefix would take every header, also those with secrets.
        for prefix in self.extra_prefixes.iter().filter(|prefix| !prefix.is_empty()) {
            for (header, value) in headers {
                // The names of headers are in lower case here.
                if let Some((start, key)) = header.as_str().split_at_checked(prefix.len())
                    && start.eq_ignore_ascii_case(prefix)
                {
                    extra.entry(unescaped(key)).or_default().push(text(value)?);
                }
            }
        }
        Ok(extra)
    }
}

/// Returns the first value of the first of these headers that is not empty.
fn first(headers: &HeaderMap, names: &[String]) -> Result<String, Unauthorized> {
    let values = names.iter().filter_map(|name| headers.get(name));
    values.filter(|value| !value.is_empty()).map(text).next().unwrap_or_else(|| Ok(String::new()))
}

fn text(value: &HeaderValue) -> Result<String, Unauthorized> {
    std::str::from_utf8(value.as_bytes()).map(str::to_owned).map_err(|_| Unauthorized)
}

/// Decodes percent escapes; a key with an invalid one stays as it is.
fn unescaped(key: &str) -> String {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    match percent_decode_str(key).decode_utf8() {
        Ok(decoded) if key.split('%').skip(1).all(is_escape) => decoded.into_owned(),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use serde_json::json;

    use super::*;

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    fn usual() -> RequestHeaders {
        RequestHeaders {
            username: list(&["X-Remote-User", "X-Other-User"]),
            uid: list(&["X-Remote-Uid"]),
            group: list(&["X-Remote-Group"]),
            extra_prefixes: list(&["X-Remote-Extra-", ""]),
            allowed_names: Vec::new(),
        }
    }

    fn user(headers: &[(&'static str, &[u8])]) -> Result<Option<User>, Unauthorized> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        usual().user(&map)
    }

    #[test]
    fn headers_name_the_user() {
        let got = user(&[
            ("authorization", b"Bearer secret"),
            ("x-remote-user", "zoë".as_bytes()),
            ("x-other-user", b"mallory"),
            ("x-remote-uid", b"7"),
            ("x-remote-group", b"one"),
            ("x-remote-group", b""),
            ("x-remote-group", b"two"),
            ("x-remote-extra-example.com%2fscopes", b"read"),
            ("x-remote-extra-example.com%2fscopes", b"write"),
            ("x-remote-extra-bad%2", b"x"),
        ]);
        let extra = [("example.com/scopes", list(&["read", "write"])), ("bad%2", list(&["x"]))];
        let expected = User {
            name: "zoë".to_owned(),
            uid: "7".to_owned(),
            groups: list(&["one", "two"]),
            extra: extra.into_iter().map(|(key, values)| (key.to_owned(), values)).collect(),
        };
        assert_eq!(got, Ok(Some(expected)));
    }

    #[test]
    fn without_a_name_there_is_no_user() {
        assert_eq!(user(&[("x-remote-group", b"system:masters")]), Ok(None));
        assert_eq!(user(&[("x-remote-user", b"")]), Ok(None));
        let second = user(&[("x-remote-user", b""), ("x-other-user", b"bob")]).unwrap().unwrap();
        assert_eq!(second.name, "bob");
        assert_eq!(user(&[("x-remote-user", b"\xff")]), Err(Unauthorized));
        assert_eq!(user(&[("x-remote-user", b"a"), ("x-remote-group", b"\xff")]), Err(Unauthorized));
        assert_eq!(RequestHeaders::default().user(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn the_config_map_holds_json_arrays() {
        let data = json!({
            "requestheader-username-headers": "[\"X-Remote-User\",\"X-Other-User\"]",
            "requestheader-uid-headers": "[\"X-Remote-Uid\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\",\"\"]",
            "requestheader-allowed-names": "[]",
        });
        assert_eq!(RequestHeaders::of_config_map(&data), Ok(usual()));
        assert_eq!(RequestHeaders::of_config_map(&json!({})), Ok(RequestHeaders::default()));
        for broken in ["x", "{}", "[1]", "null"] {
            let data = json!({"requestheader-allowed-names": broken});
            let error = RequestHeaders::of_config_map(&data).unwrap_err();
            assert!(error.contains("requestheader-allowed-names that is no JSON array"), "{error}");
        }
    }

    #[test]
    fn an_empty_list_allows_every_name() {
        let check = |allowed: &[&str], name: &str, want: bool| {
            let headers = RequestHeaders { allowed_names: list(allowed), ..usual() };
            assert_eq!(headers.allow(name), want, "{allowed:?} {name}");
        };
        check(&[], "anyone", true);
        check(&["front-proxy-client"], "front-proxy-client", true);
        check(&["front-proxy-client"], "Front-Proxy-Client", false);
        check(&["front-proxy-client"], "", false);
        check(&["a", "b"], "b", true);
    }
}

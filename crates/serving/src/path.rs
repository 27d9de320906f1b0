//! The path of a request, and the paths that need no authorization.

use percent_encoding::percent_decode_str;

/// Decodes the path of a request once, as Go does. Returns `None` if it does not begin with a
/// slash, an escape is incomplete, the result is no UTF-8, or it contains a control character.
///
/// The server compares this text with the open paths, asks the API server about it, and looks it up
/// in the table of pages, each time as a whole. It never normalises the text: `/healthz/../metrics`
/// is neither open nor a page.
pub(crate) fn decode(path: &str) -> Option<String> {
    let mut escapes = path.split('%');
    escapes.next();
    let complete = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !path.starts_with('/') || !escapes.all(complete) {
        return None;
    }
    let path = percent_decode_str(path).decode_utf8().ok()?;
    (!path.chars().any(char::is_control)).then(|| path.into_owned())
}

/// Returns true if a path has no segments that another program might interpret: empty ones, `.` and
/// `..`.
fn is_plain(path: &str) -> bool {
    !path.contains('\\') && path.split('/').skip(1).all(|segment| !matches!(segment, "" | "." | ".."))
}

/// An invalid value of `--authorization-always-allow-paths`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid path {0:?}: `*` is allowed only at the end, as in /healthz/*")]
pub struct InvalidOpenPath(String);

impl InvalidOpenPath {
    /// Returns the path.
    pub fn path(&self) -> &str {
        &self.0
    }
}

/// The paths that anybody may read: `--authorization-always-allow-paths`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPaths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl Default for OpenPaths {
    /// `/healthz`, `/readyz` and `/livez`, without the paths of single checks.
    fn default() -> Self {
        let exact = ["healthz", "readyz", "livez"].map(str::to_owned).to_vec();
        Self { exact, prefixes: Vec::new() }
    }
}

impl OpenPaths {
    /// Parses paths. A path matches only itself; one that ends in `*` matches every path that
    /// begins with the text before the `*`. The slash at the beginning is optional.
    ///
    /// # Errors
    ///
    /// [`InvalidOpenPath`] if a `*` is not at the end.
    pub fn parse<T: AsRef<str>>(paths: &[T]) -> Result<Self, InvalidOpenPath> {
        let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
        for path in paths.iter().map(AsRef::as_ref) {
            let relative = path.strip_prefix('/').unwrap_or(path);
            let (start, is_prefix) = match relative.strip_suffix('*') {
                Some(start) => (start, true),
                None => (relative, false),
            };
            if start.contains('*') {
                return Err(InvalidOpenPath(path.to_owned()));
            }
            if is_prefix { &mut prefixes } else { &mut exact }.push(start.to_owned());
        }
        Ok(Self { exact, prefixes })
    }

    /// Returns the paths, with a slash at the beginning of each.
    pub fn paths(&self) -> Vec<String> {
        let exact = self.exact.iter().map(|path| format!("/{path}"));
        exact.chain(self.prefixes.iter().map(|prefix| format!("/{prefix}*"))).collect()
    }

    /// Returns true if anybody may read this decoded path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let relative = path.strip_prefix('/').unwrap_or(path);
        self.exact.iter().any(|exact| exact == relative)
            || is_plain(path) && self.prefixes.iter().any(|prefix| relative.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_once() {
        let check =
            |path: &str, expected: Option<&str>| assert_eq!(decode(path).as_deref(), expected, "{path}");
        check("/metrics", Some("/metrics"));
        check("/m%65trics", Some("/metrics"));
        check("/livez%2fping", Some("/livez/ping"));
        check("/%252e%252e/metrics", Some("/%2e%2e/metrics"));
        check("/healthz/%2e%2e/metrics", Some("/healthz/../metrics"));
        check("/%C3%A4", Some("/ä"));
        for invalid in ["", "*", "metrics", "/%", "/%2", "/%zz", "/%+1", "/%ff", "/healthz%00", "/healthz%0a"]
        {
            check(invalid, None);
        }
    }

    #[test]
    fn only_the_open_paths_are_open() {
        let check = |paths: &[&str], path: &str, expected: bool| {
            assert_eq!(OpenPaths::parse(paths).unwrap().contains(path), expected, "{paths:?} {path}");
        };
        for closed in
            ["/", "/healthz/", "//healthz", "/healthz/ping", "/healthzz", "/Healthz", "/metrics", ""]
        {
            assert!(!OpenPaths::default().contains(closed), "{closed}");
        }
        for open in ["/healthz", "/livez", "/readyz"] {
            assert!(OpenPaths::default().contains(open), "{open}");
        }
        check(&["livez"], "/livez", true);
        check(&["/livez/*"], "/livez/ping", true);
        check(&["/livez/*"], "/livez", false);
        check(&["/livez*"], "/livez", true);
        check(&["*"], "/metrics", true);
        check(&["/"], "/", true);
        check(&["/"], "/metrics", false);
        check(&[], "/healthz", false);
        for trick in
            ["/livez/../metrics", "/livez/./metrics", "/livez//metrics", "/livez/..\\metrics", "/livez/"]
        {
            check(&["/livez/*"], trick, false);
        }
    }

    #[test]
    fn a_star_is_allowed_only_at_the_end() {
        for invalid in ["/a*b", "*/a", "/a**"] {
            assert!(OpenPaths::parse(&[invalid]).is_err(), "{invalid}");
        }
    }
}

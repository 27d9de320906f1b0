//! Puts the address of the server before the path of each request.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};
use tower::{Layer, Service};

/// Adds the address. kube's `BaseUriLayer` does the same, but formats and parses the address for
/// each request.
#[derive(Clone, Debug)]
pub(crate) struct AtServerLayer(Arc<Address>);

#[derive(Debug)]
struct Address {
    scheme: Option<Scheme>,
    authority: Option<Authority>,
    /// The beginning of all paths of this server, without a slash at its end.
    prefix: String,
}

impl AtServerLayer {
    pub(crate) fn new(server: &Uri) -> Self {
        Self(Arc::new(Address {
            scheme: server.scheme().cloned(),
            authority: server.authority().cloned(),
            prefix: server.path().trim_end_matches('/').to_owned(),
        }))
    }
}

impl Address {
    /// Leaves out a path that is too long with the prefix: no request may go beside the prefix.
    fn add_to(&self, uri: &mut Uri) {
        let mut parts = std::mem::take(uri).into_parts();
        if !self.prefix.is_empty() {
            let path = parts.path_and_query.as_ref().map_or("", PathAndQuery::as_str);
            let joined = format!("{}{path}", self.prefix).try_into().ok();
            parts.path_and_query = joined.or_else(|| self.prefix.as_str().try_into().ok());
        }
        parts.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
        (parts.scheme, parts.authority) = (self.scheme.clone(), self.authority.clone());
        // An address and a path make a URI.
        *uri = Uri::from_parts(parts).unwrap_or_default();
    }
}

impl<S> Layer<S> for AtServerLayer {
    type Service = AtServer<S>;

    fn layer(&self, inner: S) -> AtServer<S> {
        AtServer { address: Arc::clone(&self.0), inner }
    }
}

/// A service that adds the address of the server to requests.
#[derive(Clone, Debug)]
pub(crate) struct AtServer<S> {
    address: Arc<Address>,
    inner: S,
}

impl<S, B> Service<Request<B>> for AtServer<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        self.address.add_to(request.uri_mut());
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_follows_that_of_the_server() {
        let check = |server: &'static str, path: &'static str, want: &str| {
            let mut uri = Uri::from_static(path);
            AtServerLayer::new(&Uri::from_static(server)).0.add_to(&mut uri);
            assert_eq!(uri, want, "{server} {path}");
        };
        let host = "https://192.0.2.1:6443";
        check(host, "/api/v1/pods?limit=1", "https://192.0.2.1:6443/api/v1/pods?limit=1");
        check("https://192.0.2.1:6443/", "/api", "https://192.0.2.1:6443/api");
        check(
            "https://192.0.2.1/k8s/clusters/c-x//",
            "/api?a=/b",
            "https://192.0.2.1/k8s/clusters/c-x/api?a=/b",
        );
        check("http://[2001:db8::1]:80", "/", "http://[2001:db8::1]:80/");
        check(host, "https://192.0.2.9/api", "https://192.0.2.1:6443/api");
        check("/only/a/path", "/api", "/only/a/path/api");
    }

    #[test]
    fn a_path_that_is_too_long_stays_below_the_prefix() {
        let mut uri: Uri = format!("/{}", "x".repeat(65_530)).parse().unwrap();
        AtServerLayer::new(&Uri::from_static("https://192.0.2.1/prefix")).0.add_to(&mut uri);
        assert_eq!(uri, "https://192.0.2.1/prefix");
    }
}

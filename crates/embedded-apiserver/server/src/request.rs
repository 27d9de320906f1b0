//! The attributes of a request that follow from its method and path: verb, resource, namespace,
//! name.

use http::Method;
use http::request::Parts;
use kube_endpoint_apiserver_rules::resource::{self, Resource};

use crate::query::{Query, decode};

/// A parsed request, for fault matchers and the request log.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    pub method: Method,
    /// Path, still percent-encoded.
    pub path: String,
    /// The text after the question mark, still percent-encoded.
    pub query: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`; for
    /// non-resource paths the method in lower case, as in upstream's authorization.
    pub verb: &'static str,
    /// The resource, if the path names one.
    pub resource: Option<&'static Resource>,
    /// Such as `status`, or empty.
    pub subresource: String,
    /// Empty if there is none.
    pub namespace: String,
    /// Empty if there is none.
    pub name: String,
    /// The `User-Agent` header, or empty.
    pub user_agent: String,
    /// The name of the user whose token the request carries. Empty without a token that the server
    /// knows.
    pub user: String,
    /// The number of the [`Replica`](crate::Replica) that got it, or 0 for another server.
    pub replica: usize,
}

impl RequestInfo {
    /// Parses the head of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let agent = parts.headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok());
        let mut info = Self {
            method: parts.method.clone(),
            path: path.to_owned(),
            query: query.to_owned(),
            verb: plain_verb(&parts.method),
            resource: None,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            user_agent: agent.unwrap_or_default().to_owned(),
            user: String::new(),
            replica: 0,
        };
        info.locate();
        info
    }

    /// Returns the plural name of the resource, or the empty string.
    pub fn plural(&self) -> &'static str {
        self.resource.map_or("", |resource| resource.plural)
    }

    /// Returns the first value of a query parameter, decoded, or `None` if it is absent or empty.
    pub fn parameter(&self, name: &str) -> Option<String> {
        Query::parse(&self.query).get(name).map(str::to_owned)
    }

    /// Returns true if the request is to change something: the verb is a write, and the query asks
    /// for no dry run.
    pub fn is_write(&self) -> bool {
        self.has_write_verb() && self.parameter("dryRun").is_none()
    }

    pub(crate) fn has_write_verb(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Returns the texts that a client chose.
    pub(crate) fn texts(&self) -> [&String; 6] {
        [&self.path, &self.query, &self.subresource, &self.namespace, &self.name, &self.user_agent]
    }

    /// Cuts each text after `max_bytes`.
    pub(crate) fn cut_texts(&mut self, max_bytes: usize) {
        let texts = [
            &mut self.path,
            &mut self.query,
            &mut self.subresource,
            &mut self.namespace,
            &mut self.name,
            &mut self.user_agent,
        ];
        for text in texts.into_iter().filter(|text| text.len() > max_bytes) {
            let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or_default());
            text.shrink_to_fit();
        }
    }

    fn locate(&mut self) {
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let segments: Vec<String> = path.split('/').map(decode).collect();
        let parts: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, mut rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return,
        };
        // The old form of watches, such as `/api/v1/watch/pods`.
        let watches = rest.first() == Some(&"watch");
        if watches {
            rest = &rest[1..];
        }
        let of = |plural: &str| resource::by_path(group, version, plural);
        let (namespace, plural, name, subresource) = match rest {
            ["namespaces", name, "status" | "finalize"] => ("", "namespaces", *name, rest[2]),
            ["namespaces", namespace, plural] => (*namespace, *plural, "", ""),
            ["namespaces", namespace, plural, name] => (*namespace, *plural, *name, ""),
            ["namespaces", namespace, plural, name, subresource] => {
                (*namespace, *plural, *name, *subresource)
            }
            [plural] => ("", *plural, "", ""),
            [plural, name] => ("", *plural, *name, ""),
            [plural, name, subresource] => ("", *plural, *name, *subresource),
            _ => return,
        };
        // A namespaced resource needs a namespace, except to list all namespaces; a cluster-scoped
        // one must not have one.
        let found = of(plural).filter(|resource| {
            if resource.namespaced { !namespace.is_empty() || name.is_empty() } else { namespace.is_empty() }
        });
        if found.is_some() {
            self.resource = found;
            (self.namespace, self.name) = (namespace.to_owned(), name.to_owned());
            self.subresource = subresource.to_owned();
            self.verb = match (watches, &self.method) {
                (true, &Method::GET) => "watch",
                (true, _) => "other",
                (false, _) => self.resource_verb(&Query::parse(&self.query)),
            };
        }
    }

    fn resource_verb(&self, query: &Query) -> &'static str {
        match (&self.method, self.name.is_empty()) {
            (&Method::GET, true) if query.flag("watch") => "watch",
            (&Method::GET, true) => "list",
            (&Method::GET, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "deletecollection",
            (&Method::DELETE, false) => "delete",
            (method, _) => plain_verb(method),
        }
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, uri: &str, expected: &str) {
        let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let info = RequestInfo::of(&parts);
        let text = format!(
            "{} {} {}/{}/{}",
            info.verb,
            info.resource.map_or("-".to_owned(), Resource::group_resource),
            info.namespace,
            info.name,
            info.subresource
        );
        assert_eq!(text, expected, "{method} {uri}");
    }

    #[test]
    fn a_dry_run_is_no_write() {
        let is_write = |method: &str, query: &str| {
            let uri = format!("/api/v1/namespaces/a/pods/b{query}");
            let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
            RequestInfo::of(&parts).is_write()
        };
        assert!(is_write("DELETE", "") && is_write("PUT", "?fieldManager=x"));
        assert!(!is_write("DELETE", "?dryRun=All") && !is_write("GET", ""));
    }

    #[test]
    fn paths_and_methods_make_verbs() {
        check("GET", "/api/v1/pods", "list pods //");
        check("GET", "/api/v1/pods?watch=1", "watch pods //");
        check("GET", "/api/v1/watch/pods", "watch pods //");
        check("GET", "/api/v1/watch/namespaces/a/pods/b", "watch pods a/b/");
        check("DELETE", "/api/v1/watch/namespaces/a/pods/b", "other pods a/b/");
        check("GET", "/api/v1/namespaces/a/pods/b?watch=1", "get pods a/b/");
        check("HEAD", "/api/v1/pods", "head pods //");
        check("GET", "//api/v1/pods", "get - //");
        check("GET", "/api//v1/pods", "get - //");
        check("GET", "/api/v1/namespaces/a/pods", "list pods a//");
        check("GET", "/api/v1/namespaces/a/pods/b", "get pods a/b/");
        check("PATCH", "/api/v1/namespaces/a/pods/b/status", "patch pods a/b/status");
        check("POST", "/api/v1/namespaces/a/services", "create services a//");
        check("DELETE", "/api/v1/namespaces/a/services", "deletecollection services a//");
        check("DELETE", "/api/v1/namespaces/a", "delete namespaces /a/");
        check("PUT", "/api/v1/namespaces/a/status", "update namespaces /a/status");
        check("PUT", "/api/v1/namespaces/a/finalize", "update namespaces /a/finalize");
        check("GET", "/api/v1/nodes/n", "get nodes /n/");
        check(
            "GET",
            "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/b%2Dc",
            "get endpointslices.discovery.k8s.io a/b-c/",
        );
    }

    #[test]
    fn unknown_paths_are_not_found() {
        check("GET", "/api/v1/pods/b", "get - //");
        check("GET", "/api/v1/namespaces/a/nodes", "get - //");
        check("GET", "/apis/apps/v1/deployments", "get - //");
        check("GET", "/healthz", "get - //");
        check("POST", "/", "post - //");
    }
}

//! Answers the requests of a client from files, as an API server does. It forbids to read kinds
//! that are not in the files, for a reason of its own.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, Uri};
use kube::Client;
use kube::client::Body;
use kube_endpoint_apiserver_rules::resource;
use kube_endpoint_apiserver_rules::selector::{FieldSelector, LabelSelector, field_value};
use kube_endpoint_explain_reader::{IN_PART, NOT_IN_FILES};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::kind::{Kind, Stored};
use super::{DEFAULT_NAMESPACE, Files};

/// A request for an object or a list.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    group: String,
    plural: String,
    namespace: Option<String>,
    name: Option<String>,
}

/// An error as a server answers it.
struct Refused {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Refused {
    fn not_in_files() -> Self {
        Self { code: StatusCode::FORBIDDEN, reason: NOT_IN_FILES, message: "not in the files".to_owned() }
    }

    /// Refuses a kind that is in the files, but not with all of its objects.
    fn in_part(kind: &Kind) -> Self {
        match kind.has_objects() {
            true => {
                Self { reason: IN_PART, message: "in the files in part".to_owned(), ..Self::not_in_files() }
            }
            false => Self::not_in_files(),
        }
    }

    fn bad(message: String) -> Self {
        Self { code: StatusCode::BAD_REQUEST, reason: "BadRequest", message }
    }
}

impl Files {
    /// Returns a client that reads the files.
    pub(crate) fn client(self: &Arc<Self>) -> Client {
        let files = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            ready(Ok::<_, Infallible>(files.respond(request.method(), request.uri())))
        });
        Client::new(service, DEFAULT_NAMESPACE)
    }

    fn respond(&self, method: &Method, uri: &Uri) -> Response<Body> {
        let answer = if method == Method::GET { self.answer(uri) } else { Err(Refused::not_in_files()) };
        let (code, text) = match answer {
            Ok(text) => (StatusCode::OK, text),
            Err(Refused { code, reason, message }) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": message, "reason": reason, "code": code.as_u16(),
                });
                (code, status.to_string())
            }
        };
        let mut response = Response::new(Body::from(text.into_bytes()));
        *response.status_mut() = code;
        response
    }

    fn answer(&self, uri: &Uri) -> Result<String, Refused> {
        let asked = asked(uri.path()).ok_or_else(Refused::not_in_files)?;
        let kind = self.kinds.get(&(asked.group, asked.plural)).ok_or_else(Refused::not_in_files)?;
        let namespace = asked.namespace.as_deref();
        if let Some(name) = &asked.name {
            return match kind.get(namespace, name) {
                Some(object) => Ok(object.json.to_string()),
                None if self.is_known(kind) && !may_be_elsewhere(kind, namespace) => Err(Refused {
                    code: StatusCode::NOT_FOUND,
                    reason: "NotFound",
                    message: format!("{} {name:?} not found", kind.plural),
                }),
                None => Err(Refused::in_part(kind)),
            };
        }
        if !self.is_known(kind) {
            return Err(Refused::in_part(kind));
        }
        list(kind, namespace, uri.query().unwrap_or_default())
    }
}

/// Returns true if an object may be in a namespace that the files do not have: manifests of a
/// program may name a Gateway of the cluster.
fn may_be_elsewhere(kind: &Kind, namespace: Option<&str>) -> bool {
    let is_other = |(own, _): &(Box<str>, Box<str>)| namespace != Some(&**own);
    kind.plural == "gateways" && !kind.is_complete && !kind.has_stored && kind.objects.keys().all(is_other)
}

/// Returns what a path asks for, or `None` if it is none of objects.
fn asked(path: &str) -> Option<Asked> {
    let words: Vec<String> = path
        .trim_matches('/')
        .split('/')
        .map(|word| percent_decode_str(word).decode_utf8_lossy().into())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (group, rest) = match &*words {
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let (plural, name) = match rest {
        [plural] => (*plural, None),
        [plural, name] => (*plural, Some((*name).to_owned())),
        _ => return None,
    };
    Some(Asked { group: group.to_owned(), plural: plural.to_owned(), namespace, name })
}

/// Returns a page of a list. The token of the next page is the number of objects before it.
fn list(kind: &Kind, namespace: Option<&str>, query: &str) -> Result<String, Refused> {
    let parameter = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        percent_decode_str(&value.unwrap_or_default().replace('+', " ")).decode_utf8_lossy().into_owned()
    };
    // Kinds that the rules do not know have the fields that all have.
    let resource = kind.resource.unwrap_or(&resource::ENDPOINT_SELECTORS);
    let labels =
        LabelSelector::parse(&parameter("labelSelector")).map_err(|why| Refused::bad(why.message))?;
    let fields = FieldSelector::parse(resource, &parameter("fieldSelector"))
        .map_err(|why| Refused::bad(why.message))?;
    let is_asked = |object: &Stored| {
        let has_labels = labels.matches(|label| object.label(label));
        has_labels
            && (fields.is_everything() || {
                let value = object.value();
                fields.matches(|field| Some(field_value(resource, &value, field)))
            })
    };
    let first = parameter("continue").parse().unwrap_or(0);
    let limit = parameter("limit").parse().ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let in_namespace = kind.objects.iter().filter(|((own, _), _)| namespace.is_none_or(|it| **own == *it));
    let mut found = in_namespace.map(|(_, object)| object).filter(|object| is_asked(object)).skip(first);
    let page: Vec<&str> = found.by_ref().take(limit).map(|object| &*object.json).collect();
    let more = match found.next() {
        Some(_) => format!(r#""continue":"{}""#, first + page.len()),
        None => String::new(),
    };
    Ok(format!(
        r#"{{"kind":"{}List","apiVersion":"{}","metadata":{{{more}}},"items":[{}]}}"#,
        kind.kind,
        kind.api_version,
        page.join(",")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_an_api_server() {
        let of = |path: &str| {
            let Asked { group, plural, namespace, name } = asked(path)?;
            Some(format!("{group}|{plural}|{}|{}", namespace.unwrap_or_default(), name.unwrap_or_default()))
        };
        assert_eq!(of("/api/v1/pods").as_deref(), Some("|pods||"));
        assert_eq!(of("/api/v1/namespaces/shop").as_deref(), Some("|namespaces||shop"));
        assert_eq!(of("/api/v1/namespaces/shop/pods/web%2D1").as_deref(), Some("|pods|shop|web-1"));
        let slices = of("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices");
        assert_eq!(slices.as_deref(), Some("discovery.k8s.io|endpointslices|shop|"));
        assert_eq!(of("/version"), None);
    }
}

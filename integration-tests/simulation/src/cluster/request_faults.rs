//! Counts the requests of the managers by class, and finds those at which a fault is due.

use std::collections::BTreeMap;

use http::header::USER_AGENT;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;

use crate::history::{Kind, Process, RequestClass, RequestFault, Verb};
use crate::text::Field;

/// The requests of a class that are counted.
const MOST_COUNTED: u8 = 3;

/// A fault that is due at a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) class: RequestClass,
    pub(super) fault: RequestFault,
    /// True if the server handles the request first.
    pub(super) handled: bool,
}

impl Due {
    /// Returns the text of the fault for the transcript.
    pub(super) fn text(&self) -> String {
        let when = if self.handled { "after" } else { "before" };
        format!("{} {when} {}", self.fault.word(), self.class.write())
    }
}

/// The faults that are still to be injected, and the requests so far.
#[derive(Debug, Default)]
pub(crate) struct RequestFaults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The steps that are still to come, with the number of requests left until then.
    armed: Vec<(u8, Process)>,
    /// The requests of each class, up to [`MOST_COUNTED`].
    seen: BTreeMap<RequestClass, u8>,
}

impl RequestFaults {
    /// Adds a step.
    pub(crate) fn arm(&self, step: &Process) {
        if let Process::AtRequest { nth, .. } = step {
            self.0.lock().armed.push((*nth, step.clone()));
        }
    }

    /// Counts a request. Returns the fault that is due at it.
    pub(super) fn count(&self, class: RequestClass) -> Option<Due> {
        let State { armed, seen } = &mut *self.0.lock();
        let is_here = |step: &Process| matches!(step, Process::AtRequest { request: at, .. } if *at == class);
        for (left, _) in armed.iter_mut().filter(|(_, step)| is_here(step)) {
            *left = left.saturating_sub(1);
        }
        let due = armed.iter().position(|(left, step)| *left == 0 && is_here(step));
        let due = due.and_then(|due| match armed.remove(due).1 {
            Process::AtRequest { request: class, handled, fault, .. } => Some(Due { class, fault, handled }),
            _ => None,
        });
        let seen = seen.entry(class).or_default();
        *seen = (*seen + 1).min(MOST_COUNTED);
        due
    }

    /// Ends the counting. Returns the steps that never came, and the number of requests of each
    /// class, up to [`MOST_COUNTED`].
    pub(crate) fn end(&self) -> (Vec<String>, BTreeMap<RequestClass, u8>) {
        let State { armed, seen } = std::mem::take(&mut *self.0.lock());
        (armed.iter().map(|(_, step)| step.to_string()).collect(), seen)
    }
}

/// Returns the class of a request of a manager, and the request. The class is `None` for a request
/// that no history can name, such as one for the version of the server.
pub(super) async fn class_of(request: Request<Body>) -> (Option<RequestClass>, Request<Body>) {
    let (parts, mut body) = request.into_parts();
    let path: Vec<&str> = parts.uri.path().split('/').collect();
    let Some(at) = path.iter().position(|part| Kind::read(part).is_some()) else {
        return (None, Request::from_parts(parts, body));
    };
    let namespace = match path[..at] {
        [.., "namespaces", namespace] => namespace,
        _ => "",
    };
    let mut name = path.get(at + 1).copied().unwrap_or_default().to_owned();
    if parts.method == Method::POST {
        let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        name = name_in(&bytes).unwrap_or_default();
        body = bytes.into();
    }
    let is_watch = parts.uri.query().is_some_and(|query| query.contains("watch=true"));
    let verb = match parts.method {
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ if !name.is_empty() => Verb::Get,
        _ if is_watch => Verb::Watch,
        _ => Verb::List,
    };
    // The name of a slice, and that of an event, begins with the name of the Service.
    let owner = name.split(['-', '.']).next().unwrap_or_default();
    let class = Kind::read(path[at]).map(|kind| RequestClass {
        verb,
        kind,
        controller: controller_of(&parts.headers),
        object: format!("{namespace}/{owner}"),
    });
    (class, Request::from_parts(parts, body))
}

/// Returns the end of a user agent, which names the controller. That of informers names none.
fn controller_of(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let last = agent.split(' ').next_back().unwrap_or_default();
    if last.contains('/') { "informer" } else { last }.to_owned()
}

/// Returns the name of the object in the body of a create, which is JSON or protobuf.
fn name_in(body: &[u8]) -> Option<String> {
    if let Some(envelope) = body.strip_prefix(b"k8s\0") {
        // runtime.Unknown has the object in field 2; the object has its metadata, and these have
        // the name, in field 1.
        let name = field(field(field(envelope, 2)?, 1)?, 1)?;
        return String::from_utf8(name.to_vec()).ok();
    }
    let object: Value = serde_json::from_slice(body).ok()?;
    object.pointer("/metadata/name")?.as_str().map(str::to_owned)
}

/// Returns the first field with a number in a protobuf message, if it and all before it have a
/// length.
fn field(mut message: &[u8], number: u64) -> Option<&[u8]> {
    loop {
        let (tag, rest) = varint(message)?;
        let (length, rest) = varint(rest)?;
        let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        if tag & 7 != 2 {
            return None;
        }
        if tag >> 3 == number {
            return Some(value);
        }
        message = rest;
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> RequestClass {
        RequestClass::read(text).unwrap()
    }

    #[test]
    fn a_fault_is_due_once_at_the_request_with_its_number() {
        let faults = RequestFaults::default();
        let step: Process =
            "at-request request=update:endpoints:x:team/s1 nth=2 handled=true fault=killed".parse().unwrap();
        faults.arm(&step);
        let here = class("update:endpoints:x:team/s1");
        assert_eq!(faults.count(here.clone()), None);
        assert_eq!(faults.count(class("update:endpoints:x:team/s2")), None);
        let due = Due { class: here.clone(), fault: RequestFault::Killed, handled: true };
        assert_eq!(faults.count(here.clone()), Some(due));
        assert_eq!(faults.count(here.clone()), None);
        faults.arm(&step);
        let (left, seen) = faults.end();
        assert_eq!((left, seen[&here]), (vec![step.to_string()], 3));
    }

    #[track_caller]
    fn check_class(method: &str, uri: &str, body: &[u8], want: Option<&str>) {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header(USER_AGENT, "a1 kube-endpoint-manager/1 x").body(body.to_vec().into());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (found, request) = runtime.block_on(class_of(request.unwrap()));
        assert_eq!(found, want.map(class), "{method} {uri}");
        let left = runtime.block_on(request.into_body().collect()).unwrap().to_bytes();
        assert_eq!(left, body, "the body stays");
    }

    #[test]
    fn requests_have_classes() {
        let slices = "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices";
        check_class("GET", "/api/v1/pods?watch=true", b"", Some("watch:pods:x:/"));
        check_class("GET", "/api/v1/pods?limit=500", b"", Some("list:pods:x:/"));
        check_class("GET", "/api/v1/namespaces/team/endpoints/s1", b"", Some("get:endpoints:x:team/s1"));
        check_class("PUT", &format!("{slices}/s1-abc"), b"{}", Some("update:endpointslices:x:team/s1"));
        check_class("DELETE", &format!("{slices}/s1-abc"), b"", Some("delete:endpointslices:x:team/s1"));
        let json = br#"{"metadata":{"name":"s2-abc"}}"#;
        check_class("POST", slices, json, Some("create:endpointslices:x:team/s2"));
        let protobuf = b"k8s\0\x0a\x02\x0a\0\x12\x09\x0a\x07\x0a\x05s3-xy";
        check_class("POST", slices, protobuf, Some("create:endpointslices:x:team/s3"));
        check_class("POST", slices, b"k8s\0\xff", Some("create:endpointslices:x:team/"));
        check_class("GET", "/version", b"", None);
    }
}

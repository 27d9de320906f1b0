//! Decodes list pages and watch events in JSON, and objects in either format, straight from the
//! bytes into views, one object at a time.

use std::borrow::Cow;

use kube::core::Status;
use kube_endpoint_core_model::protobuf::{self, Identity};
use kube_endpoint_core_model::{Interner, ObjectKey, ResourceVersion};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::Object;
use crate::error::{ListWatchError, excerpt, message};

/// The readable part of an object that cannot be decoded.
#[derive(Debug, PartialEq)]
pub(crate) struct Undecodable {
    /// Namespace and name, if there is a name.
    pub(crate) key: Option<ObjectKey>,
    /// Its version, or the default version if that is unreadable.
    pub(crate) resource_version: ResourceVersion,
    pub(crate) error: String,
}

/// A page of a list, without its items.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) resource_version: ResourceVersion,
    /// The continue token of the next page, or `None` on the last page.
    pub(crate) next: Option<String>,
}

/// An encoded object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw<'a> {
    Json(&'a RawValue),
    /// An object without its envelope.
    Protobuf(&'a [u8]),
}

/// One event of a watch, whose object is not decoded yet.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    Added(Raw<'a>),
    Modified(Raw<'a>),
    Deleted(Raw<'a>),
    Bookmark { resource_version: ResourceVersion, ends_initial_events: bool },
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    metadata: RawPageMeta,
    /// An API server always writes them: an empty list as `[]` or `null`.
    #[serde(borrow, default, deserialize_with = "items")]
    items: Option<Vec<&'a RawValue>>,
}

fn items<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    Option::<Vec<&RawValue>>::deserialize(deserializer).map(|items| Some(items.unwrap_or_default()))
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPageMeta {
    resource_version: ResourceVersion,
    r#continue: Option<String>,
}

#[derive(Deserialize)]
struct RawFrame<'a> {
    r#type: FrameType,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum FrameType {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
struct RawBookmark<'a> {
    #[serde(borrow)]
    metadata: RawBookmarkMeta<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBookmarkMeta<'a> {
    resource_version: ResourceVersion,
    #[serde(borrow, default)]
    annotations: Option<RawBookmarkAnnotations<'a>>,
}

#[derive(Deserialize)]
struct RawBookmarkAnnotations<'a> {
    #[serde(borrow, default, rename = "k8s.io/initial-events-end")]
    ends_initial_events: Option<Cow<'a, str>>,
}

/// The fields that identify the object. Serde skips everything else, however deeply it is nested.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawObject {
    metadata: RawObjectMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawObjectMeta {
    name: serde_json::Value,
    namespace: serde_json::Value,
    resource_version: serde_json::Value,
}

const NO_NAME: &str = "it has no name";

/// Returns the text of a response. Replaces invalid UTF-8, so that it affects one object and not
/// all of them.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Decodes a page of a list, and hands its items to `use_item` if it is one.
pub(crate) fn page<T: Object>(text: &str, use_item: impl FnMut(Raw<'_>)) -> Result<Page, ListWatchError> {
    let page: RawPage<'_> = serde_json::from_str(text).map_err(|error| invalid_response(&error, text))?;
    let list_kind = T::RESOURCE.list_kind;
    if page.kind == "Status" {
        return Err(status(text, 500));
    }
    if page.kind != list_kind {
        let kind = excerpt(page.kind.as_bytes());
        return Err(ListWatchError::InvalidResponse(format!(
            "received a {kind:?}, expected a {list_kind:?}"
        )));
    }
    let resource_version = page.metadata.resource_version;
    if resource_version.is_none() {
        return Err(ListWatchError::InvalidResponse(format!("the {list_kind} has no resourceVersion")));
    }
    let Some(items) = page.items else {
        return Err(ListWatchError::InvalidResponse(format!("the {list_kind} has no items")));
    };
    items.into_iter().map(Raw::Json).for_each(use_item);
    let next = page.metadata.r#continue.filter(|token| !token.is_empty());
    Ok(Page { resource_version, next })
}

/// Decodes a frame of a watch: a line of JSON. Returns an `ERROR` event as an error.
pub(crate) fn frame(text: &str) -> Result<Frame<'_>, ListWatchError> {
    let RawFrame { r#type, object } = match serde_json::from_str(text) {
        Ok(frame) => frame,
        // Some proxies and servers send a bare Status.
        Err(error) => {
            return Err(match serde_json::from_str::<RawPage<'_>>(text) {
                Ok(page) if page.kind == "Status" => status(text, 500),
                _ => invalid_response(&error, text),
            });
        }
    };
    Ok(match r#type {
        FrameType::Added => Frame::Added(Raw::Json(object)),
        FrameType::Modified => Frame::Modified(Raw::Json(object)),
        FrameType::Deleted => Frame::Deleted(Raw::Json(object)),
        FrameType::Bookmark => {
            let RawBookmark { metadata } =
                serde_json::from_str(object.get()).map_err(|error| invalid_response(&error, text))?;
            let ends = metadata.annotations.and_then(|annotations| annotations.ends_initial_events);
            let ends_initial_events = ends.as_deref() == Some("true");
            if ends_initial_events && metadata.resource_version.is_none() {
                return Err(ListWatchError::InvalidResponse(
                    "the bookmark that ends the initial events has no resourceVersion".to_owned(),
                ));
            }
            Frame::Bookmark { resource_version: metadata.resource_version, ends_initial_events }
        }
        FrameType::Error => return Err(status(object.get(), 500)),
    })
}

/// Decodes an object into its view and interns its strings.
pub(crate) fn object<T: Object>(raw: Raw<'_>, interner: &mut Interner) -> Result<T, Undecodable> {
    match raw {
        Raw::Json(raw) => json_object(raw, interner),
        Raw::Protobuf(bytes) => protobuf_object(bytes, interner),
    }
}

fn protobuf_object<T: Object>(bytes: &[u8], interner: &mut Interner) -> Result<T, Undecodable> {
    let error = match T::from_protobuf(bytes, interner) {
        Ok(view) if view.has_name() => return Ok(view),
        Ok(_) => NO_NAME.to_owned(),
        Err(error) => message(&error.to_string()),
    };
    let Identity { key, resource_version, .. } = protobuf::identity(bytes);
    Err(Undecodable { key, resource_version, error })
}

fn json_object<T: Object>(raw: &RawValue, interner: &mut Interner) -> Result<T, Undecodable> {
    let error = match serde_json::from_str::<T>(raw.get()) {
        Ok(mut view) if view.has_name() => {
            view.intern(interner);
            return Ok(view);
        }
        Ok(_) => NO_NAME.to_owned(),
        Err(error) => message(&error.to_string()),
    };
    // Only invalid objects need a second pass of the parser.
    let RawObject { metadata } = serde_json::from_str(raw.get()).unwrap_or_default();
    let name = metadata.name.as_str().filter(|name| !name.is_empty());
    let version = metadata.resource_version.as_str().and_then(|text| text.parse().ok());
    Err(Undecodable {
        key: name.map(|name| ObjectKey::new(metadata.namespace.as_str().unwrap_or_default(), name)),
        resource_version: version.unwrap_or_default(),
        error,
    })
}

/// Converts a `Status` to an error. If it has no code, the error gets `code`.
fn status(text: &str, code: u16) -> ListWatchError {
    match serde_json::from_str::<Status>(text) {
        Ok(status) if status.code == 0 => ListWatchError::from_status(Status { code, ..status }, None),
        Ok(status) => ListWatchError::from_status(status, None),
        Err(error) => invalid_response(&error, text),
    }
}

fn invalid_response(error: &serde_json::Error, text: &str) -> ListWatchError {
    ListWatchError::InvalidResponse(format!("{}: {}", message(&error.to_string()), excerpt(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::{EndpointSlice, Pod};

    use super::*;
    use crate::wire::protobuf_list::tests::field;

    fn raw(text: &str) -> Raw<'_> {
        Raw::Json(serde_json::from_str(text).unwrap())
    }

    fn page<T: Object>(text: &str) -> Result<Page, ListWatchError> {
        super::page::<T>(text, |_| ())
    }

    /// The store finds the last view of the object by its name.
    #[test]
    fn an_object_that_is_nested_too_deeply_keeps_its_name() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        for invalid in [
            format!(r#"{{"metadata":{{"name":"a","namespace":"n","resourceVersion":"7"}},"spec":{deep}}}"#),
            format!(
                r#"{{"spec":{deep},"metadata":{{"namespace":"n","name":"a","labels":{deep},"resourceVersion":"7"}}}}"#
            ),
        ] {
            let error = object::<Pod>(raw(&invalid), &mut Interner::default()).unwrap_err();
            assert_eq!(error.key, Some(ObjectKey::new("n", "a")));
            assert_eq!(error.resource_version, ResourceVersion(7));
        }
    }

    /// Controllers that read an empty list delete everything that they have written.
    #[test]
    fn only_a_list_of_the_kind_is_an_empty_list() {
        let check = |text: &str, want: &str| match page::<Pod>(text) {
            Ok(page) => assert_eq!(format!("the list at {}", page.resource_version), want, "{text}"),
            Err(error) => assert_eq!(error.to_string(), want, "{text}"),
        };
        let list = |rest: &str| {
            format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}}{rest}}}"#)
        };
        check(&list(r#","items":[]"#), "the list at 7");
        check(&list(r#","items":null"#), "the list at 7");
        let invalid = |what: &str| format!("the API server's answer is invalid: {what}");
        check(&list(""), &invalid("the PodList has no items"));
        check(r#"{"kind":"PodList","items":[]}"#, &invalid("the PodList has no resourceVersion"));
        check(
            r#"{"kind":"PodList","metadata":{"resourceVersion":"0"},"items":[]}"#,
            &invalid("the PodList has no resourceVersion"),
        );
        check("{}", &invalid(r#"received a "", expected a "PodList""#));
        check(
            r#"{"kind":"List","metadata":{"resourceVersion":"7"},"items":[]}"#,
            &invalid(r#"received a "List", expected a "PodList""#),
        );
        check(
            r#"{"kind":"NodeList","metadata":{"resourceVersion":"7"},"items":[]}"#,
            &invalid(r#"received a "NodeList", expected a "PodList""#),
        );
        check(r#"{"kind":"Status","message":"m"}"#, "the API server answered 500: m");
        check("", &invalid("EOF while parsing a value at line 1 column 0: "));
        check("<html>log in</html>", &invalid("expected value at line 1 column 1: <html>log in</html>"));
        check("ok", &invalid("expected value at line 1 column 1: ok"));
    }

    /// Errors go to the log and to the status page.
    #[test]
    fn errors_do_not_repeat_a_megabyte() {
        let long = "x".repeat(1 << 20);
        let check = |error: &dyn std::fmt::Display| {
            let error = error.to_string();
            assert!((20..5000).contains(&error.len()), "{} bytes: {error:.300}", error.len());
        };
        let mut interner = Interner::default();
        let invalid = format!(r#"{{"metadata":{{"name":"a"}},"addressType":"{long}"}}"#);
        check(&object::<EndpointSlice>(raw(&invalid), &mut interner).unwrap_err().error);
        let invalid = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{long}"}}}}"#);
        check(&object::<Pod>(raw(&invalid), &mut interner).unwrap_err().error);
        // A pod's field 1, metadata, with field 6, resourceVersion.
        let invalid = field(1, &[field(1, b"a"), field(6, long.as_bytes())].concat());
        check(&object::<Pod>(Raw::Protobuf(&invalid), &mut interner).unwrap_err().error);
        check(&page::<Pod>(&format!(r#"{{"kind":"{long}"}}"#)).unwrap_err());
        check(
            &page::<Pod>(&format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{long}"}}}}"#))
                .unwrap_err(),
        );
        check(&frame(&format!(r#"{{"type":"{long}","object":{{}}}}"#)).unwrap_err());
        let status = format!(r#"{{"kind":"Status","code":500,"reason":"{long}","message":"{long}"}}"#);
        check(&frame(&format!(r#"{{"type":"ERROR","object":{status}}}"#)).unwrap_err());
        check(&page::<Pod>(&status).unwrap_err());
    }
}

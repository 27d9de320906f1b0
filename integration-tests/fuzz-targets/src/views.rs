//! Targets that decode objects into views, as the informer does.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::api::discovery::v1 as discoveryv1;
use kube_endpoint_core_model::k8s::ConversionError;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Intern, Interner, Node, Pod, Service};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes the view of a pod.
pub fn decode_pod(bytes: &[u8]) {
    check::<Pod, corev1::Pod>(bytes);
}

/// Decodes the view of a Service.
pub fn decode_service(bytes: &[u8]) {
    check::<Service, corev1::Service>(bytes);
}

/// Decodes the view of a node.
pub fn decode_node(bytes: &[u8]) {
    check::<Node, corev1::Node>(bytes);
}

/// Decodes the view of an Endpoints object, and writes the object again.
pub fn decode_endpoints(bytes: &[u8]) {
    if let Some(view) = check::<Endpoints, corev1::Endpoints>(bytes) {
        check_written(&view);
    }
}

/// Decodes the view of an EndpointSlice, and writes the object again.
pub fn decode_endpoint_slice(bytes: &[u8]) {
    if let Some(view) = check::<EndpointSlice, discoveryv1::EndpointSlice>(bytes) {
        check_written(&view);
    }
}

/// Checks that three ways of reading a text agree: straight from the text, from a tree, and from
/// k8s-openapi's type.
fn check<V, K>(bytes: &[u8]) -> Option<V>
where
    V: DeserializeOwned
        + Debug
        + PartialEq
        + Clone
        + Intern
        + for<'a> TryFrom<&'a K, Error = ConversionError>,
    K: DeserializeOwned,
{
    let text = String::from_utf8_lossy(bytes);
    let decoded = serde_json::from_str::<V>(&text);
    if let Err(error) = &decoded {
        assert!(!error.to_string().contains('\n'), "an error has several lines: {error}");
    }
    // If a key occurs twice, the tree holds only the last value.
    let Ok(tree) = serde_json::from_str::<Value>(&text) else {
        return decoded.ok();
    };
    let unique = tree.to_string();
    let of_text = serde_json::from_str::<V>(&unique).map_err(drop);
    let of_tree = serde_json::from_value::<V>(tree.clone()).map_err(drop);
    assert_eq!(of_text, of_tree, "{unique}");
    if let (Ok(view), Ok(typed)) = (&of_text, serde_json::from_value::<K>(tree))
        && let Ok(converted) = V::try_from(&typed)
    {
        assert_eq!(converted, *view, "{unique}");
    }
    let view = decoded.ok()?;
    let mut interned = view.clone();
    interned.intern(&mut Interner::default());
    assert_eq!(interned, view);
    Some(view)
}

/// Checks that writing a view and reading it gives the same view.
fn check_written<V: DeserializeOwned + serde::Serialize + Debug + PartialEq>(view: &V) {
    let written: Cow<'_, str> = match serde_json::to_string(view) {
        Ok(written) => written.into(),
        Err(error) => panic!("{view:?} cannot be written: {error}"),
    };
    match serde_json::from_str::<V>(&written) {
        Ok(read) => assert_eq!(read, *view, "{written}"),
        Err(error) => panic!("{written} cannot be read: {error}"),
    }
}

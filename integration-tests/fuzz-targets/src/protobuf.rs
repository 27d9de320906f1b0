//! Targets that decode objects from protobuf into views, as the informer does.

use std::fmt::Debug;

use kube_endpoint_core_model::protobuf::{
    Envelope, FromProtobuf, ObjectToWrite, Status, fields_after_metadata, identity, object_meta,
};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Intern, Interner, Node, Pod, Service};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Decodes the view of a pod.
pub fn protobuf_pod(bytes: &[u8]) {
    check::<Pod>(bytes);
}

/// Decodes the view of a Service.
pub fn protobuf_service(bytes: &[u8]) {
    check::<Service>(bytes);
}

/// Decodes the view of a node.
pub fn protobuf_node(bytes: &[u8]) {
    check::<Node>(bytes);
}

/// Decodes the view of an Endpoints object, and encodes the object again.
pub fn protobuf_endpoints(bytes: &[u8]) {
    if let Some(view) = check::<Endpoints>(bytes) {
        check_written(&view);
    }
}

/// Decodes the view of an EndpointSlice, and encodes the object again.
pub fn protobuf_endpoint_slice(bytes: &[u8]) {
    if let Some(view) = check::<EndpointSlice>(bytes) {
        check_written(&view);
    }
}

/// Decodes an object in its envelope, or without one. Checks that the earlier content of the
/// interner makes no difference.
fn check<V: FromProtobuf + Intern + Clone + Debug + PartialEq>(bytes: &[u8]) -> Option<V> {
    let object = match Envelope::read(bytes) {
        Ok(envelope) => envelope.object,
        Err(error) => {
            assert_one_line(&error);
            bytes
        }
    };
    let _ = (identity(object), fields_after_metadata(object), Status::of_answer(bytes));
    let mut interner = Interner::default();
    if let Err(error) = object_meta(object, &mut interner) {
        assert_one_line(&error);
    }
    let decoded = V::from_protobuf(object, &mut interner);
    assert_eq!(V::from_protobuf(object, &mut interner), decoded);
    assert_eq!(V::from_protobuf(object, &mut Interner::default()), decoded);
    let view = decoded.inspect_err(assert_one_line).ok()?;
    let mut interned = view.clone();
    interned.intern(&mut interner);
    assert_eq!(interned, view);
    Some(view)
}

fn assert_one_line(error: &impl std::fmt::Display) {
    let error = error.to_string();
    assert!(!error.contains('\n'), "an error has several lines: {error}");
}

/// Checks that writing a view, in protobuf or in JSON, and reading it gives the same view.
fn check_written<V>(view: &V)
where
    V: FromProtobuf + ObjectToWrite + DeserializeOwned + Serialize + Debug + PartialEq,
{
    let encoded = view.to_protobuf();
    let object = match Envelope::read(&encoded.body) {
        Ok(envelope) => envelope.object,
        Err(error) => panic!("{view:?} has no envelope: {error}"),
    };
    assert_eq!(Some(&encoded.body[encoded.content.clone()]), fields_after_metadata(object), "{view:?}");
    assert_eq!(V::from_protobuf(object, &mut Interner::default()).as_ref(), Ok(view));
    let written = match serde_json::to_string(view) {
        Ok(written) => written,
        Err(error) => panic!("{view:?} cannot be written: {error}"),
    };
    match serde_json::from_str::<V>(&written) {
        Ok(read) => assert_eq!(read, *view, "{written}"),
        Err(error) => panic!("{written} cannot be read: {error}"),
    }
}

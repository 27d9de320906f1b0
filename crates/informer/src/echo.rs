//! Echoes of own writes: an object with the content that was sent is not decoded.

use kube_endpoint_core_model::Interner;
use kube_endpoint_core_model::protobuf::{self, Identity};
use kube_endpoint_tracker::{Echo, SentObjects};

use crate::Object;
use crate::decode::{self, Raw, Undecodable};

/// Decodes an object as [`decode::object`] does, and compares it with what was sent of it. Of an echo in protobuf whose
/// content is the one that was sent, only the metadata is decoded.
pub(crate) fn object<T: Object>(
    raw: Raw<'_>,
    sent: &SentObjects,
    interner: &mut Interner,
) -> Result<T, Undecodable> {
    match raw {
        Raw::Protobuf(bytes) => {
            reused(bytes, sent, interner).map_or_else(|| decode::object(raw, interner), Ok)
        }
        Raw::Json(_) => {
            let view: T = decode::object(raw, interner)?;
            compare(&view, sent);
            Ok(view)
        }
    }
}

/// The object that was sent, with the metadata of its echo; none if the object has to be decoded.
fn reused<T: Object>(object: &[u8], sent: &SentObjects, interner: &mut Interner) -> Option<T> {
    let Identity { key, resource_version, .. } = protobuf::identity(object);
    let key = key.filter(|key| sent.expects(key, resource_version))?;
    let fields = protobuf::fields_after_metadata(object)?;
    let metadata = protobuf::object_meta(object, interner).ok()?;
    let is_same = |content: &kube_endpoint_tracker::Content| {
        content.labels == metadata.labels && *content.fields == *fields
    };
    match sent.echo(&key, resource_version, is_same) {
        Echo::Same(Some(sent)) => T::with_content_of(metadata, sent),
        Echo::Same(None) | Echo::Different | Echo::Unknown => None,
    }
}

fn compare<T: Object>(view: &T, sent: &SentObjects) {
    let (key, version) = (view.key(), view.resource_version());
    let Some((metadata, object)) = view.as_written() else { return };
    if sent.expects(&key, version) {
        let encoded = object.to_protobuf();
        sent.echo(&key, version, |content| {
            content.labels == metadata.labels && encoded.body.get(encoded.content) == Some(&*content.fields)
        });
    }
}

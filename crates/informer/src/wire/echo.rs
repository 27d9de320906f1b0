//! Echoes of own writes: an object with the content that a controller sent need not be decoded.

use kube_endpoint_core_model::Interner;
use kube_endpoint_core_model::protobuf::{self, Identity};
use kube_endpoint_tracker::{Echo, WriteLedger};

use crate::Object;
use crate::wire::decode::{self, Raw, Undecodable};

/// Decodes an object as [`decode::object`] does, and compares it with the object that a controller
/// sent. If an echo in protobuf has the content that the controller sent, decodes only its
/// metadata.
pub(crate) fn object<T: Object>(
    raw: Raw<'_>,
    ledger: &WriteLedger,
    interner: &mut Interner,
) -> Result<T, Undecodable> {
    match raw {
        Raw::Protobuf(bytes) => {
            reused(bytes, ledger, interner).map_or_else(|| decode::object(raw, interner), Ok)
        }
        Raw::Json(_) => {
            let view: T = decode::object(raw, interner)?;
            compare(&view, ledger);
            Ok(view)
        }
    }
}

/// Returns the sent object with the metadata of its echo, or `None` if the echo must be decoded.
fn reused<T: Object>(object: &[u8], ledger: &WriteLedger, interner: &mut Interner) -> Option<T> {
    let Identity { key, resource_version, .. } = protobuf::identity(object);
    let key = key.filter(|key| ledger.expects(key, resource_version))?;
    let fields = protobuf::fields_after_metadata(object)?;
    let metadata = protobuf::object_meta(object, interner).ok()?;
    match ledger.echo(&key, resource_version, &metadata.labels, fields) {
        Echo::Same(sent) => T::with_content_of(metadata, sent?),
        Echo::Different | Echo::Unknown => None,
    }
}

fn compare<T: Object>(view: &T, ledger: &WriteLedger) {
    let (key, version) = (view.key(), view.resource_version());
    let Some((metadata, object)) = view.as_written() else { return };
    if ledger.expects(&key, version) {
        let encoded = object.to_protobuf();
        let fields = encoded.body.get(encoded.content).unwrap_or_default();
        ledger.echo(&key, version, &metadata.labels, fields);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_endpoint_core_model::protobuf::ObjectToWrite;
    use kube_endpoint_core_model::{Endpoint, EndpointSlice, ObjectMeta, ResourceVersion, Text};
    use kube_endpoint_tracker::{Content, Verb};

    use super::*;

    fn slice(address: &str, version: u64) -> EndpointSlice {
        let metadata = ObjectMeta {
            name: "web-1".into(),
            namespace: "shop".into(),
            resource_version: ResourceVersion(version),
            ..ObjectMeta::default()
        };
        let endpoint = Endpoint { addresses: vec![address.into()], ..Endpoint::default() };
        EndpointSlice { metadata, endpoints: vec![endpoint], ..EndpointSlice::default() }
    }

    /// Sends a slice, and decodes the event of version 5 with this address, before or after the
    /// answer to the write. Asserts that the decoded slice reuses the sent one if `is_reused`.
    #[track_caller]
    fn check(address: &str, is_answered: bool, is_reused: bool) {
        let ledger = Arc::<WriteLedger>::default();
        let tracker = ledger.tracker();
        let written = Arc::new(slice("192.0.2.1", 4));
        let body = written.to_protobuf();
        let fields = body.body[body.content].to_vec().into();
        let content = Content { labels: written.metadata.labels.clone(), fields };
        let key = written.metadata.key();
        let mut write = tracker.write(&key, &key, Verb::Update(ResourceVersion(4)), ResourceVersion(4));
        let now = tokio::time::Instant::now().into_std();
        write.begin(now, Some((content, Arc::<EndpointSlice>::clone(&written) as _)), ());
        let mut write = Some(write);
        if is_answered && let Some(write) = write.take() {
            write.answered(ResourceVersion(5), ResourceVersion(4));
        }
        let seen = slice(address, 5);
        let body = seen.to_protobuf().body;
        let raw = Raw::Protobuf(protobuf::Envelope::read(&body).unwrap().object);
        let got: EndpointSlice = object(raw, &ledger, &mut Interner::default()).unwrap();
        assert_eq!(got, seen);
        let address = |slice: &EndpointSlice| Text::clone(&slice.endpoints[0].addresses[0]);
        assert_eq!(Text::ptr_eq(&address(&got), &address(&written)), is_reused);
    }

    #[test]
    fn an_echo_of_what_was_sent_is_not_decoded_before_or_after_the_answer() {
        check("192.0.2.1", true, true);
        check("192.0.2.1", false, true);
        check("192.0.2.2", true, false);
        check("192.0.2.2", false, false);
    }
}

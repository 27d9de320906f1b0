//! Decodes the frames of a watch in protobuf.

use kube_endpoint_core_model::protobuf::{self, Status, WatchEvent};

use crate::error::ListWatchError;
use crate::wire::decode::{Frame, Raw};

/// Decodes a frame of a watch. Returns an `ERROR` event as an error.
pub(crate) fn frame(bytes: &[u8]) -> Result<Frame<'_>, ListWatchError> {
    let event = WatchEvent::read(bytes).map_err(|error| {
        // Some proxies and servers send a bare Status.
        Status::of_answer(bytes).map_or_else(
            || invalid(&format!("a watch event cannot be decoded: {error}")),
            |status| ListWatchError::from_protobuf(status, Some(500)),
        )
    })?;
    let object = event.object;
    Ok(match event.event_type {
        "ADDED" => Frame::Added(Raw::Protobuf(object)),
        "MODIFIED" => Frame::Modified(Raw::Protobuf(object)),
        "DELETED" => Frame::Deleted(Raw::Protobuf(object)),
        "BOOKMARK" => {
            let (resource_version, ends_initial_events) = protobuf::bookmark(object)
                .map_err(|error| invalid(&format!("a bookmark cannot be decoded: {error}")))?;
            if ends_initial_events && resource_version.is_none() {
                return Err(invalid("the bookmark that ends the initial events has no resourceVersion"));
            }
            Frame::Bookmark { resource_version, ends_initial_events }
        }
        "ERROR" => {
            let status = Status::read(object)
                .map_err(|error| invalid(&format!("the Status of a watch cannot be decoded: {error}")))?;
            return Err(ListWatchError::from_protobuf(status, Some(500)));
        }
        other => return Err(invalid(&format!("a watch event of type {other:?}"))),
    })
}

fn invalid(what: &str) -> ListWatchError {
    ListWatchError::InvalidResponse(what.to_owned())
}

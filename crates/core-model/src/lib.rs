//! What pods, services, nodes and slices mean for endpoints: views and rules, with no client, no runtime and no clock.
//!
//! A view holds exactly what endpoint controllers read of an object. It deserialises straight from the API's JSON and
//! skips the rest while parsing; `null` and absent lists are empty. The rules are plain functions over views.

pub mod address;
mod causes;
pub mod change;
pub mod display;
pub mod endpoints;
pub mod event;
pub mod intern;
#[cfg(feature = "k8s-openapi")]
pub mod k8s;
pub mod meta;
pub mod node;
pub mod pod;
pub mod port;
pub mod publish;
pub mod quantity;
pub mod repack;
pub mod service;
pub mod slice;
pub mod slice_labels;
pub mod string_map;
mod text;
pub mod time;
pub mod verdict;
pub mod well_known;
mod writes;

pub use address::IpFamily;
pub use causes::causes;
pub use endpoints::Endpoints;
pub use event::{EventType, PlannedEvent};
pub use intern::{Intern, Interner};
pub use meta::{ObjectKey, ObjectMeta, ObjectReference, OwnerReference, ResourceVersion};
pub use node::{Node, NodeLookup};
pub use pod::Pod;
pub use service::Service;
pub use slice::{AddressType, Endpoint, EndpointPort, EndpointSlice};
pub use string_map::StringMap;
pub use time::Timestamp;
pub use verdict::{LeftOut, PodVerdict, Verdict};
pub use writes::Writes;

/// A shared, immutable string. Cloning one copies a pointer.
pub type Text = std::sync::Arc<str>;

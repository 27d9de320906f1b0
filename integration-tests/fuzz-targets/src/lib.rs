//! The functions that the fuzzer calls, and ordinary tests with the seeds in `fuzz/seeds`. They
//! take bytes, check properties, and panic when one does not hold.

mod files;
mod lists_and_watches;
mod patches;
mod protobuf;
mod requests;
mod selectors;
mod views;

pub use files::{config_file, kubeconfig};
pub use lists_and_watches::list_and_watch;
pub use patches::patches;
pub use protobuf::{
    protobuf_endpoint_slice, protobuf_endpoints, protobuf_node, protobuf_pod, protobuf_service,
};
pub use requests::requests;
pub use selectors::selectors;
pub use views::{decode_endpoint_slice, decode_endpoints, decode_node, decode_pod, decode_service};

/// A target: its name, which is that of its fuzz target and of the folder of its seeds, and its
/// function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 16] = [
    ("decode_pod", decode_pod),
    ("decode_service", decode_service),
    ("decode_node", decode_node),
    ("decode_endpoints", decode_endpoints),
    ("decode_endpoint_slice", decode_endpoint_slice),
    ("protobuf_pod", protobuf_pod),
    ("protobuf_service", protobuf_service),
    ("protobuf_node", protobuf_node),
    ("protobuf_endpoints", protobuf_endpoints),
    ("protobuf_endpoint_slice", protobuf_endpoint_slice),
    ("list_and_watch", list_and_watch),
    ("kubeconfig", kubeconfig),
    ("config_file", config_file),
    ("selectors", selectors),
    ("requests", requests),
    ("patches", patches),
];

//! Sends requests to list and watch one kind, and reads their answers: from bytes to objects, in
//! JSON and in protobuf.

pub(crate) mod decode;
pub(crate) mod echo;
pub(crate) mod frame_splitter;
pub(crate) mod line_splitter;
pub(crate) mod list_parts;
pub(crate) mod pieces;
pub(crate) mod protobuf_list;
pub(crate) mod protobuf_watch;
pub(crate) mod request;
pub(crate) mod undecodable;

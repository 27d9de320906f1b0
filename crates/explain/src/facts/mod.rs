//! The lowest floor: what was read, what is not known, and indexes. It imports no other floor.

pub(crate) mod across;
pub mod age;
pub(crate) mod answer;
pub(crate) mod attached;
pub(crate) mod defaults;
pub mod details;
pub(crate) mod edits;
pub(crate) mod extent;
pub(crate) mod external_name;
pub(crate) mod json;
pub(crate) mod lease;
pub(crate) mod objects;
pub(crate) mod options;
pub(crate) mod output_kind;
pub(crate) mod pod_details;
pub(crate) mod policy;
pub(crate) mod raw;
pub mod references;
pub(crate) mod remedy;
pub(crate) mod signs;
pub(crate) mod spelling;
pub(crate) mod workload;

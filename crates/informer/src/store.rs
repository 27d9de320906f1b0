//! The objects that reflectors have read, indexed: tables of objects, and the index from pods to
//! the Services that select them. [`Cluster::apply`](crate::Cluster::apply) applies lists and
//! events to them.

pub(crate) mod apply;
pub(crate) mod apply_pods_and_services;
#[cfg(test)]
mod index_model_tests;
pub(crate) mod list_builder;
pub(crate) mod long_work;
pub(crate) mod namespace_index;
pub(crate) mod pod_list;
pub(crate) mod pod_log;
pub(crate) mod pod_service_index;
pub(crate) mod selection;
mod selector_index;
pub(crate) mod serial_queue;
pub(crate) mod shared_strings;
pub(crate) mod table;
pub(crate) mod watched_namespaces;

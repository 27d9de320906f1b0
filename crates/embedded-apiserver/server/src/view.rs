//! The two views of an event: kept as the core group has it, shown as well as events.k8s.io has it.

use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::strategy::event;
use serde_json::Value;

use crate::store::{Store, resource_of_table};

/// The resource under whose view objects are kept.
pub(crate) fn stored_resource(resource: &Resource) -> &'static Resource {
    resource_of_table(Store::table_of(resource))
}

/// Whether objects are kept as this resource shows them.
pub(crate) fn is_stored_one(resource: &Resource) -> bool {
    stored_resource(resource) == resource
}

/// A kept object as `resource` shows it.
pub(crate) fn shown(resource: &Resource, object: Value) -> Value {
    event::from_stored(resource, object)
}

/// An object of `resource` as it is kept.
pub(crate) fn stored(resource: &Resource, object: Value) -> Value {
    event::to_stored(resource, object)
}

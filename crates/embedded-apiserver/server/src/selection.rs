//! The objects that a list, a watch or a deletecollection selects: by namespace, label selector and
//! field selector.

use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::selector::{self, FieldSelector, LabelSelector};
use kube_endpoint_apiserver_rules::status::Status;

use crate::query::ListOptions;
use crate::store::{Store, Stored, resource_of_table};

/// A parsed selection over one resource.
#[derive(Debug)]
pub(crate) struct Selection {
    /// The prefix of keys: `namespace/`, or empty for all namespaces.
    pub(crate) prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
    /// The names of the fields that the server stores with each object, in order.
    kept: &'static [&'static str],
    /// The name in the path, if any.
    name: Option<String>,
}

impl Selection {
    /// Parses the selectors of a request.
    pub(crate) fn parse(resource: &Resource, namespace: &str, options: &ListOptions) -> Result<Self, Status> {
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let labels = match options.label_selector.as_str() {
            "" => LabelSelector::default(),
            text => LabelSelector::parse(text)?,
        };
        let fields = match options.field_selector.as_str() {
            "" => FieldSelector::default(),
            text => FieldSelector::parse(resource, text)?,
        };
        let kept = selector::selectable_fields(resource_of_table(Store::table_of(resource)));
        Ok(Self { prefix, labels, fields, kept, name: None })
    }

    /// Restricts the selection to one name, as a watch on the path of an object does.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = (!name.is_empty()).then(|| name.to_owned());
        self
    }

    /// Returns true if this selects the object.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        object.key.starts_with(&self.prefix)
            && self.name.as_ref().is_none_or(|name| object.name() == name)
            && (self.labels.is_everything() || self.labels.matches(|key| object.meta.label(key)))
            && (self.fields.is_everything()
                || self.fields.matches(|field| match field {
                    "metadata.name" => Some(object.name()),
                    "metadata.namespace" => Some(object.namespace()),
                    _ => object.meta.field(self.kept.iter().position(|kept| *kept == field)?),
                }))
    }

    /// Returns true if this selects all objects with the prefix, so that counting needs no
    /// iteration.
    pub(crate) fn is_plain(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.name.is_none()
    }
}

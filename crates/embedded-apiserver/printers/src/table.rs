//! Objects as tables for people (`meta.k8s.io` Table), with the columns of upstream's
//! `pkg/printers/internalversion`. `-o wide` shows columns of priority 1.

mod age;
mod columns;
mod endpoints;
mod event;
mod node;
mod pod;
mod service;
mod view;

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Value, json};

use crate::represent::{self, MetaVersion};

/// The part of the object that each row contains in addition to its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Parses the `includeObject` query parameter. Rejects an unknown value (400).
    pub fn parse(parameter: Option<&str>) -> Result<Self, Status> {
        match parameter {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

/// Options of a table.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub version: MetaVersion,
    /// The part of the object that each row contains in addition to its cells.
    pub include: IncludeObject,
    /// True if the table has column definitions: in a watch only the first event has them.
    pub headers: bool,
    /// The time up to which ages count.
    pub now: Timestamp,
}

/// Returns the table of `objects`, in their order. `metadata` is that of the list or, for a single
/// object or a watch event, `{"resourceVersion": …}` of the object.
pub fn of<'a>(
    resource: &Resource,
    objects: impl IntoIterator<Item = &'a Value>,
    options: &Options,
    metadata: Value,
) -> Value {
    let rows: Vec<Value> = objects.into_iter().map(|object| row(resource, object, options)).collect();
    let columns = if options.headers { columns::definitions(resource) } else { Value::Null };
    json!({
        "kind": "Table",
        "apiVersion": options.version.api_version(),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn row(resource: &Resource, object: &Value, options: &Options) -> Value {
    let carried = match options.include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => represent::partial(object, options.version),
        IncludeObject::Object => object.clone(),
    };
    let cells = columns::cells(resource, object, options.now);
    let mut row = json!({"cells": cells, "object": carried});
    if let Some(condition) = pod::completed(resource, object) {
        row["conditions"] = json!([condition]);
    }
    row
}

#[cfg(test)]
mod tests;

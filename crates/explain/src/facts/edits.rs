//! Reads from `managedFields` who changed the selector and the ports of a Service.

use kube_endpoint_core_model::Timestamp;
use serde_json::Value;

use crate::facts::details::LastWrite;
use crate::facts::json::{each, pairs, text, time};

/// A field of `spec` of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edited {
    Selector,
    Ports,
}

impl Edited {
    /// Returns the path, as kubectl explains it.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Selector => "spec.selector",
            Self::Ports => "spec.ports",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Selector => "f:selector",
            Self::Ports => "f:ports",
        }
    }
}

/// The last write of a Service by the field manager that sets a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) field: Edited,
    pub(crate) write: LastWrite,
    /// True if the manager sets no other field, so that the write changed this one.
    pub(crate) is_alone: bool,
    /// True if the write created the Service.
    pub(crate) is_creation: bool,
}

impl Edit {
    /// Reads the metadata of a Service: the latest write for each field.
    pub(crate) fn all_of(metadata: &Value) -> Vec<Self> {
        let created = time(&metadata["creationTimestamp"]);
        let of = |field: Edited| {
            let sets = |entry: &&Value| entry["fieldsV1"]["f:spec"][field.key()].is_object();
            let entries = each(&metadata["managedFields"]).filter(sets);
            let writes = entries.filter_map(|entry| Self::of(field, entry, time(&entry["time"])?, created));
            writes.max_by_key(|edit| edit.write.time)
        };
        [Edited::Selector, Edited::Ports].into_iter().filter_map(of).collect()
    }

    fn of(field: Edited, entry: &Value, at: Timestamp, created: Option<Timestamp>) -> Option<Self> {
        let others = |of: &Value, but: &str| pairs(of).any(|(key, _)| key != but);
        let fields = &entry["fieldsV1"];
        Some(Self {
            field,
            write: LastWrite { time: at, by: text(&entry["manager"]).into() },
            is_alone: !others(fields, "f:spec") && !others(&fields["f:spec"], field.key()),
            // A client may set the time of its write before the server creates the object.
            is_creation: created.is_none_or(|created| at.as_second() <= created.as_second() + 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_write_of_who_sets_a_field_is_read() {
        let entry = |manager: &str, minute: u32, fields: Value| json!({"manager": manager, "time": format!("2026-01-01T00:{minute:02}:00Z"), "fieldsV1": fields});
        let created =
            entry("helm", 0, json!({"f:metadata": {}, "f:spec": {"f:selector": {}, "f:ports": {}}}));
        let edited = entry("kubectl-edit", 5, json!({"f:spec": {"f:selector": {}}}));
        let status = entry("cloud", 9, json!({"f:status": {}}));
        let metadata =
            json!({"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [created, edited, status]});
        let told: Vec<_> = Edit::all_of(&metadata)
            .into_iter()
            .map(|edit| (edit.field.path(), edit.write.by.to_string(), edit.is_alone, edit.is_creation))
            .collect();
        let want = [
            ("spec.selector", "kubectl-edit".to_owned(), true, false),
            ("spec.ports", "helm".to_owned(), false, true),
        ];
        assert_eq!(told, want);
        assert_eq!(Edit::all_of(&json!({"managedFields": null})), []);
    }
}

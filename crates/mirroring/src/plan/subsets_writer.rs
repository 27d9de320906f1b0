//! Who wrote the addresses of an Endpoints object last, by its `managedFields`.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{ResourceVersion, Text};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// Field managers under which Endpoints controllers write: kube-controller-manager and this project's. The manager of a
/// write is the name in its user agent unless the request sets another.
const CONTROLLERS: [&str; 2] = ["kube-controller-manager", "kube-endpoint-manager"];

/// What only Endpoints controllers set. Distributions that run all components in one process write under another name.
const CONTROLLER_FIELDS: [(&str, &str); 2] = [
    ("f:labels", "f:endpoints.kubernetes.io/managed-by"),
    ("f:annotations", "f:endpoints.kubernetes.io/last-change-trigger-time"),
];

/// Who wrote `subsets` last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubsetsWriter {
    /// An Endpoints controller, which made the addresses from pods.
    Controller(Text),
    /// Somebody else, who chose the addresses.
    SomebodyElse(Text),
    /// No entry says who.
    Unknown,
}

/// The part of an Endpoints object that tells who wrote its addresses.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Provenance {
    metadata: Metadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: ResourceVersion,
    managed_fields: Vec<Entry>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    manager: String,
    /// Seconds of UTC in RFC 3339, so that texts compare as times do.
    time: String,
    #[serde(rename = "fieldsV1")]
    fields: Fields,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:subsets")]
    subsets: Option<IgnoredAny>,
    #[serde(rename = "f:metadata")]
    metadata: BTreeMap<String, BTreeMap<String, IgnoredAny>>,
}

impl Provenance {
    /// The version of the object.
    pub fn version(&self) -> ResourceVersion {
        self.metadata.resource_version
    }

    /// Returns the manager of the newest entry that owns `subsets`. `own` are further names of Endpoints controllers. If
    /// several entries are equally new, one of a controller counts.
    pub fn subsets_writer(&self, own: &str) -> SubsetsWriter {
        let owners = || self.metadata.managed_fields.iter().filter(|entry| entry.fields.subsets.is_some());
        let Some(newest) = owners().map(|entry| &entry.time).max() else { return SubsetsWriter::Unknown };
        let mut latest: Vec<&Entry> = owners().filter(|entry| entry.time == *newest).collect();
        latest.sort_by(|one, two| one.manager.cmp(&two.manager));
        match (latest.iter().find(|entry| entry.is_of_a_controller(own)), latest.first()) {
            (Some(controller), _) => SubsetsWriter::Controller(controller.manager.as_str().into()),
            (None, Some(other)) => SubsetsWriter::SomebodyElse(other.manager.as_str().into()),
            (None, None) => SubsetsWriter::Unknown,
        }
    }
}

impl Entry {
    fn is_of_a_controller(&self, own: &str) -> bool {
        let sets = |(map, field): &(&str, &str)| {
            self.fields.metadata.get(*map).is_some_and(|fields| fields.contains_key(*field))
        };
        self.manager == own
            || CONTROLLERS.contains(&self.manager.as_str())
            || CONTROLLER_FIELDS.iter().any(sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(manager: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
               "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn the_newest_entry_that_owns_the_subsets_decides() {
        let check = |entries: Value, want: SubsetsWriter| {
            let object = json!({"kind": "Endpoints", "metadata": {"resourceVersion": "7", "managedFields": entries},
                                "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}]});
            let provenance: Provenance = serde_json::from_value(object).unwrap();
            assert_eq!(provenance.version().to_string(), "7");
            assert_eq!(provenance.subsets_writer("me"), want, "{entries}");
        };
        let controller = |name: &str| SubsetsWriter::Controller(name.into());
        let other = |name: &str| SubsetsWriter::SomebodyElse(name.into());
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let subsets = || json!({"f:subsets": {}});
        check(json!([]), SubsetsWriter::Unknown);
        check(
            json!([entry("kubectl", new, json!({"f:metadata": {"f:labels": {"f:a": {}}}}))]),
            SubsetsWriter::Unknown,
        );
        for name in ["kube-controller-manager", "kube-endpoint-manager", "me"] {
            check(json!([entry(name, new, subsets())]), controller(name));
            check(json!([entry(name, new, subsets()), entry("kubectl", old, subsets())]), controller(name));
            check(json!([entry(name, old, subsets()), entry("kubectl", new, subsets())]), other("kubectl"));
            check(json!([entry("kubectl", new, subsets()), entry(name, new, subsets())]), controller(name));
        }
        let labels = json!({"f:metadata": {"f:labels": {".": {}, "f:note": {}}}});
        check(
            json!([entry("kube-controller-manager", old, subsets()), entry("kubectl", new, labels)]),
            controller("kube-controller-manager"),
        );
        check(json!([entry("kubectl-edit", new, subsets())]), other("kubectl-edit"));
        // A distribution in one binary.
        let signs = [
            json!({"f:labels": {"f:endpoints.kubernetes.io/managed-by": {}}}),
            json!({"f:annotations": {".": {}, "f:endpoints.kubernetes.io/last-change-trigger-time": {}}}),
        ];
        for metadata in signs {
            let fields = json!({"f:metadata": metadata, "f:subsets": {}});
            check(json!([entry("k3s", new, fields)]), controller("k3s"));
        }
        // Without a time it counts as the oldest.
        check(
            json!([{"manager": "x", "fieldsV1": {"f:subsets": {}}}, entry("y", old, subsets())]),
            other("y"),
        );
    }
}

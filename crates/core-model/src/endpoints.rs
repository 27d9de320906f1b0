//! v1 Endpoints, read and written.

use serde::{Deserialize, Serialize};

use crate::maker::Provenance;
use crate::meta::{is_default, or_default};
pub use crate::subsets::{Subsets, SubsetsSummary};
use crate::well_known::{ANNOTATION_LEADER, ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY};
use crate::{Intern, Interner, ObjectKey, ObjectMeta, ObjectReference, Text, text};

/// A v1 Endpoints object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoints {
    pub metadata: ObjectMeta,
    /// The addresses, grouped by their ports.
    #[serde(default, skip_serializing_if = "Subsets::is_empty")]
    pub subsets: Subsets,
}

impl Endpoints {
    /// Returns an object without content, with the uid and the version that a read has shown. They
    /// are the preconditions of its deletion.
    pub fn of_version(key: &ObjectKey, provenance: &Provenance) -> Self {
        let metadata = ObjectMeta {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: provenance.uid().clone(),
            resource_version: provenance.version(),
            ..ObjectMeta::default()
        };
        Self { metadata, ..Self::default() }
    }

    /// Returns namespace and name.
    pub fn key(&self) -> ObjectKey {
        self.metadata.key()
    }

    /// Returns true if the object is the lock of a leader election.
    pub fn is_lock(&self) -> bool {
        self.metadata.annotations.contains_key(ANNOTATION_LEADER)
    }

    /// Drops the addresses of an object that the endpoints controller has written, and keeps a
    /// summary of them. The mirroring controller needs the addresses that other clients write, so
    /// these stay.
    pub fn summarize(&mut self) {
        let manager = self.metadata.labels.get(LABEL_ENDPOINTS_MANAGED_BY);
        if manager.is_some_and(|manager| **manager == *ENDPOINT_CONTROLLER) {
            self.subsets = Subsets::Summarized(self.subsets.summary());
        }
    }
}

/// Addresses that share a set of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Addresses that are ready.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<EndpointAddress>,
    /// Addresses that are not ready.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// The ports that each address serves.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointsPort>,
}

/// An address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    #[serde(deserialize_with = "text::or_empty")]
    pub ip: Text,
    /// DNS name under the Service, or empty.
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub hostname: Text,
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<ObjectReference>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointsPort {
    /// Name, or empty.
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub name: Text,
    #[serde(deserialize_with = "or_default")]
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub protocol: Text,
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

impl Intern for Endpoints {
    fn intern(&mut self, interner: &mut Interner) {
        interner.text(&mut self.metadata.namespace);
        interner.map(&mut self.metadata.labels);
        for subset in self.subsets.listed_mut().into_iter().flatten() {
            // A store holds the addresses for long, so they get no more memory than they need.
            subset.addresses.shrink_to_fit();
            subset.not_ready_addresses.shrink_to_fit();
            for address in subset.addresses.iter_mut().chain(&mut subset.not_ready_addresses) {
                interner.optional(&mut address.node_name);
                if let Some(target) = &mut address.target_ref {
                    interner.text(&mut target.kind);
                    interner.text(&mut target.namespace);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn endpoints_survive_a_round_trip() {
        let value = json!({
            "metadata": {"name": "web", "namespace": "n", "resourceVersion": "4"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1", "hostname": "h", "nodeName": "a",
                    "targetRef": {"kind": "Pod", "name": "p", "namespace": "n", "uid": "u"}}],
                "notReadyAddresses": [{"ip": "10.0.0.2"}],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}]}]
        });
        let endpoints: Endpoints = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&endpoints).unwrap(), value);
    }

    #[test]
    fn null_lists_are_empty() {
        let endpoints: Endpoints = serde_json::from_value(
            json!({"metadata": {"name": "a"}, "subsets": [{"addresses": null, "notReadyAddresses": null, "ports": null}]}),
        )
        .unwrap();
        assert_eq!(endpoints.subsets, vec![EndpointSubset::default()].into());
        let endpoints: Endpoints =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "subsets": null})).unwrap();
        assert!(endpoints.subsets.is_empty());
    }

    #[test]
    fn only_what_the_endpoints_controller_wrote_is_summarized() {
        let check = |labels: serde_json::Value, summarized: bool| {
            let mut endpoints: Endpoints = serde_json::from_value(
                json!({"metadata": {"name": "a", "labels": labels}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}),
            )
            .unwrap();
            let before = endpoints.clone();
            endpoints.summarize();
            assert_eq!(endpoints.subsets.listed().is_none(), summarized, "{labels}");
            assert_eq!(endpoints.subsets.summary(), before.subsets.summary());
            assert!(endpoints.metadata == before.metadata && (summarized || endpoints == before));
        };
        check(json!({}), false);
        check(json!({"endpoints.kubernetes.io/managed-by": "someone"}), false);
        check(json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"}), true);
    }
}

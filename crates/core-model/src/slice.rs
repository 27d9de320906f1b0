//! EndpointSlices, read and written.

use serde::{Deserialize, Serialize};

use crate::meta::{is_default, or_default};
use crate::well_known::{LABEL_MANAGED_BY, LABEL_SERVICE_NAME};
use crate::{
    Intern, Interner, IpFamily, ObjectKey, ObjectMeta, ObjectReference, Service, StringMap, Text, text,
};

/// A `discovery.k8s.io/v1` EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    pub metadata: ObjectMeta,
    /// Type of the addresses; immutable.
    pub address_type: AddressType,
    #[serde(default, deserialize_with = "or_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports that each endpoint serves.
    #[serde(default, deserialize_with = "or_default")]
    pub ports: Vec<EndpointPort>,
}

/// Type of the addresses of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AddressType {
    #[default]
    IPv4,
    IPv6,
    /// Domain names.
    #[serde(rename = "FQDN")]
    Fqdn,
}

impl AddressType {
    /// Returns the value in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
            Self::Fqdn => "FQDN",
        }
    }
}

impl From<IpFamily> for AddressType {
    fn from(family: IpFamily) -> Self {
        match family {
            IpFamily::IPv4 => Self::IPv4,
            IpFamily::IPv6 => Self::IPv6,
        }
    }
}

/// A port of a slice. `None` and the empty string differ, as in upstream's hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Text>,
    /// The number, or `None` for all ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Addresses of this endpoint. Any of them can be used.
    #[serde(deserialize_with = "text::list")]
    pub addresses: Vec<Text>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: EndpointConditions,
    /// DNS name under the Service.
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
    /// The object that it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<ObjectReference>,
    /// Node labels of the v1beta1 API, which old objects still have.
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub deprecated_topology: StringMap,
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    #[serde(deserialize_with = "text::optional", skip_serializing_if = "Option::is_none")]
    pub zone: Option<Text>,
    /// The clients that should use it. Boxed, because most endpoints have no hints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Box<EndpointHints>>,
}

/// Conditions of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// It can receive traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// It can serve, terminating or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// The clients that should use an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// Clients in these zones.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Hint>,
    /// Clients on these nodes.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Hint>,
}

/// A zone or node in [`EndpointHints`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Hint {
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub name: Text,
}

/// The identity of an endpoint (upstream's endpoint hash): addresses, hostname, and namespace and
/// name of the target. All other fields can change in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct EndpointIdentity {
    /// Addresses, sorted.
    pub addresses: Vec<Text>,
    /// Hostname, or empty.
    pub hostname: Text,
    /// Namespace of the target, or empty.
    pub target_namespace: Text,
    /// Name of the target, or empty.
    pub target_name: Text,
}

impl Endpoint {
    /// Returns true if clients use the endpoint; absent means ready, as the API says.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready.unwrap_or(true)
    }

    /// Returns the identity of the endpoint.
    pub fn identity(&self) -> EndpointIdentity {
        let mut addresses = self.addresses.clone();
        addresses.sort_unstable();
        let target = self.target_ref.as_ref();
        EndpointIdentity {
            addresses,
            hostname: self.hostname.clone().unwrap_or_default(),
            target_namespace: target.map(|t| t.namespace.clone()).unwrap_or_default(),
            target_name: target.map(|t| t.name.clone()).unwrap_or_default(),
        }
    }

    /// Returns true if two endpoints of the same identity are equal (upstream
    /// `EndpointsEqualBeyondHash`). This ignores hints, which a plan assigns after the endpoints.
    pub fn equal_beyond_identity(&self, other: &Self) -> bool {
        self.node_name == other.node_name
            && self.zone == other.zone
            && self.conditions == other.conditions
            && match (&self.target_ref, &other.target_ref) {
                (None, None) => true,
                (Some(one), Some(two)) => one.same_but_version(two),
                _ => false,
            }
    }
}

impl EndpointSlice {
    /// Returns namespace and name.
    pub fn key(&self) -> ObjectKey {
        self.metadata.key()
    }

    /// Returns the Service that its label names (upstream `ServiceControllerKey`).
    pub fn service_key(&self) -> Option<ObjectKey> {
        let name = self.metadata.labels.get(LABEL_SERVICE_NAME).filter(|name| !name.is_empty())?;
        Some(ObjectKey { namespace: self.metadata.namespace.clone(), name: name.clone() })
    }

    /// Returns true if its label names this manager.
    pub fn is_managed_by(&self, manager: &str) -> bool {
        self.metadata.labels.get(LABEL_MANAGED_BY).is_some_and(|value| **value == *manager)
    }

    /// Returns true if a Service is among its owners, by uid (upstream `ownedBy`).
    pub fn is_owned_by(&self, service: &Service) -> bool {
        self.metadata
            .owner_references
            .iter()
            .any(|owner| owner.uid == service.uid && *owner.kind == *"Service" && *owner.api_version == *"v1")
    }
}

impl Intern for EndpointSlice {
    fn intern(&mut self, interner: &mut Interner) {
        interner.text(&mut self.metadata.namespace);
        interner.map(&mut self.metadata.labels);
        for endpoint in &mut self.endpoints {
            interner.optional(&mut endpoint.node_name);
            interner.optional(&mut endpoint.zone);
            if let Some(target) = &mut endpoint.target_ref {
                interner.text(&mut target.kind);
                interner.text(&mut target.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_slice_survives_a_round_trip() {
        let value = json!({
            "metadata": {"name": "s", "namespace": "n", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "hostname": "h", "nodeName": "a", "zone": "z", "deprecatedTopology": {"x": "y"},
                "hints": {"forZones": [{"name": "z"}]},
                "targetRef": {"kind": "Pod", "namespace": "n", "name": "p", "uid": "u"}}],
            "ports": [{"name": "", "port": 80, "protocol": "TCP", "appProtocol": "h2c"}]
        });
        let slice: EndpointSlice = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&slice).unwrap(), value);
        assert_eq!(slice.service_key(), Some(ObjectKey::new("n", "web")));
    }

    #[test]
    fn null_lists_are_empty() {
        let slice: EndpointSlice = serde_json::from_value(
            json!({"metadata": {"name": "s"}, "addressType": "FQDN", "endpoints": null, "ports": null}),
        )
        .unwrap();
        assert!(slice.endpoints.is_empty() && slice.ports.is_empty());
        assert_eq!(slice.address_type, AddressType::Fqdn);
    }

    #[test]
    fn identity_is_addresses_hostname_and_target() {
        let base = Endpoint {
            addresses: vec!["b".into(), "a".into()],
            target_ref: Some(ObjectReference {
                namespace: "n".into(),
                name: "p".into(),
                ..Default::default()
            }),
            ..Endpoint::default()
        };
        let check =
            |other: &Endpoint, same: bool| assert_eq!(base.identity() == other.identity(), same, "{other:?}");
        check(&Endpoint { addresses: vec!["a".into(), "b".into()], ..base.clone() }, true);
        check(&Endpoint { hostname: Some("".into()), ..base.clone() }, true);
        check(&Endpoint { node_name: Some("x".into()), zone: Some("z".into()), ..base.clone() }, true);
        check(&Endpoint { hostname: Some("h".into()), ..base.clone() }, false);
        check(&Endpoint { target_ref: None, ..base.clone() }, false);
        check(&Endpoint { addresses: vec!["a".into()], ..base.clone() }, false);
    }

    #[test]
    fn equality_beyond_identity() {
        let base = Endpoint {
            target_ref: Some(ObjectReference {
                uid: "u".into(),
                resource_version: "1".into(),
                ..Default::default()
            }),
            ..Endpoint::default()
        };
        let check = |other: &Endpoint, equal: bool| {
            assert_eq!(base.equal_beyond_identity(other), equal, "{other:?}");
        };
        let reference = |uid: &str, version: &str| {
            Some(ObjectReference { uid: uid.into(), resource_version: version.into(), ..Default::default() })
        };
        check(&base.clone(), true);
        check(&Endpoint { target_ref: reference("u", "2"), ..base.clone() }, true);
        check(&Endpoint { hints: Some(Box::default()), ..base.clone() }, true);
        check(&Endpoint { target_ref: reference("v", "1"), ..base.clone() }, false);
        check(&Endpoint { target_ref: None, ..base.clone() }, false);
        check(&Endpoint { node_name: Some("".into()), ..base.clone() }, false);
        check(&Endpoint { zone: Some("z".into()), ..base.clone() }, false);
        let conditions = EndpointConditions { ready: Some(false), ..Default::default() };
        check(&Endpoint { conditions, ..base.clone() }, false);
    }
}

//! A Service, as endpoint controllers see it.

use std::fmt;
use std::net::IpAddr;

use serde::de::{Error, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

use crate::meta::or_default;
use crate::traffic_policies::{RawStatus, is_virtual, read_is_local};
use crate::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_ENDPOINTS, ANNOTATION_TOLERATE_UNREADY,
    ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE, CLUSTER_IP_NONE,
};
use crate::{
    Intern, Interner, IpFamily, ObjectKey, ResourceVersion, StringMap, Text, Timestamp, TrafficPolicies,
    address, string_map, text, time,
};

/// The fields of a Service that endpoint controllers read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    pub key: ObjectKey,
    pub uid: Text,
    /// Version of the object behind this view.
    pub resource_version: ResourceVersion,
    pub creation_timestamp: Option<Timestamp>,
    /// Set while the Service is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// Labels, which slices and Endpoints copy.
    pub labels: StringMap,
    /// The annotations that an endpoint controller reads.
    pub annotations: StringMap,
    /// Selects the pods; without a selector, someone else writes the endpoints.
    pub selector: Option<StringMap>,
    pub service_type: ServiceType,
    /// `spec.clusterIP`; may be empty or `None`.
    pub cluster_ip: Text,
    /// The second of `spec.clusterIPs`, of a Service with two families.
    pub other_cluster_ip: Option<Text>,
    pub ip_families: Vec<IpFamily>,
    pub ports: Vec<ServicePort>,
    /// True if the Service publishes pods as ready that are not.
    pub publish_not_ready_addresses: bool,
    /// `spec.trafficDistribution`.
    pub traffic_distribution: Option<Text>,
    /// The fields that kube-proxy reads, and no controller.
    pub policies: TrafficPolicies,
}

/// `spec.type`, reduced to the two cases that controllers distinguish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ServiceType {
    /// An alias of a DNS name, which has no endpoints.
    ExternalName,
    /// Any other type.
    #[default]
    #[serde(other)]
    WithEndpoints,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePort {
    /// Name; may be empty if there is only one port.
    pub name: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// Number of the port of the Service.
    pub port: i32,
    /// Number or name of the port of the pod.
    pub target_port: TargetPort,
    pub app_protocol: Option<Text>,
}

/// A port of a pod: its number, or the name of a container's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    Number(i32),
    /// A name, which controllers look up in each pod.
    Name(Text),
}

impl Default for TargetPort {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl<'de> Deserialize<'de> for TargetPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(IntOrString)
    }
}

struct IntOrString;

impl<'de> Visitor<'de> for IntOrString {
    type Value = TargetPort;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number or the name of a port")
    }

    fn visit_none<E>(self) -> Result<TargetPort, E> {
        Ok(TargetPort::default())
    }

    fn visit_unit<E>(self) -> Result<TargetPort, E> {
        Ok(TargetPort::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<TargetPort, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<TargetPort, E> {
        let number = i32::try_from(number);
        number.map(TargetPort::Number).map_err(|_| E::custom("the number of a port needs at most 32 bits"))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<TargetPort, E> {
        self.visit_i64(number.try_into().unwrap_or(i64::MAX))
    }

    fn visit_str<E>(self, name: &str) -> Result<TargetPort, E> {
        Ok(TargetPort::Name(Text::from(name)))
    }
}

impl Service {
    /// Returns true if two views are equal apart from their versions, second cluster IP and traffic
    /// policies, so that no controller can tell them apart.
    pub fn same_for_controllers(&self, other: &Self) -> bool {
        // Without this destructuring, somebody could add a field and forget it here.
        let Self {
            key,
            uid,
            resource_version: _,
            creation_timestamp,
            deletion_timestamp,
            labels,
            annotations,
            selector,
            service_type,
            cluster_ip,
            ip_families,
            ports,
            publish_not_ready_addresses,
            traffic_distribution,
            other_cluster_ip: _,
            policies: _,
        } = self;
        (service_type, publish_not_ready_addresses)
            == (&other.service_type, &other.publish_not_ready_addresses)
            && (creation_timestamp, deletion_timestamp)
                == (&other.creation_timestamp, &other.deletion_timestamp)
            && *key == other.key
            && *uid == other.uid
            && *selector == other.selector
            && *labels == other.labels
            && *annotations == other.annotations
            && *cluster_ip == other.cluster_ip
            && *ip_families == other.ip_families
            && *ports == other.ports
            && *traffic_distribution == other.traffic_distribution
    }

    /// Returns its cluster IPs.
    pub fn cluster_ips(&self) -> impl Iterator<Item = IpAddr> {
        let all = std::iter::once(&self.cluster_ip).chain(&self.other_cluster_ip);
        all.filter_map(|text| address::parse_sloppy(text))
    }

    /// Returns true if it is headless or has no cluster IP (upstream `!isServiceIPSet`).
    pub fn is_headless(&self) -> bool {
        self.cluster_ip.is_empty() || *self.cluster_ip == *CLUSTER_IP_NONE
    }

    /// Returns the value of the label `service.kubernetes.io/headless` on its slices and Endpoints,
    /// or `None` if they have no such label. kube-proxy ignores slices that have it, whatever the
    /// value.
    pub fn headless_label(&self) -> Option<&'static str> {
        self.is_headless().then_some("")
    }

    /// Returns true if controllers make its endpoints from pods: it has a selector and is not an
    /// ExternalName.
    pub fn selects_pods(&self) -> bool {
        self.selector.is_some() && self.service_type != ServiceType::ExternalName
    }

    /// Returns true for `default/kubernetes`, whose endpoints the API server writes.
    pub fn is_of_the_api_server(&self) -> bool {
        *self.key.name == *"kubernetes" && *self.key.namespace == *"default"
    }

    /// Returns the name of the EndpointSelector that selects its pods, or `None` if the Service is
    /// not attached to one. A Service with a selector of its own, an ExternalName and
    /// `default/kubernetes`, whose endpoints the API server writes, are never attached.
    pub fn endpoint_selector(&self) -> Option<&Text> {
        self.named_selector().filter(|_| self.selector.is_none())
    }

    /// Returns the name of the EndpointSelector to which the Service would be attached without its
    /// selector: it has both. This is how users rehearse a hand-over.
    pub fn rehearsed_selector(&self) -> Option<&Text> {
        self.named_selector().filter(|_| self.selector.is_some())
    }

    fn named_selector(&self) -> Option<&Text> {
        if self.service_type == ServiceType::ExternalName || self.is_of_the_api_server() {
            return None;
        }
        self.annotations.get(ANNOTATION_ENDPOINT_SELECTOR).filter(|name| !name.is_empty())
    }

    /// Returns the families of its slices, sorted (upstream `getAddressTypesForService`):
    /// `ipFamilies` if set, else the family of its cluster IP, else, for a headless Service, both.
    pub fn slice_families(&self) -> Vec<IpFamily> {
        if !self.ip_families.is_empty() {
            let mut families = self.ip_families.clone();
            families.sort_unstable();
            families.dedup();
            return families;
        }
        if self.is_headless() {
            return vec![IpFamily::IPv4, IpFamily::IPv6];
        }
        vec![if address::is_ipv6(&self.cluster_ip) { IpFamily::IPv6 } else { IpFamily::IPv4 }]
    }

    /// Returns true if a topology annotation asks for hints (upstream `hintsEnabled`). The
    /// deprecated annotation wins.
    pub fn topology_hints_enabled(&self) -> bool {
        let mode = self
            .annotations
            .get(ANNOTATION_TOPOLOGY_AWARE_HINTS)
            .or_else(|| self.annotations.get(ANNOTATION_TOPOLOGY_MODE));
        mode.is_some_and(|mode| matches!(&**mode, "Auto" | "auto"))
    }
}

pub(crate) fn is_read(annotation: &str) -> bool {
    matches!(
        annotation,
        ANNOTATION_TOPOLOGY_MODE
            | ANNOTATION_TOPOLOGY_AWARE_HINTS
            | ANNOTATION_TOLERATE_UNREADY
            | ANNOTATION_ENDPOINT_SELECTOR
            | ANNOTATION_ENDPOINTS
    )
}

impl Intern for Service {
    fn intern(&mut self, interner: &mut Interner) {
        interner.text(&mut self.key.namespace);
        interner.map(&mut self.labels);
        interner.map(&mut self.annotations);
        if let Some(selector) = &mut self.selector {
            interner.map(selector);
        }
        for port in &mut self.ports {
            interner.text(&mut port.name);
            interner.text(&mut port.protocol);
        }
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(RawService::deserialize(deserializer)?.into())
    }
}

#[derive(Deserialize)]
pub(crate) struct RawService {
    pub(crate) metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: RawSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: RawStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawMeta {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) name: Text,
    #[serde(default, deserialize_with = "text::or_empty")]
    pub(crate) namespace: Text,
    #[serde(default, deserialize_with = "text::or_empty")]
    pub(crate) uid: Text,
    #[serde(default)]
    pub(crate) resource_version: ResourceVersion,
    #[serde(default, deserialize_with = "time::optional")]
    pub(crate) creation_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "time::optional")]
    pub(crate) deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    pub(crate) labels: StringMap,
    #[serde(default, deserialize_with = "only_read")]
    pub(crate) annotations: StringMap,
}

fn only_read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StringMap, D::Error> {
    string_map::only(deserializer, is_read)
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawSpec {
    pub(crate) selector: Option<StringMap>,
    #[serde(rename = "type")]
    pub(crate) service_type: Option<ServiceType>,
    #[serde(rename = "clusterIP", deserialize_with = "text::or_empty")]
    pub(crate) cluster_ip: Text,
    #[serde(rename = "clusterIPs", deserialize_with = "text::second")]
    pub(crate) other_cluster_ip: Option<Text>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ip_families: Vec<IpFamily>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ports: Vec<RawPort>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) publish_not_ready_addresses: bool,
    #[serde(deserialize_with = "text::non_empty")]
    pub(crate) traffic_distribution: Option<Text>,
    #[serde(rename = "internalTrafficPolicy", deserialize_with = "read_is_local")]
    pub(crate) internal_local: bool,
    #[serde(rename = "externalTrafficPolicy", deserialize_with = "read_is_local")]
    pub(crate) external_local: bool,
    #[serde(rename = "externalIPs", deserialize_with = "or_default")]
    pub(crate) external_ips: Vec<IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) health_check_node_port: i32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawPort {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) name: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) protocol: Text,
    #[serde(deserialize_with = "or_default")]
    pub(crate) port: i32,
    pub(crate) target_port: TargetPort,
    #[serde(deserialize_with = "text::optional")]
    pub(crate) app_protocol: Option<Text>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) node_port: i32,
}

impl From<RawPort> for ServicePort {
    fn from(RawPort { name, protocol, port, target_port, app_protocol, node_port: _ }: RawPort) -> Self {
        Self { name, protocol, port, target_port, app_protocol }
    }
}

impl From<RawService> for Service {
    fn from(RawService { metadata, spec, status }: RawService) -> Self {
        let mut addresses = status.load_balancer.ingress.iter();
        let externally_accessible = !spec.external_ips.is_empty()
            || spec.ports.iter().any(|port| port.node_port != 0)
            || addresses.any(|ingress| is_virtual(&ingress.ip, &ingress.ip_mode));
        Self {
            key: ObjectKey { namespace: metadata.namespace, name: metadata.name },
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations,
            selector: spec.selector,
            service_type: spec.service_type.unwrap_or_default(),
            cluster_ip: spec.cluster_ip,
            other_cluster_ip: spec.other_cluster_ip,
            ip_families: spec.ip_families,
            ports: spec.ports.into_iter().map(ServicePort::from).collect(),
            publish_not_ready_addresses: spec.publish_not_ready_addresses,
            traffic_distribution: spec.traffic_distribution,
            policies: TrafficPolicies {
                internal_local: spec.internal_local,
                external_local: spec.external_local,
                externally_accessible,
                has_health_check: spec.health_check_node_port != 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(spec: serde_json::Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec})).unwrap()
    }

    #[test]
    fn reads_what_controllers_need_and_skips_the_rest() {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "3",
                "creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"a": "b"},
                "annotations": {"other": "x", "service.kubernetes.io/topology-mode": "Auto"}},
            "spec": {"type": "LoadBalancer", "selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"],
                "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP", "appProtocol": "h2c"},
                          {"name": "n", "port": 81, "targetPort": 8081, "protocol": "UDP", "nodePort": 30000}],
                "trafficDistribution": "PreferClose", "sessionAffinity": "None"},
            "status": {"loadBalancer": {}}
        }))
        .unwrap();
        insta::assert_debug_snapshot!(service);
    }

    #[test]
    fn families_are_those_named_or_inferred() {
        use IpFamily::{IPv4, IPv6};
        let check = |spec: serde_json::Value, want: &[IpFamily]| {
            assert_eq!(service(spec.clone()).slice_families(), want, "{spec}");
        };
        check(json!({"ipFamilies": ["IPv6", "IPv4"]}), &[IPv4, IPv6]);
        check(json!({"ipFamilies": ["IPv6"], "clusterIP": "10.0.0.1"}), &[IPv6]);
        check(json!({"clusterIP": "10.0.0.1"}), &[IPv4]);
        check(json!({"clusterIP": "fd00::1"}), &[IPv6]);
        check(json!({"clusterIP": "None"}), &[IPv4, IPv6]);
        check(json!({}), &[IPv4, IPv6]);
        check(json!({"ipFamilies": null, "clusterIP": ""}), &[IPv4, IPv6]);
    }

    #[test]
    fn a_service_without_a_selector_may_name_an_endpoint_selector() {
        let check =
            |namespace: &str, name: &str, annotation: &str, spec: serde_json::Value, want: Option<&str>| {
                let annotations = json!({"kube-endpoint-manager.github.io/endpoint-selector": annotation});
                let metadata = json!({"name": name, "namespace": namespace, "annotations": annotations});
                let service: Service =
                    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
                assert_eq!(service.endpoint_selector().map(|name| &**name), want, "{metadata} {spec}");
            };
        check("shop", "web", "web-stable", json!({}), Some("web-stable"));
        check("shop", "web", "", json!({}), None);
        check("shop", "web", "web-stable", json!({"selector": {"app": "web"}}), None);
        check("shop", "web", "web-stable", json!({"selector": {}}), None);
        check("shop", "web", "web-stable", json!({"type": "ExternalName"}), None);
        check("shop", "kubernetes", "web-stable", json!({}), Some("web-stable"));
        check("default", "kubernetes", "web-stable", json!({}), None);
        let both = |kind: &str| -> Service {
            let metadata = json!({"name": "web", "namespace": "shop", "annotations": {
                "kube-endpoint-manager.github.io/endpoint-selector": "web-stable"}});
            let spec = json!({"selector": {"app": "web"}, "type": kind});
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        assert_eq!(both("ClusterIP").rehearsed_selector(), Some(&"web-stable".into()));
        assert_eq!(both("ExternalName").rehearsed_selector(), None);
        let attached = Service { selector: None, ..both("ClusterIP") };
        assert_eq!(attached.rehearsed_selector(), None);
    }

    #[test]
    fn cluster_ips_are_those_of_all_families() {
        let check = |spec: serde_json::Value, want: &[&str]| {
            let found: Vec<String> = service(spec.clone()).cluster_ips().map(|ip| ip.to_string()).collect();
            assert_eq!(found, want, "{spec}");
        };
        check(json!({"clusterIP": "10.96.0.7"}), &["10.96.0.7"]);
        check(
            json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00::7"]}),
            &["10.96.0.7", "fd00::7"],
        );
        check(json!({"clusterIP": "None", "clusterIPs": ["None"]}), &[]);
        check(json!({"clusterIP": "", "clusterIPs": null}), &[]);
    }

    #[test]
    fn what_no_controller_reads_makes_no_difference() {
        let plain = service(json!({"clusterIP": "10.0.0.1"}));
        let same = service(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
            "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001}));
        assert_ne!(plain, same);
        assert!(plain.same_for_controllers(&same));
        assert!(!plain.same_for_controllers(&service(json!({"clusterIP": "10.0.0.2"}))));
    }

    #[test]
    fn a_service_selects_pods_when_it_has_a_selector_and_is_no_alias() {
        assert!(service(json!({"selector": {"a": "b"}})).selects_pods());
        assert!(service(json!({"selector": {}})).selects_pods());
        assert!(!service(json!({})).selects_pods());
        assert!(!service(json!({"selector": null})).selects_pods());
        assert!(!service(json!({"selector": {"a": "b"}, "type": "ExternalName"})).selects_pods());
    }

    #[test]
    fn the_deprecated_annotation_wins() {
        let check = |annotations: &[(&str, &str)], want: bool| {
            let service =
                Service { annotations: annotations.iter().copied().collect(), ..Service::default() };
            assert_eq!(service.topology_hints_enabled(), want, "{annotations:?}");
        };
        check(&[], false);
        check(&[(ANNOTATION_TOPOLOGY_MODE, "Auto")], true);
        check(&[(ANNOTATION_TOPOLOGY_MODE, "auto")], true);
        check(&[(ANNOTATION_TOPOLOGY_MODE, "AUTO")], false);
        check(&[(ANNOTATION_TOPOLOGY_MODE, "Auto"), (ANNOTATION_TOPOLOGY_AWARE_HINTS, "Disabled")], false);
        check(&[(ANNOTATION_TOPOLOGY_MODE, "Disabled"), (ANNOTATION_TOPOLOGY_AWARE_HINTS, "Auto")], true);
    }
}

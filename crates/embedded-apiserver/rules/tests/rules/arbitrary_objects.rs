//! Tests that the rules accept arbitrary objects or reject them with a proper status code, and that
//! nothing panics.

use kube_endpoint_apiserver_rules::strategy::{self, Subresource};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{base, resource};

const KINDS: [&str; 8] =
    ["Namespace", "Node", "Pod", "Service", "Endpoints", "EndpointSlice", "Event", "Lease"];

const KEYS: [&str; 44] = [
    "metadata",
    "spec",
    "status",
    "name",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "generation",
    "ownerReferences",
    "deletionTimestamp",
    "ports",
    "port",
    "targetPort",
    "nodePort",
    "protocol",
    "type",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "selector",
    "externalIPs",
    "subsets",
    "addresses",
    "ip",
    "endpoints",
    "conditions",
    "hints",
    "forZones",
    "addressType",
    "containers",
    "resources",
    "limits",
    "requests",
    "cpu",
    "tolerations",
    "taints",
    "podIPs",
    "loadBalancer",
    "ingress",
    "series",
    "eventTime",
    "leaseDurationSeconds",
];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![any::<i64>(), -2..70_000i64].prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        proptest::sample::select(vec![
            "",
            "-",
            "None",
            "ExternalName",
            "LoadBalancer",
            "NodePort",
            "IPv4",
            "IPv6",
            "FQDN",
            "RequireDualStack",
            "SingleStack",
            "10.96.0.9",
            "010.0.0.1",
            "::ffff:1.2.3.4",
            "fd00::1",
            "1e18Ei",
            "-5",
            "9999999999999E",
            "2024-01-01T00:00:00Z",
            "é-",
            "ü",
            "Local",
        ])
        .prop_map(Value::from),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(proptest::sample::select(KEYS.to_vec()), inner, 0..5)
                .prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_object_is_accepted_or_rejected(
        kind in proptest::sample::select(KINDS.to_vec()),
        first in tree(),
        second in tree(),
        status in any::<bool>(),
    ) {
        let resource = resource(kind);
        let mut ips = crate::rules::cluster_ips();
        let mut given = base(kind);
        json_patch::merge(&mut given, &first);
        let made = strategy::decode(resource, given)
            .and_then(|decided| strategy::before_create(resource, decided.object))
            .and_then(|mut decided| {
                if kind == "Service" {
                    ips.allocate(None, &mut decided.object)?;
                }
                Ok(decided.object)
            });
        let old = match made {
            Ok(object) => object,
            Err(refusal) => {
                prop_assert!(matches!(refusal.code, 400 | 422 | 500), "{refusal:?}");
                base(kind)
            }
        };
        let mut given = old.clone();
        json_patch::merge(&mut given, &second);
        let part = if status { Subresource::Status } else { Subresource::None };
        let changed = strategy::decode(resource, given)
            .and_then(|decided| strategy::before_update(resource, &old, decided.object, part))
            .and_then(|mut decided| {
                if kind == "Service" {
                    ips.allocate(Some(&old), &mut decided.object)?;
                }
                Ok(decided.object)
            });
        if let Err(refusal) = changed {
            prop_assert!(matches!(refusal.code, 400 | 422 | 500), "{refusal:?}");
        }
    }
}

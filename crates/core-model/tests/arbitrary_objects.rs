//! Random objects of the kinds that controllers read, with the fields that views have and some that
//! they skip. The tests of the informer's encodings include this file.

use kube_endpoint_core_model::Timestamp;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Value, json};

fn word() -> impl Strategy<Value = String> {
    "[a-z]{1,8}"
}

fn labels() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        word(),
        Just("topology.kubernetes.io/zone".to_owned()),
        Just("node-role.kubernetes.io/control-plane".to_owned()),
        Just("service.kubernetes.io/topology-mode".to_owned()),
        Just("kubernetes.io/service-name".to_owned()),
    ];
    prop::collection::btree_map(key, "[a-z]{0,5}", 0..4).prop_map(|map| json!(map))
}

fn time() -> impl Strategy<Value = Value> {
    of(0i64..4_000_000_000).prop_map(|it| it.map_or(Value::Null, |seconds| json!(jiff(seconds))))
}

fn jiff(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap().to_string()
}

fn metadata() -> impl Strategy<Value = Value> {
    (labels(), labels(), of(0i64..99), time(), prop::collection::vec((word(), any::<Option<bool>>()), 0..3), prop::collection::vec("[a-z]{1,5}/[a-z]{1,5}", 0..3))
        .prop_map(|(labels, annotations, generation, created, owners, finalizers)| {
            let owners: Vec<Value> = owners
                .into_iter()
                .map(|(name, controller)| json!({"apiVersion": "v1", "kind": "Service", "name": name, "uid": format!("u-{name}"), "controller": controller}))
                .collect();
            json!({"labels": labels, "annotations": annotations, "generation": generation, "creationTimestamp": created,
                "ownerReferences": owners, "finalizers": finalizers,
                "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}]})
        })
}

fn ip() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("10.0.0.1".to_owned()),
        Just("10.0.0.300".to_owned()),
        Just("fd00::1".to_owned()),
        Just("010.0.0.2".to_owned())
    ]
}

fn container() -> impl Strategy<Value = Value> {
    let port = (of(word()), 1..65536i32, of(word())).prop_map(
        |(name, port, protocol)| json!({"name": name, "containerPort": port, "protocol": protocol}),
    );
    let probe = || of(Just(json!({"httpGet": {"port": 80}})));
    (prop::collection::vec(port, 0..3), of(prop_oneof![Just("Always"), Just("OnFailure")]), labels(), "[ab]", probe(), probe()).prop_map(|(ports, policy, env, name, startup, readiness)| {
        json!({"name": name, "image": "i", "ports": ports, "restartPolicy": policy, "startupProbe": startup, "readinessProbe": readiness,
            "env": env.as_object().unwrap().iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>(),
            "resources": {"requests": {"cpu": "100m"}}})
    })
}

fn condition() -> impl Strategy<Value = Value> {
    (prop_oneof![Just("Ready"), Just("Initialized"), Just("PodScheduled")], prop_oneof![Just("True"), Just("False"), Just("Unknown")], time())
        .prop_map(|(kind, status, time)| json!({"type": kind, "status": status, "lastTransitionTime": time, "message": "m"}))
}

fn container_state() -> impl Strategy<Value = Value> {
    let ended = (any::<i32>(), of(word()), of(word()), time())
        .prop_map(|(code, reason, message, time)| json!({"exitCode": code, "reason": reason, "message": message, "finishedAt": time}));
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        (of(word()), of(word()))
            .prop_map(|(reason, message)| json!({"waiting": {"reason": reason, "message": message}})),
        time().prop_map(|time| json!({"running": {"startedAt": time}})),
        ended.prop_map(|ended| json!({"terminated": ended})),
    ]
}

fn container_statuses() -> impl Strategy<Value = Value> {
    let one = ("[abc]", any::<bool>(), any::<Option<bool>>(), -1..9i32, container_state(), container_state())
        .prop_map(|(name, ready, started, restarts, state, last)| {
            json!({"name": name, "ready": ready, "started": started, "restartCount": restarts, "state": state, "lastState": last,
                "image": "i", "imageID": "x"})
        });
    prop::collection::vec(one, 0..3).prop_map(Value::from)
}

fn pod() -> impl Strategy<Value = Value> {
    let gates = prop::collection::vec(word(), 0..2);
    let spec = (prop::collection::vec(container(), 0..3), prop::collection::vec(container(), 0..3), of(word()), of(word()), of(word()), gates)
        .prop_map(|(containers, init, node, hostname, subdomain, gates)| {
            let of_type = |field: &str| gates.iter().map(|gate| json!({field: gate})).collect::<Vec<_>>();
            json!({"containers": containers, "initContainers": init, "nodeName": node, "hostname": hostname, "subdomain": subdomain,
                "hostNetwork": gates.len() == 1, "readinessGates": of_type("conditionType"), "schedulingGates": of_type("name"),
                "volumes": [{"name": "v", "emptyDir": {}}]})
        });
    let status = (
        of("[A-Z][a-z]{1,6}|Running|Failed|Succeeded|Pending"),
        of(ip()),
        prop::collection::vec(ip(), 0..3),
        prop::collection::vec(condition(), 0..4),
        (of(word()), of(word()), container_statuses(), container_statuses()),
    )
        .prop_map(|(phase, pod_ip, ips, conditions, (reason, message, init, main))| {
            let ips: Vec<Value> = ips.into_iter().map(|ip| json!({"ip": ip})).collect();
            json!({"phase": phase, "podIP": pod_ip, "podIPs": ips, "conditions": conditions,
                "reason": reason, "message": message, "initContainerStatuses": init, "containerStatuses": main})
        });
    (metadata(), spec, status, time()).prop_map(|(mut metadata, spec, status, deleted)| {
        metadata["deletionTimestamp"] = deleted;
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    })
}

fn service() -> impl Strategy<Value = Value> {
    let target =
        prop_oneof![any::<i32>().prop_map(|port| json!(port)), word().prop_map(Value::from), Just(json!(""))];
    let port = (of(word()), any::<i32>(), target, of(word()), of("[a-z]{0,4}")).prop_map(|(name, port, target, protocol, app)| {
        json!({"name": name, "port": port, "targetPort": target, "protocol": protocol, "appProtocol": app})
    });
    let selector = prop::collection::btree_map(word(), word(), 1..3);
    let families = prop::collection::vec(prop_oneof![Just("IPv4"), Just("IPv6")], 0..3);
    let policy = || of(prop_oneof![Just("Local"), Just("Cluster")]);
    let access = (
        policy(),
        policy(),
        of(prop_oneof![Just(0), Just(30000)]),
        prop::collection::vec(ip(), 0..3),
        of(prop_oneof![Just("VIP"), Just("Proxy")]),
        of(ip()),
    )
        .prop_map(|(internal, external, node_port, ips, mode, ingress)| {
            json!({
                "internal": internal, "external": external, "nodePort": node_port, "ips": ips,
                "status": {"loadBalancer": {"ingress": [{"ip": ingress, "hostname": "h", "ipMode": mode}]}},
            })
        });
    (metadata(), prop::collection::vec(port, 0..3), of(selector), families, of(prop_oneof![Just("ExternalName"), Just("ClusterIP")]), any::<bool>(), of(word()), of(ip()), access)
        .prop_map(|(metadata, mut ports, selector, families, kind, not_ready, distribution, ip, access)| {
            ports.iter_mut().for_each(|port| port["nodePort"] = access["nodePort"].clone());
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports, "selector": selector,
                "ipFamilies": families, "type": kind, "publishNotReadyAddresses": not_ready, "trafficDistribution": distribution, "clusterIP": ip,
                "internalTrafficPolicy": access["internal"], "externalTrafficPolicy": access["external"], "externalIPs": access["ips"],
                "clusterIPs": access["ips"], "healthCheckNodePort": access["nodePort"]},
                "status": access["status"]})
        })
}

fn node() -> impl Strategy<Value = Value> {
    let taint = prop_oneof![Just("NoSchedule"), Just("PreferNoSchedule"), Just("NoExecute")];
    let taint = taint.prop_map(|effect| json!({"key": "k", "effect": effect}));
    let spec = (any::<Option<bool>>(), prop::collection::vec(taint, 0..2))
        .prop_map(|(closed, taints)| json!({"unschedulable": closed, "taints": taints}));
    (metadata(), prop::collection::vec(condition(), 0..3), of("[0-9]{1,3}m|[0-9]|[0-9]e3"), spec).prop_map(|(metadata, conditions, cpu, spec)| {
        let cpu = cpu.map_or(json!({}), |cpu| json!({"cpu": cpu, "memory": "1Gi"}));
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": {"conditions": conditions, "allocatable": cpu}})
    })
}

fn reference() -> impl Strategy<Value = Value> {
    (word(), of(word()), of(word())).prop_map(|(name, uid, version)| {
        json!({"kind": "Pod", "namespace": "n", "name": name, "uid": uid, "resourceVersion": version})
    })
}

fn slice() -> impl Strategy<Value = Value> {
    let hints = prop::collection::vec(word(), 0..3).prop_map(|names| {
        let names: Vec<Value> = names.into_iter().map(|name| json!({"name": name})).collect();
        json!({"forZones": names, "forNodes": names})
    });
    let conditions = (any::<Option<bool>>(), any::<Option<bool>>(), any::<Option<bool>>())
        .prop_map(|(ready, serving, terminating)| json!({"ready": ready, "serving": serving, "terminating": terminating}));
    let endpoint = (prop::collection::vec(ip(), 0..3), conditions, of("[a-z]{0,4}"), of(reference()), of(word()), of("[a-z]{0,3}"), of(hints), labels())
        .prop_map(|(addresses, conditions, hostname, target, node, zone, hints, topology)| {
            json!({"addresses": addresses, "conditions": conditions, "hostname": hostname, "targetRef": target, "nodeName": node,
                "zone": zone, "hints": hints, "deprecatedTopology": topology})
        });
    let port = (of("[a-z]{0,4}"), of(any::<i32>()), of(word()), of(word()))
        .prop_map(|(name, port, protocol, app)| json!({"name": name, "port": port, "protocol": protocol, "appProtocol": app}));
    (metadata(), prop_oneof![Just("IPv4"), Just("IPv6"), Just("FQDN")], prop::collection::vec(endpoint, 0..4), prop::collection::vec(port, 0..3))
        .prop_map(|(metadata, address_type, endpoints, ports)| {
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": address_type,
                "endpoints": endpoints, "ports": ports})
        })
}

fn endpoints() -> impl Strategy<Value = Value> {
    let addresses = || {
        let address = (ip(), of("[a-z]{0,4}"), of(word()), of(reference()))
            .prop_map(|(ip, hostname, node, target)| json!({"ip": ip, "hostname": hostname, "nodeName": node, "targetRef": target}));
        prop::collection::vec(address, 0..3)
    };
    let port = (of(word()), any::<i32>(), of(word()), of("[a-z]{0,3}"))
        .prop_map(|(name, port, protocol, app)| json!({"name": name, "port": port, "protocol": protocol, "appProtocol": app}));
    let subset = (addresses(), addresses(), prop::collection::vec(port, 0..3))
        .prop_map(|(ready, not_ready, ports)| json!({"addresses": ready, "notReadyAddresses": not_ready, "ports": ports}));
    (metadata(), prop::collection::vec(subset, 0..3)).prop_map(|(metadata, subsets)| {
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets})
    })
}

/// Returns an object without a name.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    prop_oneof![pod(), service(), node(), slice(), endpoints()]
}

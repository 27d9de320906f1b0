//! The objects of the simulated cluster, identified by numbers.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::history::{Readiness, Retirement, Rule, TargetPort};

/// The annotation of a Service that says if it has Endpoints.
pub(crate) const RETIREMENT: &str = "kube-endpoint-manager.github.io/endpoints";
/// How long a rehearsal lasts.
const REHEARSAL: SignedDuration = SignedDuration::from_mins(5);

/// Returns the value of this annotation, or null to remove it.
pub(crate) fn retirement(setting: Retirement, now: Timestamp) -> Value {
    match setting {
        Retirement::None => Value::Null,
        Retirement::Rehearsal => {
            let end = now.saturating_add(REHEARSAL).unwrap_or(now);
            format!("retired-until={end}").into()
        }
        Retirement::Mistyped => "retierd".into(),
        Retirement::Retired | Retirement::Published => setting.word().into(),
    }
}

/// Returns the namespace of the Service or pod with this number.
pub(crate) fn namespace(number: u8) -> &'static str {
    if number % 4 == 3 { namespace_name(1) } else { namespace_name(0) }
}

/// Returns the name of a namespace.
pub(crate) fn namespace_name(namespace: u8) -> &'static str {
    if namespace == 0 { "default" } else { "team" }
}

pub(crate) fn ports(ports: u8) -> Value {
    match ports {
        0 => json!([{"name": "web", "port": 80, "targetPort": "web"}, {"name": "raw", "port": 81}]),
        1 => json!([{"name": "web", "port": 80, "targetPort": 8080}]),
        2 => json!([{"name": "raw", "port": 81, "protocol": "UDP"}]),
        // Only headless Services may have no ports.
        _ => json!([]),
    }
}

/// Returns ports. One of them leads to this target.
pub(crate) fn ports_to(target: TargetPort) -> Value {
    let word = target.word();
    let target = word.parse::<u16>().map_or_else(|_| json!(word), |number| json!(number));
    json!([{"name": "web", "port": 80, "targetPort": target}, {"name": "raw", "port": 81}])
}

pub(crate) fn families(families: u8) -> Value {
    match families {
        0 => json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}),
        1 => json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}),
        _ => json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}),
    }
}

pub(crate) fn service(name: u8, app: Option<u8>, headless: bool, unready: bool, with_families: u8) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("s{name}"), "namespace": namespace(name)},
        "spec": {"ports": ports(0), "publishNotReadyAddresses": unready, "selector": selector(app)},
    });
    for (field, value) in families(with_families).as_object().into_iter().flatten() {
        service["spec"][field] = value.clone();
    }
    if headless {
        service["spec"]["clusterIP"] = "None".into();
    }
    service
}

/// Returns the merge patch of a selector: all selectors have the same single key.
pub(crate) fn selector(app: Option<u8>) -> Value {
    app.map_or(Value::Null, |app| json!({"app": format!("a{app}")}))
}

/// The fields in which pods differ.
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) namespace: &'static str,
    /// Three numbers below 256, for the addresses.
    pub(crate) address: [u8; 3],
    pub(crate) app: u8,
    pub(crate) ready: bool,
    pub(crate) node: u8,
    pub(crate) terminating: bool,
    /// The numbers of its ports `web` and `alt`, if it has them.
    pub(crate) ports: Option<[u16; 2]>,
}

impl Pod {
    /// Returns a pod with a number. `life` distinguishes pods of the same name. Pods with an odd
    /// number lack named ports; the others have four pairs of numbers for two names.
    pub(crate) fn numbered(pod: u8, app: u8, ready: bool, node: u8, life: u8, terminating: bool) -> Self {
        Self {
            name: format!("p{pod}"),
            namespace: namespace(pod),
            address: [1, life, pod],
            app,
            ready,
            node,
            terminating,
            ports: match pod % 8 {
                0 => Some([8080, 9090]),
                2 => Some([9090, 8080]),
                4 => Some([8080, 8080]),
                6 => Some([9090, 9090]),
                _ => None,
            },
        }
    }

    /// Returns one of the many pods of a scaled app.
    pub(crate) fn scaled(app: u8, number: u16, ready: bool) -> Self {
        let [high, low] = number.to_be_bytes();
        Self {
            name: format!("x{app}-{number}"),
            namespace: "default",
            address: [2 + 100 * app + high, 1, low],
            app,
            ready,
            node: (number % 4) as u8,
            terminating: false,
            ports: Some([8080, 9090]),
        }
    }

    pub(crate) fn uid(&self) -> String {
        format!("{}-{}", self.name, self.address[1])
    }

    pub(crate) fn object(&self) -> Value {
        let [high, middle, low] = self.address;
        let (v4, v6) = (format!("10.{high}.{middle}.{low}"), format!("fd00::{high}:{middle}:{low}"));
        let ports = self.ports.map_or_else(
            || json!([]),
            |[web, alt]| {
                json!([{"name": "web", "containerPort": web}, {"name": "alt", "containerPort": alt}])
            },
        );
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "uid": self.uid(),
                "labels": {"app": format!("a{}", self.app)},
            },
            "spec": {
                "nodeName": format!("n{}", self.node),
                "containers": [{"name": "web", "image": "example.invalid/web", "ports": ports}],
            },
            "status": {
                "phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}],
                "conditions": [{"type": "Ready", "status": if self.ready { "True" } else { "False" }}],
            },
        });
        if self.terminating {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        }
        pod
    }
}

pub(crate) fn node(name: u8, zone: u8) -> Value {
    let labels = match zone {
        0 => json!({}),
        zone => json!({"topology.kubernetes.io/zone": format!("z{zone}")}),
    };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{name}"), "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}},
    })
}

/// Returns Endpoints of a Service without a selector.
pub(crate) fn endpoints(service: u8, addresses: &[u8], families: u8) -> Value {
    let of = |number: &u8| {
        let (v4, v6) = (format!("192.0.2.{number}"), format!("2001:db8::{number}"));
        match families {
            0 => vec![json!({"ip": v4})],
            1 => vec![json!({"ip": v6})],
            _ => vec![json!({"ip": v4}), json!({"ip": v6})],
        }
    };
    let addresses: Vec<Value> = addresses.iter().flat_map(of).collect();
    let subset = json!({"addresses": addresses, "ports": [{"name": "web", "port": 9376, "protocol": "TCP"}]});
    let subsets = if addresses.is_empty() { json!([]) } else { json!([subset]) };
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": format!("s{service}"), "namespace": namespace(service)}, "subsets": subsets,
    })
}

/// Returns Endpoints with the label of the endpoints controller.
pub(crate) fn labelled_endpoints(service: u8) -> Value {
    let mut endpoints = endpoints(service, &[1], 0);
    endpoints["metadata"]["labels"] = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    endpoints
}

/// Returns a slice that another controller manages.
pub(crate) fn foreign_slice(service: u8, number: u8) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("foreign-{service}-{number}"), "namespace": namespace(service),
            "labels": {
                "kubernetes.io/service-name": format!("s{service}"),
                "endpointslice.kubernetes.io/managed-by": "another-controller",
            },
        },
        "addressType": "IPv4", "ports": [], "endpoints": [{"addresses": [format!("198.51.100.{number}")]}],
    })
}

/// The annotation of a Service that names an EndpointSelector.
pub(crate) const NAMES_SELECTOR: &str = "kube-endpoint-manager.github.io/endpoint-selector";

/// Returns the name of an EndpointSelector. It exists in the namespace of its number.
pub(crate) fn selector_name(selector: u8) -> String {
    format!("e{selector}")
}

/// Returns an EndpointSelector.
pub(crate) fn endpoint_selector(selector: u8, rule: Rule, app: u8, readiness: Readiness) -> Value {
    let expression = |key: &str, operator: &str| json!([{"key": key, "operator": operator}]);
    let app = format!("a{app}");
    let selects = match rule {
        Rule::App => json!({"matchLabels": {"app": app}}),
        Rule::AnyApp => {
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a0", "a1"]}]})
        }
        Rule::Stable => json!({
            "matchLabels": {"app": app},
            "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["t2", "t3"]}],
        }),
        Rule::Tracked => json!({"matchExpressions": expression("track", "Exists")}),
        Rule::Untracked => json!({"matchExpressions": expression("track", "DoesNotExist")}),
        Rule::Nobody => json!({"matchLabels": {"app": "mistyped"}}),
        // The schema does not check keys of matchLabels.
        Rule::Invalid => json!({"matchLabels": {"not a key": app}}),
    };
    let readiness = match readiness {
        Readiness::AllReady => Value::Null,
        Readiness::Condition => json!({"condition": LEADS}),
        Readiness::Newest => json!({"condition": LEADS, "pick": "Newest"}),
        Readiness::Lease => json!({"lease": {"name": lease_name(selector)}}),
        Readiness::Followers => json!({"lease": {"name": lease_name(0), "role": "Follower"}}),
    };
    let mut object = json!({
        "apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": selector_name(selector), "namespace": namespace(selector)},
        "spec": {"selector": selects},
    });
    if !readiness.is_null() {
        object["spec"]["readiness"] = readiness;
    }
    object
}

/// The type of the condition by which EndpointSelectors choose pods.
pub(crate) const LEADS: &str = "sim.example/leads";

/// Returns the name of a Lease. It exists in the namespace of its number.
pub(crate) fn lease_name(lease: u8) -> String {
    format!("l{lease}")
}

/// Returns the Service and the Endpoints that an API server makes for itself.
pub(crate) fn kubernetes() -> [Value; 2] {
    let metadata = json!({"name": "kubernetes", "namespace": "default"});
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata});
    service["spec"] = json!({"ports": [{"name": "https", "port": 443, "targetPort": 6443}]});
    let mut endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata});
    endpoints["metadata"]["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    endpoints["subsets"] = json!([{
        "addresses": [{"ip": "192.0.2.250"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    }]);
    [service, endpoints]
}

//! The content of a cluster: the numbers of Services, pods and nodes, the Services that select a
//! pod, and the objects themselves.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The number of pods with addresses of their own in one range.
const MAX_PODS: usize = 1_000_000;

/// The time at which pods became ready that no change has flipped.
pub(crate) const LONG_AGO: &str = "2024-01-01T00:00:00Z";

/// The sizes of a cluster. Its pods have numbers, and belong to the small Services in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Workload {
    /// Services, without the large one.
    pub(crate) services: usize,
    pub(crate) pods: usize,
    /// The number of pods that the large Service selects, too: the first ones. 0 if there is no
    /// such Service.
    pub(crate) big: usize,
    pub(crate) nodes: usize,
    /// The number of namespaces of the Services.
    pub(crate) namespaces: usize,
}

impl Workload {
    /// Checks the sizes. The error names the fault.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.services == 0 || self.pods == 0 || self.nodes == 0 || self.namespaces == 0 {
            return Err("--services, --pods, --nodes and --namespaces must be at least 1".into());
        }
        if self.namespaces > self.services {
            return Err(format!(
                "--namespaces={} is more than --services={}; each namespace needs a Service",
                self.namespaces, self.services
            ));
        }
        if self.pods > MAX_PODS {
            return Err(format!("{} pods are too many; at most {MAX_PODS} have addresses", self.pods));
        }
        if self.big > self.pods {
            return Err(format!(
                "--big={} is more than --pods={}; the pods of the large Service are among them",
                self.big, self.pods
            ));
        }
        if self.big > 0 && self.namespaces > 1 {
            return Err("--big needs --namespaces=1: a Service selects pods of its own namespace only".into());
        }
        Ok(())
    }

    /// Returns the number of endpoints that slices must hold in the end.
    pub(crate) fn endpoints_in_slices(&self) -> usize {
        self.pods + self.big
    }

    /// Returns the number of addresses that Endpoints must hold in the end: at most 1,000 for each
    /// Service.
    pub(crate) fn addresses_in_endpoints(&self) -> usize {
        let (each, rest) = (self.pods / self.services, self.pods % self.services);
        let limited = |count: usize| count.min(1_000);
        rest * limited(each + 1) + (self.services - rest) * limited(each) + limited(self.big)
    }

    /// Returns the namespace of a Service.
    pub(crate) fn namespace_of_service(&self, service: usize) -> usize {
        service % self.namespaces
    }

    /// Returns the number of the small Service that selects a pod.
    pub(crate) fn service_of_pod(&self, pod: usize) -> usize {
        pod % self.services
    }

    /// Returns the namespace of a pod.
    pub(crate) fn namespace_of_pod(&self, pod: usize) -> usize {
        self.namespace_of_service(self.service_of_pod(pod))
    }

    /// Returns the sizes in one line. Namespaces carry it, so that nobody uses the objects for
    /// another workload.
    pub(crate) fn shape(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the sizes for people.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!(
            "{}, {}, {}, {}",
            counted(self.namespaces, "namespace"),
            counted(self.services, "Service"),
            counted(self.pods, "pod"),
            counted(self.nodes, "node")
        );
        if self.big > 0 {
            text += &format!(", one more Service over {} of these", counted(self.big, "pod"));
        }
        text
    }
}

/// Returns a count with separators of thousands and the noun in singular or plural.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}

/// Returns a number with separators of thousands.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The names of objects, which all begin with the prefix.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) prefix: String,
}

impl Names {
    /// Returns the name of a namespace: the prefix alone if it is the only one.
    pub(crate) fn namespace(&self, workload: &Workload, number: usize) -> String {
        if workload.namespaces == 1 { self.prefix.clone() } else { format!("{}-{number}", self.prefix) }
    }

    /// Returns a Service.
    pub(crate) fn service(&self, number: usize) -> String {
        format!("{}-s{number}", self.prefix)
    }

    /// Returns the large Service.
    pub(crate) fn big(&self) -> String {
        format!("{}-big", self.prefix)
    }

    /// Returns a node.
    pub(crate) fn node(&self, number: usize) -> String {
        format!("{}-node-{number}", self.prefix)
    }

    /// Returns the name of a pod.
    pub(crate) fn pod(&self, number: usize) -> String {
        format!("{}-p{number}", self.prefix)
    }

    /// Returns the number of a pod.
    pub(crate) fn pod_number(&self, name: &str) -> Option<usize> {
        name.strip_prefix(&self.prefix)?.strip_prefix("-p")?.parse().ok()
    }

    /// Returns true if an object of this name is one of ours.
    pub(crate) fn is_ours(&self, name: &str) -> bool {
        name.strip_prefix(&self.prefix).is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Returns the address of a pod.
pub(crate) fn address(number: usize) -> String {
    format!("10.{}.{}.{}", 64 + number / 62_500, number / 250 % 250, number % 250 + 1)
}

/// Returns a Service.
pub(crate) fn service(name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": selector, "clusterIP": "None", "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    })
}

/// Returns the selector of a Service.
pub(crate) fn selector_of_service(number: usize) -> Value {
    json!({"app": format!("s{number}")})
}

/// Returns the selector of the large Service.
pub(crate) fn selector_of_big() -> Value {
    json!({"tier": "all"})
}

/// Returns a node in one of three zones.
pub(crate) fn node(name: &str, number: usize, owner: (&str, &str)) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": format!("z{}", number % 3), owner.0: owner.1}},
    })
}

/// Returns the status of a node that is ready.
pub(crate) fn node_status() -> Value {
    json!({"status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Returns a pod of the usual size. A server stores it without status.
pub(crate) fn pod(workload: &Workload, names: &Names, number: usize) -> Value {
    let labels = json!({
        "app": format!("s{}", workload.service_of_pod(number)),
        "tier": if number < workload.big { "all" } else { "rest" },
        "pod-template-hash": "abc",
        "team": format!("t{}", number % 7),
    });
    let env: Vec<Value> =
        (0..15).map(|at| json!({"name": format!("E{at}"), "value": "v".repeat(20)})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": names.pod(number), "labels": labels, "annotations": {"note": "x".repeat(200)}},
        "spec": {
            "nodeName": names.node(number % workload.nodes),
            "containers": [{
                "name": "app", "image": "example.invalid/app:1", "env": env,
                "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }],
        },
    })
}

/// Returns the status of a running pod, as a merge patch.
pub(crate) fn pod_status(address: &str, ready: bool, since: &str) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}],
    }})
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn workload() -> Workload {
        Workload { services: 3, pods: 10, big: 4, nodes: 2, namespaces: 1 }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let check = |change: fn(&mut Workload)| {
            let mut workload = workload();
            change(&mut workload);
            workload.check().err().unwrap_or_else(|| "fine".into())
        };
        let found = [
            check(|_| {}),
            check(|it| it.nodes = 0),
            check(|it| it.namespaces = 4),
            check(|it| it.big = 11),
            check(|it| it.namespaces = 2),
            check(|it| it.pods = 1_000_001),
        ];
        insta::assert_snapshot!(found.join("\n"));
    }

    #[test]
    fn endpoints_hold_a_thousand_addresses_for_each_service() {
        let check = |workload: Workload, want| assert_eq!(workload.addresses_in_endpoints(), want);
        check(workload(), 14);
        check(Workload { services: 2, pods: 4_500, big: 1_200, ..workload() }, 3_000);
        check(Workload { services: 2, pods: 1_999, big: 0, ..workload() }, 1_999);
    }

    #[test]
    fn names_tell_what_an_object_is() {
        let names = Names { prefix: "scale".into() };
        assert_eq!(names.pod_number(&names.pod(12)), Some(12));
        assert_eq!(names.pod_number("scale-p"), None);
        assert_eq!(names.pod_number("other-p1"), None);
        assert!(names.is_ours("scale-big") && !names.is_ours("scaled") && !names.is_ours("scale"));
    }

    #[test]
    fn no_two_pods_have_the_same_address() {
        let mut seen = std::collections::BTreeSet::new();
        for number in (0..200_000).chain(999_000..MAX_PODS) {
            let address = address(number);
            assert!(address.parse::<std::net::Ipv4Addr>().is_ok(), "{address}");
            assert!(seen.insert(address), "pod {number}");
        }
    }
}

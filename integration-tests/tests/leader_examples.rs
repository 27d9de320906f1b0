//! The examples in `examples/leader`, each on the embedded server with the manager's selector
//! controller: clients reach the leader or its followers, and a rollout waits for nobody who leads.

use std::cell::Cell;
use std::time::Duration;

use kube_endpoint_controllers::{ControllerName, Gates};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::leader_examples::{EXAMPLES, manifests, readme};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use serde_json::{Value, json};
use tokio::time::sleep;

const ANNOTATION: &str = "kube-endpoint-manager.github.io/endpoint-selector";
const UUID: &str = "6bb9b1a2-7f6c-4a43-9a54-3c1d5e0f7b21";

fn of_kind<'a>(objects: &'a [Value], kinds: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| kinds.contains(&object["kind"].as_str().unwrap()))
}

/// Returns the Deployment or StatefulSet.
fn workload(objects: &[Value]) -> &Value {
    let mut found = of_kind(objects, &["Deployment", "StatefulSet"]);
    let workload = found.next().unwrap();
    assert!(found.next().is_none());
    workload
}

/// The objects of an example on a server, with a manager.
struct Example {
    server: EmbeddedApiServer,
    _manager: RunningManager,
    objects: Vec<Value>,
    /// The `holderIdentity` that the README names.
    identity: Option<String>,
    /// The number of times that somebody has begun to lead or renewed the Lease.
    renewals: Cell<i64>,
    /// The names of the pods.
    pods: Vec<String>,
}

impl Example {
    async fn start(name: &str) -> Self {
        let objects = manifests(name);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let server = EmbeddedApiServer::builder().seed(1).track_managers().load([node]).build().unwrap();
        for object in of_kind(&objects, &["Service", "EndpointSelector"]) {
            server.create(object.clone()).await.unwrap();
        }
        let readme = readme(name);
        let identity = readme.split_once("`holderIdentity`: `").and_then(|(_, rest)| rest.split_once('`'));
        let identity = identity.map(|(identity, _)| identity.to_owned());
        let mut settings = settings(Gates::default());
        settings.controllers = vec![ControllerName::EndpointSelector];
        let manager = RunningManager::start(&server, &settings);
        let pods = Vec::new();
        let mut example = Self { server, _manager: manager, objects, identity, renewals: Cell::new(0), pods };
        for number in 0..workload(&example.objects)["spec"]["replicas"].as_u64().unwrap() {
            example.add_pod(number);
        }
        sleep(Duration::from_secs(2)).await;
        example
    }

    fn workload(&self) -> &Value {
        workload(&self.objects)
    }

    fn namespace(&self) -> &str {
        self.workload()["metadata"]["namespace"].as_str().unwrap()
    }

    /// Adds a pod of the template, which is ready as soon as it runs. A StatefulSet has its numbers
    /// again, and a Deployment has other names.
    fn add_pod(&mut self, number: u64) {
        let workload = self.workload();
        let of = workload["metadata"]["name"].as_str().unwrap();
        let name = match workload["kind"].as_str() {
            Some("StatefulSet") => format!("{of}-{number}"),
            _ => format!("{of}-6c9f7d8b5c-x2x{}k", self.pods.len()),
        };
        let mut pod = workload["spec"]["template"].clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(self.namespace());
        pod["metadata"]["uid"] = json!(format!("{name}-{}", self.pods.len()));
        pod["spec"]["nodeName"] = json!("node");
        let address = format!("10.1.0.{}", self.pods.len() + 1);
        pod["status"] = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]});
        self.server.load([pod]).unwrap();
        self.pods.push(name);
    }

    async fn delete_pod(&self, name: &str) {
        let client = kube::Client::new(self.server.service(), "default");
        let pods = kube::Api::<k8s_openapi::api::core::v1::Pod>::namespaced(client, self.namespace());
        let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
        pods.delete(name, &now).await.unwrap();
    }

    /// Lets a pod begin to lead, or go on: by the Lease of the selectors, or by its condition.
    fn lead(&self, pod: &str) {
        self.renewals.set(self.renewals.get() + 1);
        let time = self.server.now() + Duration::from_secs(self.renewals.get().unsigned_abs());
        for selector in of_kind(&self.objects, &["EndpointSelector"]) {
            let readiness = &selector["spec"]["readiness"];
            let object = match (&self.identity, readiness["condition"].as_str()) {
                (None, Some(condition)) => {
                    let mut pod = self.server.get("pods", self.namespace(), pod).unwrap();
                    let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
                    if conditions.iter().any(|it| it["type"] == condition) {
                        continue;
                    }
                    conditions.push(json!({"type": condition, "status": "True",
                        "lastTransitionTime": format!("{time:.0}")}));
                    pod
                }
                (Some(identity), None) => {
                    let identity = identity.replace("POD", pod).replace("UUID", UUID);
                    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                        "metadata": {"name": readiness["lease"]["name"], "namespace": self.namespace()},
                        "spec": {"holderIdentity": identity, "leaseDurationSeconds": 15,
                            "renewTime": format!("{time:.6}")}})
                }
                other => panic!("{other:?}"),
            };
            self.server.load([object]).unwrap();
        }
    }

    /// Returns the pods that are ready endpoints of a Service, sorted.
    fn ready(&self, service: &str) -> Vec<String> {
        let mut slices = self.server.list("endpointslices");
        slices.retain(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == service);
        let endpoints = slices.iter().flat_map(|it| it["endpoints"].as_array().unwrap());
        let ready = endpoints.filter(|it| it["conditions"]["ready"] == true);
        let mut ready: Vec<String> =
            ready.map(|it| it["targetRef"]["name"].as_str().unwrap().to_owned()).collect();
        ready.sort();
        ready
    }

    /// Returns the Services that name an EndpointSelector, and true for those of followers.
    fn services(&self) -> Vec<(&str, bool)> {
        let named = |service: &Value| service["metadata"]["annotations"][ANNOTATION].clone();
        let services = of_kind(&self.objects, &["Service"]).filter(|it| named(it).is_string());
        services
            .map(|service| {
                assert!(service["spec"]["selector"].is_null(), "{service}");
                let mut selectors = of_kind(&self.objects, &["EndpointSelector"]);
                let selector = selectors.find(|it| it["metadata"]["name"] == named(service)).unwrap();
                let role = &selector["spec"]["readiness"]["lease"]["role"];
                (service["metadata"]["name"].as_str().unwrap(), role == "Follower")
            })
            .collect()
    }

    /// Passes some seconds in which a pod leads. No moment has two leaders, or no follower.
    async fn pass(&self, leader: &str, seconds: u64) {
        for moment in 0..seconds * 100 {
            if moment % 200 == 0 {
                self.lead(leader);
            }
            sleep(Duration::from_millis(10)).await;
            for (service, has_followers) in self.services() {
                let ready = self.ready(service);
                let is_right = if has_followers { !ready.is_empty() } else { ready.len() < 2 };
                assert!(is_right, "{service} at {moment}: {ready:?}");
                // The first Lease proves nothing until it is renewed.
                if moment > 10 && self.renewals.get() > 2 {
                    self.is_led_by(leader);
                }
            }
        }
        self.is_led_by(leader);
    }

    /// Asserts that clients of each Service reach exactly the leader, or exactly all others.
    fn is_led_by(&self, leader: &str) {
        for (service, has_followers) in self.services() {
            let pods = self.server.list("pods").into_iter();
            let mut want: Vec<String> =
                pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            want.retain(|pod| (pod == leader) != has_followers);
            want.sort();
            assert_eq!(self.ready(service), want, "{service}");
        }
    }
}

/// Each replica leads once, then a rollout replaces one that does not lead, and the new pod leads,
/// and dies.
async fn flow(name: &str) {
    let mut example = Example::start(name).await;
    let pods = example.pods.clone();
    for pod in pods.iter().chain([&pods[0]]).filter(|_| name != "condition") {
        example.pass(pod, 6).await;
    }
    if name == "condition" {
        // The pods before need not clear their conditions, and so do not lead again.
        for pod in &pods {
            example.pass(pod, 6).await;
        }
    }
    let leads = if name == "condition" { pods.last().unwrap() } else { &pods[0] };
    let (at, replaced) = pods.iter().enumerate().find(|(_, pod)| *pod != leads).unwrap();
    if example.workload()["kind"] == "StatefulSet" {
        example.delete_pod(replaced).await;
        example.add_pod(at as u64);
    } else {
        example.add_pod(at as u64);
        example.pass(leads, 4).await;
        example.delete_pod(replaced).await;
    }
    let new = example.pods.last().unwrap().clone();
    example.pass(leads, 4).await;
    example.delete_pod(leads).await;
    example.pass(&new, 6).await;
    if example.identity.is_some() {
        // It dies.
        sleep(Duration::from_secs(20)).await;
        example.is_led_by("nobody");
    }
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_chart_that_is_upgraded_reach_the_leader() {
    flow("chart").await;
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_program_that_sets_a_condition_reach_the_leader() {
    flow("condition").await;
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_deployment_reach_the_leader() {
    flow("deployment").await;
}

#[tokio::test(start_paused = true)]
async fn clients_of_an_operator_reach_the_leader() {
    flow("operator").await;
}

#[tokio::test(start_paused = true)]
async fn clients_of_a_statefulset_reach_the_leader_or_its_followers() {
    flow("statefulset").await;
}

/// Returns what makes a rollout of a workload wait for its leader.
fn waits_for_leader(workload: &Value) -> Vec<String> {
    let spec = &workload["spec"];
    let template = &spec["template"]["spec"];
    let mut found = Vec::new();
    for field in ["strategy", "updateStrategy"] {
        if !spec[field].is_null() {
            found.push(format!("{field}: {}", spec[field]));
        }
    }
    if !template["readinessGates"].is_null() {
        found.push(format!("readinessGates: {}", template["readinessGates"]));
    }
    for container in template["containers"].as_array().unwrap() {
        let probe = container["readinessProbe"].to_string();
        if ["lead", "elect", "role", "primary", "master", "lock"].iter().any(|word| probe.contains(word)) {
            found.push(format!("readinessProbe: {probe}"));
        }
    }
    found
}

#[test]
fn no_pod_has_to_lead_to_be_ready() {
    for example in EXAMPLES {
        let objects = manifests(example);
        let workload = workload(&objects);
        let containers = workload["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        assert!(containers.iter().all(|it| it["readinessProbe"].is_object()), "{example}");
        assert!(workload["spec"]["replicas"].as_u64().unwrap() > 1, "{example}");
        assert_eq!(waits_for_leader(workload), [""; 0], "{example}");
    }
    let mut wrong = workload(&manifests("deployment")).clone();
    wrong["spec"]["strategy"] = json!({"type": "Recreate"});
    let pod = &mut wrong["spec"]["template"]["spec"];
    pod["readinessGates"] = json!([{"conditionType": "shop.example/leader"}]);
    pod["containers"][0]["readinessProbe"]["httpGet"]["path"] = json!("/is-leader");
    assert_eq!(waits_for_leader(&wrong).len(), 3);
}

#[test]
fn each_readme_is_short_and_says_what_goes() {
    for example in EXAMPLES {
        let readme = readme(example);
        let words = readme.split_whitespace().count();
        assert!(words <= 150, "{example}: {words} words");
        let (_, goes) = readme.split_once("\nDelete:\n").unwrap();
        assert!(goes.lines().filter(|line| line.starts_with("- ")).count() > 2, "{example}");
    }
}

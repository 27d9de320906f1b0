//! Carries out changes of objects.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

use super::{Cluster, FIELD_MANAGER, text};
use crate::history::Change;
use crate::objects::{self, Pod, namespace, namespace_name};

/// The time after the deletion of a namespace until its pods have ended.
const KUBELET: Duration = Duration::from_millis(400);

fn collection(plural: &str, namespace: &str) -> String {
    let version = match plural {
        "endpointslices" => "apis/discovery.k8s.io/v1",
        "endpointselectors" => "apis/kube-endpoint-manager.github.io/v1alpha1",
        _ => "api/v1",
    };
    format!("/{version}/namespaces/{namespace}/{plural}")
}

/// Returns the path of an object.
pub(crate) fn path_of(plural: &str, object: &Value) -> String {
    let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    match plural {
        "nodes" | "namespaces" => format!("/api/v1/{plural}/{name}"),
        _ => format!("{}/{name}", collection(plural, namespace)),
    }
}

fn service_path(plural: &str, service: u8) -> String {
    format!("{}/s{service}", collection(plural, namespace(service)))
}

fn labels(labels: Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

/// Keeps what no writer takes back while a pod has the same uid: its deletion, and the status with
/// which it has ended.
fn go_on(before: &Value, after: &mut Value) {
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let kept = &before["metadata"][field];
        if !kept.is_null() {
            after["metadata"][field] = kept.clone();
        }
    }
    if has_ended(before) {
        after["status"] = before["status"].clone();
    }
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Ends the containers of a pod. A kubelet never shows a pod that has ended and is ready.
fn end(pod: &mut Value, phase: &str) {
    pod["status"]["phase"] = phase.into();
    pod["status"]["conditions"][0]["status"] = "False".into();
}

impl Cluster {
    async fn patch(&self, path: &str, patch: Value) {
        Self::send(&self.server, "PATCH", path, &patch).await;
    }

    pub(crate) async fn delete(server: &EmbeddedApiServer, path: &str) {
        Self::send(server, "DELETE", path, &json!({"gracePeriodSeconds": 0})).await;
    }

    /// Loads objects as they are, if their namespaces accept them.
    fn load(&self, objects: impl IntoIterator<Item = Value>) {
        let accepts = |object: &Value| match text(object, "/metadata/namespace") {
            "" => true,
            namespace => self
                .server
                .get("namespaces", "", namespace)
                .is_some_and(|it| it["metadata"]["deletionTimestamp"].is_null()),
        };
        let accepted: Vec<Value> = objects.into_iter().filter(accepts).collect();
        if let Err(error) = self.server.load(accepted) {
            panic!("the server cannot hold an object: {error}");
        }
    }

    async fn make_pod(&self, pod: &Pod) {
        let mut before = self.server.get("pods", pod.namespace, &pod.name);
        if before.as_ref().is_some_and(|before| text(before, "/metadata/uid") != pod.uid()) {
            Self::delete(&self.server, &format!("{}/{}", collection("pods", pod.namespace), pod.name)).await;
            before = None;
        }
        let mut object = pod.object();
        match before {
            Some(before) => go_on(&before, &mut object),
            // Nobody creates a pod that is being deleted.
            None if pod.terminating => {
                let mut alive = object.clone();
                for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
                    alive["metadata"].as_object_mut().and_then(|it| it.remove(field));
                }
                self.load([alive]);
            }
            None => {}
        }
        self.load([object]);
    }

    /// Changes a pod that exists.
    fn edit_pod(&self, pod: u8, edit: impl FnOnce(&mut Value)) {
        let Some(before) = self.server.get("pods", namespace(pod), &format!("p{pod}")) else { return };
        let mut object = before.clone();
        edit(&mut object);
        go_on(&before, &mut object);
        self.load([object]);
    }

    /// Replaces a pod by one with another uid.
    async fn replace_pod(&self, pod: u8, edit: impl FnOnce(&mut Value)) {
        let name = format!("p{pod}");
        let Some(mut object) = self.server.get("pods", namespace(pod), &name) else { return };
        Self::delete(&self.server, &format!("{}/{name}", collection("pods", namespace(pod)))).await;
        let uid = format!("{}-again", text(&object, "/metadata/uid"));
        object["metadata"]["uid"] = uid.into();
        edit(&mut object);
        self.load([object]);
    }

    fn nth_slice(&self, nth: u8) -> Option<Value> {
        let slices = self.server.list("endpointslices");
        slices.get(usize::from(nth) % slices.len().max(1)).cloned()
    }

    async fn add_endpoint(&self, nth: u8) {
        let Some(slice) = self.nth_slice(nth) else { return };
        let address =
            if slice["addressType"] == "IPv6" { format!("fd99::{nth}") } else { format!("10.99.0.{nth}") };
        let mut endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.push(json!({"addresses": [address], "conditions": {"ready": true}}));
        self.patch(&path_of("endpointslices", &slice), json!({"endpoints": endpoints})).await;
    }

    async fn copy_endpoint(&self, nth: u8) {
        let Some(slice) = self.nth_slice(nth) else { return };
        let Some(endpoint) = slice["endpoints"].get(0) else { return };
        let group = |it: &Value| {
            let labels = &it["metadata"]["labels"];
            let namespace = text(it, "/metadata/namespace").to_owned();
            (namespace, labels.clone(), it["addressType"].clone())
        };
        let is_other =
            |it: &&Value| group(it) == group(&slice) && it["metadata"]["name"] != slice["metadata"]["name"];
        let slices = self.server.list("endpointslices");
        let Some(other) = slices.iter().find(is_other) else { return };
        let mut endpoints = other["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.push(endpoint.clone());
        self.patch(&path_of("endpointslices", other), json!({"endpoints": endpoints})).await;
    }

    async fn with_slice(&self, nth: u8, patch: Option<Value>) {
        let Some(slice) = self.nth_slice(nth) else { return };
        let path = path_of("endpointslices", &slice);
        match patch {
            Some(patch) => self.patch(&path, patch).await,
            None => Self::delete(&self.server, &path).await,
        }
    }

    /// Ends and removes the pods with a running grace period in terminating namespaces, as their
    /// kubelets do. The namespaces end after them.
    pub(crate) async fn end_terminating_pods(server: &EmbeddedApiServer) {
        let namespaces = server.list("namespaces");
        let is_ending = |it: &Value| !it["metadata"]["deletionTimestamp"].is_null();
        let ending: Vec<&str> =
            namespaces.iter().filter(|it| is_ending(it)).map(|it| text(it, "/metadata/name")).collect();
        for pod in server.list("pods").iter().filter(|pod| is_ending(pod)) {
            if ending.contains(&text(pod, "/metadata/namespace")) {
                let mut ended = pod.clone();
                end(&mut ended, "Succeeded");
                go_on(pod, &mut ended);
                if let Err(error) = server.load([ended]) {
                    panic!("the server cannot hold an object: {error}");
                }
                Self::delete(server, &path_of("pods", pod)).await;
            }
        }
    }

    async fn scale(&self, app: u8, pods: u16) {
        let prefix = format!("x{app}-");
        let all = self.server.list("pods");
        let old: Vec<&Value> =
            all.iter().filter(|pod| text(pod, "/metadata/name").starts_with(&prefix)).collect();
        let number =
            |pod: &Value| text(pod, "/metadata/name")[prefix.len()..].parse::<u16>().unwrap_or_default();
        for pod in old.iter().filter(|pod| number(pod) >= pods) {
            Self::delete(&self.server, &path_of("pods", pod)).await;
        }
        let is_new = |wanted: &u16| !old.iter().any(|pod| number(pod) == *wanted);
        let new: Vec<u16> =
            if old.is_empty() { (0..pods).collect() } else { (0..pods).filter(is_new).collect() };
        self.load(new.into_iter().map(|number| Pod::scaled(app, number, true).object()));
    }

    /// Carries out a change.
    pub(crate) async fn change(&self, change: &Change) {
        match change.clone() {
            Change::CreateService { service, app, headless, unready, families } => {
                let object = objects::service(service, app, headless, unready, families);
                Self::send(&self.server, "POST", &collection("services", namespace(service)), &object).await;
            }
            Change::DeleteService { service } => {
                Self::delete(&self.server, &service_path("services", service)).await;
            }
            Change::ReplaceService { service, app, families } => {
                Self::delete(&self.server, &service_path("services", service)).await;
                let object = objects::service(service, app, false, false, families);
                Self::send(&self.server, "POST", &collection("services", namespace(service)), &object).await;
            }
            Change::Select { service, app } => {
                let patch = json!({"spec": {"selector": objects::selector(app)}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::LabelService { service, value } => {
                let patch = labels(json!({"v": value.to_string()}));
                self.patch(&service_path("services", service), patch).await;
            }
            Change::PublishUnready { service, unready } => {
                let patch = json!({"spec": {"publishNotReadyAddresses": unready}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::Distribute { service, close } => {
                let distribution = if close { json!("PreferClose") } else { Value::Null };
                let patch = json!({"spec": {"trafficDistribution": distribution}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::ConvertFamilies { service, dual } => {
                let path = service_path("services", service);
                let Some(before) = self.server.get("services", namespace(service), &format!("s{service}"))
                else {
                    return;
                };
                let first = before["spec"]["ipFamilies"][0].clone();
                let second = if first == "IPv6" { "IPv4" } else { "IPv6" };
                let patch = if dual {
                    json!({"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": [first, second]}})
                } else {
                    // As kubectl, this sends only the policy; the server drops the second family.
                    json!({"spec": {"ipFamilyPolicy": "SingleStack"}})
                };
                self.patch(&path, patch).await;
            }
            Change::ServicePorts { service, ports } => {
                let patch = json!({"spec": {"ports": objects::ports(ports)}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::TargetPort { service, port } => {
                let patch = json!({"spec": {"ports": objects::ports_to(port)}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::Topology { service, auto } => {
                let mode = json!({"service.kubernetes.io/topology-mode": auto.then_some("Auto")});
                let patch = json!({"metadata": {"annotations": mode}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::Pod { pod, app, ready, node, life, terminating } => {
                // A node exists before its pods, so that all syncs can succeed in the end.
                if self.server.get("nodes", "", &format!("n{node}")).is_none() {
                    self.load([objects::node(node, 1)]);
                }
                self.make_pod(&Pod::numbered(pod, app, ready, node, life, terminating)).await;
            }
            Change::Flap { pod } => {
                for status in ["False", "True"] {
                    self.edit_pod(pod, |pod| {
                        pod["status"]["phase"] = "Running".into();
                        pod["status"]["conditions"][0]["status"] = status.into();
                    });
                }
            }
            Change::RelabelPod { pod, app } => {
                self.edit_pod(pod, |pod| pod["metadata"]["labels"]["app"] = format!("a{app}").into());
            }
            Change::FinishPod { pod, failed } => {
                let phase = if failed { "Failed" } else { "Succeeded" };
                self.edit_pod(pod, |pod| pod["status"]["conditions"][0]["status"] = "False".into());
                self.edit_pod(pod, |pod| end(pod, phase));
            }
            Change::EvictPod { pod } => self.edit_pod(pod, |pod| pod["status"]["phase"] = "Failed".into()),
            Change::DeletePod { pod } => {
                Self::delete(&self.server, &format!("{}/p{pod}", collection("pods", namespace(pod)))).await;
            }
            Change::ReplacePod { pod } => self.replace_pod(pod, |_| ()).await,
            Change::ShareAddresses { pod, with } => {
                let Some(other) = self.server.get("pods", namespace(with), &format!("p{with}")) else {
                    return;
                };
                self.edit_pod(pod, |pod| {
                    for field in ["podIP", "podIPs"] {
                        pod["status"][field] = other["status"][field].clone();
                    }
                });
            }
            Change::PodPhase { pod, unknown: true } => {
                self.edit_pod(pod, |pod| pod["status"]["phase"] = "Unknown".into());
            }
            Change::PodPhase { pod, unknown: false } => {
                self.replace_pod(pod, |pod| {
                    pod["status"]["phase"] = "Pending".into();
                    pod["status"]["conditions"][0]["status"] = "False".into();
                })
                .await;
            }
            Change::PodOnNode { pod, node } => {
                self.edit_pod(pod, |pod| pod["spec"]["nodeName"] = format!("n{node}").into());
            }
            Change::Scale { app, pods } => self.scale(app, pods).await,
            Change::Ready { app, pods, ready } => {
                let exists =
                    |number: &u16| self.server.get("pods", "default", &format!("x{app}-{number}")).is_some();
                let numbers: Vec<u16> = (0..pods).filter(exists).collect();
                self.load(numbers.into_iter().map(|number| Pod::scaled(app, number, ready).object()));
            }
            Change::Node { node, zone } => self.load([objects::node(node, zone)]),
            Change::DeleteNode { node } => {
                Self::delete(&self.server, &format!("/api/v1/nodes/n{node}")).await;
                // In a real cluster another controller deletes the pods of a deleted node.
                let name = format!("n{node}");
                for pod in self.server.list("pods").iter().filter(|pod| text(pod, "/spec/nodeName") == name) {
                    Self::delete(&self.server, &path_of("pods", pod)).await;
                }
            }
            Change::RemoveNode { node } => {
                Self::delete(&self.server, &format!("/api/v1/nodes/n{node}")).await;
            }
            Change::Endpoints { service, addresses, families } => {
                let endpoints = objects::endpoints(service, &addresses, families);
                let collection = collection("endpoints", namespace(service));
                if Self::send(&self.server, "POST", &collection, &endpoints).await == 409 {
                    Self::send(&self.server, "PUT", &service_path("endpoints", service), &endpoints).await;
                }
            }
            Change::SkipMirror { service, skip } => {
                let label = json!({"endpointslice.kubernetes.io/skip-mirror": skip.then_some("true")});
                self.patch(&service_path("endpoints", service), labels(label)).await;
            }
            Change::LeftoverEndpoints { service } => {
                let mut endpoints = objects::labelled_endpoints(service);
                endpoints["metadata"]["managedFields"] = json!([{
                    "manager": FIELD_MANAGER, "operation": "Update", "apiVersion": "v1",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}},
                }]);
                self.load([endpoints]);
            }
            Change::CopiedEndpoints { service } => {
                let (collection, copied) =
                    (collection("endpoints", namespace(service)), objects::labelled_endpoints(service));
                Self::send(&self.server, "POST", &collection, &copied).await;
            }
            Change::DeleteEndpoints { service } => {
                Self::delete(&self.server, &service_path("endpoints", service)).await;
            }
            Change::EditEndpoints { service } => {
                self.patch(&service_path("endpoints", service), json!({"subsets": []})).await;
            }
            Change::DeleteSlice { nth } => self.with_slice(nth, None).await,
            Change::EmptySlice { nth } => self.with_slice(nth, Some(json!({"endpoints": []}))).await,
            Change::AddEndpoint { nth } => self.add_endpoint(nth).await,
            Change::CopyEndpoint { nth } => self.copy_endpoint(nth).await,
            Change::CopySlice { nth } => {
                if let Some(mut slice) = self.nth_slice(nth) {
                    let name = format!("{}-copy", text(&slice, "/metadata/name"));
                    let (labels, owners) =
                        (slice["metadata"]["labels"].clone(), slice["metadata"]["ownerReferences"].clone());
                    let namespace = text(&slice, "/metadata/namespace").to_owned();
                    slice["metadata"] = json!({
                        "name": name, "namespace": namespace, "labels": labels, "ownerReferences": owners,
                    });
                    let collection = collection("endpointslices", &namespace);
                    Self::send(&self.server, "POST", &collection, &slice).await;
                }
            }
            Change::LabelSlice { nth } => self.with_slice(nth, Some(labels(json!({"x": "y"})))).await,
            Change::DisownSlice { nth } => {
                self.with_slice(nth, Some(json!({"metadata": {"ownerReferences": null}}))).await;
            }
            Change::TakeSlice { nth } => {
                let label = labels(json!({"endpointslice.kubernetes.io/managed-by": "another-controller"}));
                self.with_slice(nth, Some(label)).await;
            }
            Change::ForeignSlice { service, number } => {
                let slice = objects::foreign_slice(service, number);
                let collection = collection("endpointslices", namespace(service));
                Self::send(&self.server, "POST", &collection, &slice).await;
            }
            Change::DeleteNamespace { namespace } => {
                let path = format!("/api/v1/namespaces/{}", namespace_name(namespace));
                Self::send(&self.server, "DELETE", &path, &Value::Null).await;
                let server = self.server.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(KUBELET).await;
                    Self::end_terminating_pods(&server).await;
                });
            }
            Change::CreateNamespace { namespace } => {
                let name = namespace_name(namespace);
                let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
                Self::send(&self.server, "POST", "/api/v1/namespaces", &object).await;
            }
            Change::EndpointSelector { selector, rule, app, readiness } => {
                let mut object = objects::endpoint_selector(selector, rule, app, readiness);
                let name = objects::selector_name(selector);
                let collection = collection("endpointselectors", namespace(selector));
                match self.server.get("endpointselectors", namespace(selector), &name) {
                    None => drop(Self::send(&self.server, "POST", &collection, &object).await),
                    Some(mut before) => {
                        before["spec"] = object["spec"].take();
                        Self::send(&self.server, "PUT", &format!("{collection}/{name}"), &before).await;
                    }
                }
            }
            Change::DeleteEndpointSelector { selector } => {
                let collection = collection("endpointselectors", namespace(selector));
                let path = format!("{collection}/{}", objects::selector_name(selector));
                Self::delete(&self.server, &path).await;
            }
            Change::DeleteEndpointSelectors {} => {
                for selector in self.server.list("endpointselectors") {
                    Self::delete(&self.server, &path_of("endpointselectors", &selector)).await;
                }
            }
            Change::Attach { service, selector } => {
                let names = json!({objects::NAMES_SELECTOR: objects::selector_name(selector)});
                let patch = json!({"metadata": {"annotations": names}, "spec": {"selector": null}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::HandBack { service, app } => {
                let patch = json!({
                    "metadata": {"annotations": {objects::NAMES_SELECTOR: null}},
                    "spec": {"selector": objects::selector(Some(app))},
                });
                self.patch(&service_path("services", service), patch).await;
            }
            Change::Annotate { service, selector } => {
                let names = json!({objects::NAMES_SELECTOR: selector.map(objects::selector_name)});
                let patch = json!({"metadata": {"annotations": names}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::Retire { service, setting } => {
                let value = objects::retirement(setting, self.server.now());
                let patch = json!({"metadata": {"annotations": {objects::RETIREMENT: value}}});
                self.patch(&service_path("services", service), patch).await;
            }
            Change::TrackPod { pod, track } => self.edit_pod(pod, |pod| match track {
                0 => drop(pod["metadata"]["labels"].as_object_mut().and_then(|it| it.remove("track"))),
                _ => pod["metadata"]["labels"]["track"] = format!("t{track}").into(),
            }),
            Change::AttachKubernetes { selector } => {
                let [service, endpoints] = objects::kubernetes();
                Self::send(&self.server, "POST", &collection("services", "default"), &service).await;
                Self::send(&self.server, "POST", &collection("endpoints", "default"), &endpoints).await;
                let names = json!({objects::NAMES_SELECTOR: objects::selector_name(selector)});
                let path = format!("{}/kubernetes", collection("services", "default"));
                self.patch(&path, json!({"metadata": {"annotations": names}})).await;
            }
            Change::Lead { lease, pod, identity, duration, skew } => {
                self.lead(lease, pod, identity, duration, skew);
            }
            Change::Die { lease, restarts } => {
                if let Some(ended) = self.candidates.die(lease, &self.server).filter(|_| restarts) {
                    let skew = jiff::SignedDuration::from_secs(ended.skew);
                    let start = self.server.now().saturating_add(skew).unwrap_or(self.server.now());
                    let start = start.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                    self.edit_pod(ended.pod, |pod| {
                        let before = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
                        pod["status"]["containerStatuses"] = json!([{
                            "name": "app", "image": "app", "imageID": "", "ready": true,
                            "restartCount": before.unwrap_or_default() + 1,
                            "state": {"running": {"startedAt": start}},
                        }]);
                    });
                }
            }
            Change::Release { lease } => self.release(lease),
            Change::DeleteLease { lease } => {
                let namespace = namespace(lease);
                let name = objects::lease_name(lease);
                let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}");
                Self::delete(&self.server, &path).await;
            }
            Change::Condition { pod, is_true, skew } => {
                let now = self.server.now().saturating_add(jiff::SignedDuration::from_secs(skew));
                let time = now.unwrap_or(self.server.now()).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                self.edit_pod(pod, |pod| {
                    let status = if is_true { "True" } else { "False" };
                    let condition =
                        json!({"type": objects::LEADS, "status": status, "lastTransitionTime": time});
                    if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
                        conditions.retain(|it| it["type"] != objects::LEADS);
                        conditions.push(condition);
                    }
                });
            }
            Change::Terminate { pod } => self.edit_pod(pod, |pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
            }),
        }
    }
}

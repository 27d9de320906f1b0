//! Follows the remedy of each fault to the letter, on the embedded server with its kubelet and with
//! the controllers:
//! a test carries the steps out that the explanation returns, and plays the person whom a step
//! asks. Then clients must be sent where the owner of the Service means, and no other Service may
//! have changed.

#[path = "../../../crates/explain/tests/fault_manifests.rs"]
mod fault_manifests;
mod kubectl;

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_controllers::{ControllerName, Gates};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, manifest};
use kube_endpoint_explain::{
    Code, Explanation, Known, LintOptions, Objects, Options, Remedy, Severity, Step, explain, lint,
};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use serde_json::{Value, json};

use fault_manifests::{Change, Fault, all_of, manifests, receivers};
use kubectl::{path, send};

const START: &str = "2026-01-01T00:10:00Z";

/// How long the controllers get. Writes that are this late are a fault.
const PATIENCE: Duration = Duration::from_secs(120);

/// The plurals of all kinds that an explanation reads.
const KINDS: [&str; 8] =
    ["nodes", "pods", "services", "endpoints", "endpointslices", "endpointselectors", "events", "leases"];

/// The number of addresses that an Endpoints object may hold.
const CAPACITY: usize = 1000;

/// A cluster with a fault, and with other Services.
struct Scene<'f> {
    fault: &'f Fault,
    server: EmbeddedApiServer,
    manager: RunningManager,
    known: Known,
}

/// Returns a Service whose endpoints somebody wrote, and, if there is a node, one with a pod.
fn bystanders(node: Option<&str>) -> Vec<Value> {
    let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
    let mut all = vec![
        service("written", json!({"ports": ports})),
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "written", "namespace": "default"},
            "subsets": [{"addresses": [{"ip": "10.8.0.1"}], "ports": [{"name": "http", "port": 8080}]}]}),
    ];
    all.extend(node.into_iter().flat_map(|node| {
        [
            service("bystander", json!({"ports": ports, "selector": {"name": "bystander"}})),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "bystander-1", "namespace": "default", "labels": {"name": "bystander"}},
                "spec": {"nodeName": node, "containers": [{"name": "app", "image": "example.com/bystander"}]},
                "status": {"phase": "Running", "podIP": "10.1.9.1", "podIPs": [{"ip": "10.1.9.1"}],
                    "conditions": [{"type": "Ready", "status": "True"}]}}),
        ]
    }));
    all
}

/// Returns the manifests whose kinds the embedded server has. Those about workloads, Ingresses,
/// routes and NetworkPolicies are played without a server, with the other small clusters
/// (`crates/explain/tests/diagnosis`).
fn served() -> impl Iterator<Item = (String, Fault)> {
    const OTHERS: [&str; 4] = ["Deployment", "Ingress", "HTTPRoute", "NetworkPolicy"];
    let is_served = |object: &Value| !OTHERS.contains(&object["kind"].as_str().unwrap_or_default());
    manifests().into_iter().filter(move |(_, fault)| fault.objects.iter().all(is_served))
}

/// Returns pods that fill an Endpoints object, if the fault needs a full one.
fn fillers(fault: &Fault) -> Vec<Value> {
    let Some(capacity) = fault.endpoints_capacity else { return Vec::new() };
    let model = fault.objects.iter().find(|object| object["kind"] == "Pod").unwrap();
    let filler = |at: usize| {
        let mut pod = model.clone();
        let ip = format!("10.2.{}.{}", at / 250, at % 250);
        pod["metadata"]["name"] = format!("filler-{at}").into();
        pod["status"]["podIP"] = ip.as_str().into();
        pod["status"]["podIPs"] = json!([{"ip": ip}]);
        pod
    };
    (0..CAPACITY - capacity).map(filler).collect()
}

impl<'f> Scene<'f> {
    /// Lets the controllers write the outputs of the other Services, then loads the objects as
    /// `--embedded-load` does, and starts the controllers of the fault.
    async fn of(fault: &'f Fault) -> Result<Self, String> {
        let (nodes, objects): (Vec<_>, Vec<_>) =
            fault.objects.iter().cloned().partition(|object| object["kind"] == "Node");
        let node = nodes.first().and_then(|node| node["metadata"]["name"].as_str());
        let others = bystanders(node);
        let server = EmbeddedApiServer::builder().start_time(START.parse().unwrap());
        let server = server.track_managers().kubelet().build().unwrap();
        add(&server, nodes.iter().cloned().chain(others)).await?;
        let manager = start(&server, None);
        tokio::time::sleep(PATIENCE).await;
        manager.stop().await;
        add(&server, objects.into_iter().chain(fillers(fault))).await?;
        let manager = start(&server, fault.controllers.as_deref());
        tokio::time::sleep(PATIENCE).await;
        Ok(Self { fault, server, manager, known: fault.known() })
    }

    fn objects(&self) -> Objects {
        let may = |kind: &&&str| match **kind {
            "pods" => self.known.pods,
            "endpointslices" => self.known.slices,
            "endpoints" => self.known.endpoints,
            "endpointselectors" => self.known.selectors,
            _ => true,
        };
        Objects::read(KINDS.iter().filter(may).flat_map(|kind| self.server.list(kind))).unwrap()
    }

    fn explained(&self) -> Option<Explanation> {
        let (objects, options) = (self.objects(), Options::default().with_known(self.known));
        let key = ObjectKey::new("default", "web");
        explain(&objects, &key, &objects.topology(), self.server.now(), None, &options)
    }

    /// Returns the remedies of a code, and the codes of all findings.
    fn remedies(&self, wanted: Code) -> (Vec<Remedy>, Vec<Code>) {
        let all = LintOptions { include_info: true, ..LintOptions::default() };
        let options = Options::default().with_known(self.known);
        let now = self.server.now();
        let linted = lint(&self.objects(), now, &options, &all).with_root_cause(now).problems;
        let mut codes: Vec<Code> = linted.iter().map(|lint| lint.code).collect();
        let mut found: Vec<Remedy> =
            linted.into_iter().filter(|lint| lint.code == wanted).map(|lint| lint.remedy).collect();
        if let Some(explanation) = self.explained() {
            codes.extend(explanation.codes());
            let of_pods = explanation.pods.iter().filter(|pod| pod.code() == wanted);
            let of_pods: Vec<Remedy> = of_pods.filter_map(|pod| pod.remedy()).take(1).collect();
            if found.is_empty() {
                let advice = explanation.to_do.into_iter().find(|advice| advice.code == wanted);
                found = advice.map_or(of_pods, |advice| vec![advice.remedy]);
            }
        }
        (found, codes)
    }

    fn receives(&self) -> BTreeSet<String> {
        receivers(&self.objects(), &ObjectKey::new("default", "web"), &self.server.list("nodes"))
    }

    /// Returns the endpoints of the other Services, with what clients look at.
    fn others(&self) -> Vec<Value> {
        let of = |kind: &str, fields: &[&str]| -> Vec<Value> {
            let all = self.server.list(kind).into_iter().filter(|object| {
                let meta = &object["metadata"];
                let service = meta["labels"]["kubernetes.io/service-name"].as_str().or(meta["name"].as_str());
                service == Some("written") || service == Some("bystander")
            });
            all.map(|object| fields.iter().map(|field| object[*field].clone()).collect()).collect()
        };
        let mut slices = of("endpointslices", &["ports", "endpoints"]);
        for endpoint in slices.iter_mut().flat_map(|slice| slice[1].as_array_mut().unwrap()) {
            endpoint
                .as_object_mut()
                .unwrap()
                .retain(|field, _| field == "addresses" || field == "conditions");
        }
        slices.into_iter().chain(of("endpoints", &["subsets"])).collect()
    }

    /// Plays the person who is asked.
    async fn ask(&mut self) -> Result<(), String> {
        for change in &self.fault.person {
            let server = &self.server;
            let at = |kind: &str, name: &str| {
                let of = self
                    .fault
                    .objects
                    .iter()
                    .find(|it| it["kind"] == *kind && it["metadata"]["name"] == *name);
                let namespace = of.and_then(|it| it["metadata"]["namespace"].as_str()).unwrap_or("default");
                let namespace = if kind == "Node" { "" } else { namespace };
                path(namespace, &kind.to_lowercase(), name)
            };
            match change {
                Change::Create(object) => {
                    server.create(object.clone()).await.map_err(|status| status.message)?;
                }
                Change::Delete { kind, name } => {
                    let now = json!({"gracePeriodSeconds": 0});
                    send(server, "DELETE", &at(kind, name)?, "application/json", &now).await?;
                }
                Change::Patch { kind, name, merge } => {
                    let (path, mut merge) = (at(kind, name)?, merge.clone());
                    let form = "application/merge-patch+json";
                    if let Some(status) = merge.as_object_mut().unwrap().remove("status") {
                        let status = json!({"status": status});
                        send(server, "PATCH", &format!("{path}/status"), form, &status).await?;
                    }
                    if merge != json!({}) {
                        send(server, "PATCH", &path, form, &merge).await?;
                    }
                }
                Change::Permit(permit) => {
                    assert!(*permit);
                    self.known = Known::ALL;
                }
                Change::StartControllers(start_them) => {
                    assert!(*start_them);
                    let all = start(server, None);
                    std::mem::replace(&mut self.manager, all).stop().await;
                }
            }
        }
        Ok(())
    }
}

/// Loads objects that a server has stored, and creates the others.
async fn add(server: &EmbeddedApiServer, objects: impl Iterator<Item = Value>) -> Result<(), String> {
    let (stored, written): (Vec<_>, Vec<_>) =
        objects.partition(|object| object["metadata"]["uid"].is_string());
    server.load(stored).unwrap();
    for object in written {
        server.create(object).await.map_err(|status| status.message)?;
    }
    Ok(())
}

fn start(server: &EmbeddedApiServer, controllers: Option<&[String]>) -> RunningManager {
    let mut settings = settings(Gates::default());
    settings.controllers = ControllerName::ALL.into();
    if let Some(names) = controllers {
        let runs = |name: &ControllerName| match name {
            ControllerName::Endpoints => names.iter().any(|name| name == "endpoints"),
            ControllerName::EndpointSlice => names.iter().any(|name| name == "endpointslice"),
            ControllerName::EndpointSliceMirroring => names.iter().any(|name| name == "mirroring"),
            ControllerName::EndpointSelector => names.iter().any(|name| name == "selectors"),
        };
        settings.controllers = ControllerName::ALL.into_iter().filter(runs).collect();
    }
    RunningManager::start(server, &settings)
}

/// Follows the remedy of a fault. Returns the changes that commands made.
async fn follow(fault: &Fault) -> Result<Vec<String>, String> {
    let wanted: Code = fault.code.parse().unwrap();
    let mut scene = Scene::of(fault).await?;
    let before = scene.others();
    assert!(before.len() >= 2, "{before:?}");
    let (remedies, codes) = scene.remedies(wanted);
    if remedies.is_empty() {
        return Err(format!("the fault is not there: {codes:?}"));
    }
    let mut changes = Vec::new();
    let mut is_asked = false;
    for step in remedies.iter().flat_map(|remedy| &remedy.steps) {
        match (step, step.command()) {
            (Step::Ask { .. }, _) if !is_asked => {
                is_asked = true;
                scene.ask().await?;
            }
            (_, Some(command)) => {
                if kubectl::run(&scene.server, &command).await? != step.changes() {
                    return Err(format!("it is not known if a command changes anything: {command}"));
                }
                changes.extend(Some(command).filter(|_| step.changes()));
            }
            (_, None) => {}
        }
    }
    if !is_asked && !fault.person.is_empty() {
        scene.ask().await?;
    }
    tokio::time::sleep(PATIENCE).await;
    let (_, codes) = scene.remedies(wanted);
    // Pods that are ending stay until they are deleted.
    let may_stay = [Code::PodFinished, Code::PodTerminating];
    if codes.contains(&wanted) && !may_stay.contains(&wanted) {
        return Err(format!("the fault is still there: {codes:?}"));
    }
    if let Some(verdict) = scene.explained().map(|explanation| explanation.verdict)
        && verdict.severity > Severity::Info
    {
        return Err(format!("the Service has another fault: {} {}", verdict.code, verdict.message));
    }
    let fillers = fillers(fault).into_iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
    let meant: BTreeSet<String> = fault.receives.iter().cloned().chain(fillers).collect();
    let receives = scene.receives();
    if receives != meant {
        return Err(format!("clients are sent to {receives:?}, not to {meant:?}"));
    }
    if scene.others() != before {
        return Err("another Service has changed".to_owned());
    }
    scene.manager.stop().await;
    Ok(changes)
}

/// The manifests whose remedy has commands that change something. All others ask a person, and the
/// manifest says what that person does.
#[tokio::test(start_paused = true)]
async fn a_remedy_that_is_followed_to_the_letter_works() {
    let (mut failed, mut changes) = (Vec::new(), String::new());
    for (file, fault) in served() {
        match follow(&fault).await {
            Ok(commands) if commands.is_empty() => {}
            Ok(commands) => changes.push_str(&format!("{file}:\n  {}\n", commands.join("\n  "))),
            Err(why) => failed.push(format!("{file}: {why}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    insta::assert_snapshot!(changes);
}

/// Returns why the server refuses manifests.
fn refused(manifests: impl IntoIterator<Item = (String, Fault)>) -> Vec<String> {
    let mut refused = Vec::new();
    for (file, fault) in manifests {
        for object in &fault.objects {
            let text = object.to_string();
            let read = manifest::read(text.as_bytes()).unwrap();
            for object in read.into_iter().filter(|object| !object.is_stored()) {
                if let Err(why) = manifest::create(object.resource.unwrap(), object.value) {
                    refused.push(format!("{file}: {}", why.message));
                }
            }
        }
    }
    refused
}

/// `render` and `--embedded-load` take the manifests.
#[test]
fn the_manifests_are_accepted() {
    let refused = refused(served());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// A cluster that no server would store says nothing about answers. Pods have a uid, so that events
/// can name them; the server validates what has none.
#[test]
fn the_cases_of_diagnosis_are_accepted() {
    let is_served = |object: &Value| {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        ["default", ""].iter().any(|namespace| path(namespace, &kind, "").is_ok())
    };
    let mut cases = all_of("diagnosis");
    for object in cases.values_mut().flat_map(|case| &mut case.objects) {
        object["metadata"].as_object_mut().unwrap().remove("uid");
    }
    for case in cases.values_mut() {
        case.objects.retain(is_served);
    }
    assert!(cases.values().map(|case| case.objects.len()).sum::<usize>() > 800);
    let refused = refused(cases);
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

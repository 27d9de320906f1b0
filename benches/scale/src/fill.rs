//! Fills an API server with a workload, or finds it there already, and removes it again.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{Api, for_each};
use crate::progress;
use crate::workload::{self, Names, Workload};

/// The label of the namespaces and nodes that this program made. Its value is the prefix.
const OWNER_LABEL: &str = "kube-endpoint-scale/prefix";

/// The annotation of namespaces with the sizes of the workload.
const SHAPE_ANNOTATION: &str = "kube-endpoint-scale/workload";

/// How long namespaces may take to disappear, and the time between two checks.
const GONE_TIMEOUT: Duration = Duration::from_secs(600);
const GONE_POLL: Duration = Duration::from_millis(200);

/// An API server with a workload in it.
#[derive(Clone)]
pub(crate) struct Filled {
    pub(crate) workload: Workload,
    pub(crate) names: Names,
}

/// The objects that a server holds already.
#[derive(Default)]
struct Found {
    nodes: BTreeSet<String>,
    services: BTreeSet<String>,
    pods: BTreeSet<String>,
    /// Pods that are ready and have their address.
    ready_pods: BTreeSet<String>,
}

impl Filled {
    /// Returns the path of the list of a pod.
    fn pods_path(&self, pod: usize) -> String {
        let namespace = self.names.namespace(&self.workload, self.workload.namespace_of_pod(pod));
        format!("/api/v1/namespaces/{namespace}/pods")
    }

    /// Makes a pod ready or unready.
    pub(crate) async fn set_ready(
        &self,
        api: &Api,
        pod: usize,
        ready: bool,
        since: &str,
    ) -> anyhow::Result<()> {
        let status = workload::pod_status(&workload::address(pod), ready, since);
        let path = format!("{}/{}/status", self.pods_path(pod), self.names.pod(pod));
        api.patch(&path, &status).await
    }
}

/// Makes the missing objects, and makes all pods ready.
///
/// # Errors
///
/// If a namespace of one of the names holds something that this program did not make, or another
/// workload.
pub(crate) async fn fill(api: &Api, workload: &Workload, names: &Names) -> anyhow::Result<Filled> {
    let mut found = Found::default();
    let label = format!("?labelSelector={}%3D{}", OWNER_LABEL.replace('/', "%2F"), names.prefix);
    let (_, nodes) = api.call(Method::GET, &format!("/api/v1/nodes{label}"), None, &[]).await?;
    let nodes: Value = serde_json::from_slice(&nodes)?;
    found.nodes.extend(nodes["items"].as_array().into_iter().flatten().map(name_of));
    let namespaces: Vec<String> =
        (0..workload.namespaces).map(|number| names.namespace(workload, number)).collect();
    // This checks everything before it makes anything.
    let mut existing = BTreeSet::new();
    for namespace in &namespaces {
        if let Some(object) = api.get(&format!("/api/v1/namespaces/{namespace}")).await? {
            check_owner(&object, workload, names)?;
            look_into(api, namespace, names, &mut found).await?;
            existing.insert(namespace.as_str());
        }
    }
    for namespace in namespaces.iter().filter(|name| !existing.contains(name.as_str())) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace,
            "labels": {OWNER_LABEL: names.prefix}, "annotations": {SHAPE_ANNOTATION: workload.shape()}}});
        api.create("/api/v1/namespaces", &object).await?;
    }
    make_nodes(api, workload, names, &found).await?;
    make_services(api, workload, names, &found).await?;
    let filled = Filled { workload: workload.clone(), names: names.clone() };
    make_pods(api, &filled, &found).await?;
    Ok(filled)
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn check_owner(namespace: &Value, workload: &Workload, names: &Names) -> anyhow::Result<()> {
    let name = name_of(namespace);
    if namespace["metadata"]["labels"][OWNER_LABEL].as_str() != Some(&names.prefix) {
        bail!(
            "the namespace {name} is there already, and this program did not make it; choose another --prefix"
        );
    }
    if !namespace["metadata"]["deletionTimestamp"].is_null() {
        bail!("the namespace {name} is being deleted; wait until it is gone");
    }
    let shape = namespace["metadata"]["annotations"][SHAPE_ANNOTATION].as_str().unwrap_or_default();
    if shape != workload.shape() {
        let there = serde_json::from_str::<Workload>(shape)
            .map_or_else(|_| "another workload".to_owned(), |workload| workload.describe());
        bail!(
            "the namespace {name} holds another workload ({there}); remove it with `scale clean --prefix={}`, or choose another \
             --prefix",
            names.prefix
        );
    }
    Ok(())
}

/// Notes the objects of a namespace, and refuses it if an object in it is foreign.
async fn look_into(api: &Api, namespace: &str, names: &Names, found: &mut Found) -> anyhow::Result<()> {
    let _progress = progress::waiting(format!("reading {namespace}"));
    let mut foreign = None;
    let mut look = |kind: &str, name: &str, service: Option<&str>| {
        if !names.is_ours(service.unwrap_or(name)) {
            foreign.get_or_insert(format!("{kind} {name}"));
        }
    };
    let core = format!("/api/v1/namespaces/{namespace}");
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    api.list(&format!("{core}/services"), |object| {
        look("the Service", &name_of(object), None);
        found.services.insert(format!("{namespace}/{}", name_of(object)));
    })
    .await?;
    api.list(&format!("{core}/endpoints"), |object| look("the Endpoints", &name_of(object), None)).await?;
    api.list(&slices, |object| {
        let service = object["metadata"]["labels"]["kubernetes.io/service-name"].as_str();
        look("the EndpointSlice", &name_of(object), service);
    })
    .await?;
    api.list(&format!("{core}/pods"), |pod| {
        let name = name_of(pod);
        look("the Pod", &name, None);
        let Some(number) = names.pod_number(&name) else { return };
        let is_gone = !pod["metadata"]["deletionTimestamp"].is_null();
        if is_gone {
            return;
        }
        let conditions = pod["status"]["conditions"].as_array();
        let is_ready = conditions
            .is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"));
        if is_ready && pod["status"]["podIP"] == workload::address(number) {
            found.ready_pods.insert(name.clone());
        }
        found.pods.insert(name);
    })
    .await?;
    match foreign {
        Some(foreign) => bail!(
            "the namespace {namespace} holds {foreign}, which this program did not make; choose another --prefix"
        ),
        None => Ok(()),
    }
}

async fn make_nodes(api: &Api, workload: &Workload, names: &Names, found: &Found) -> anyhow::Result<()> {
    let progress = progress::steps("making nodes", workload.nodes);
    for_each(0..workload.nodes, async |number| {
        let name = names.node(number);
        if !found.nodes.contains(&name) {
            let owner = (OWNER_LABEL, names.prefix.as_str());
            let created = api.create("/api/v1/nodes", &workload::node(&name, number, owner)).await?;
            if !created {
                bail!("the Node {name} is there already, and this program did not make it; choose another --prefix");
            }
            api.patch(&format!("/api/v1/nodes/{name}/status"), &workload::node_status()).await?;
        }
        progress.inc(1);
        Ok(())
    })
    .await
}

async fn make_services(api: &Api, workload: &Workload, names: &Names, found: &Found) -> anyhow::Result<()> {
    let progress = progress::steps("making Services", workload.services);
    let make = async |namespace: String, name: String, selector: Value| {
        if !found.services.contains(&format!("{namespace}/{name}")) {
            let path = format!("/api/v1/namespaces/{namespace}/services");
            api.create(&path, &workload::service(&name, selector)).await?;
        }
        progress.inc(1);
        Ok(())
    };
    for_each(0..workload.services, |number| {
        let namespace = names.namespace(workload, workload.namespace_of_service(number));
        make(namespace, names.service(number), workload::selector_of_service(number))
    })
    .await?;
    if workload.big > 0 {
        make(names.namespace(workload, 0), names.big(), workload::selector_of_big()).await?;
    }
    Ok(())
}

async fn make_pods(api: &Api, filled: &Filled, found: &Found) -> anyhow::Result<()> {
    let (workload, names) = (&filled.workload, &filled.names);
    let progress = progress::steps("making pods", workload.pods);
    for_each(0..workload.pods, async |number| {
        let name = names.pod(number);
        if !found.pods.contains(&name) {
            api.create(&filled.pods_path(number), &workload::pod(workload, names, number)).await?;
        }
        if !found.ready_pods.contains(&name) {
            filled.set_ready(api, number, true, workload::LONG_AGO).await?;
        }
        progress.inc(1);
        Ok(())
    })
    .await
}

/// Removes all Endpoints and slices of the namespaces, and checks that nobody makes them anew.
pub(crate) async fn remove_outputs(api: &Api, filled: &Filled) -> anyhow::Result<()> {
    let progress = progress::waiting("removing Endpoints and EndpointSlices");
    let mut lists = Vec::new();
    for number in 0..filled.workload.namespaces {
        let namespace = filled.names.namespace(&filled.workload, number);
        lists.push(format!("/api/v1/namespaces/{namespace}/endpoints"));
        lists.push(format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"));
    }
    for_each(&lists, async |list| api.call(Method::DELETE, list, None, &[]).await.map(|_| ())).await?;
    // The work of a garbage collector and an API server must not count for the controller.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        progress.tick();
    }
    for list in &lists {
        if api.position(list).await?.1 {
            bail!(
                "{list}: somebody makes these objects anew; stop the controllers of the cluster that write Endpoints and EndpointSlices"
            );
        }
    }
    Ok(())
}

/// Removes all namespaces and nodes with this prefix. Returns the numbers of namespaces and nodes.
pub(crate) async fn clean(api: &Api, names: &Names) -> anyhow::Result<(usize, usize)> {
    let selector = format!("?labelSelector={}%3D{}", OWNER_LABEL.replace('/', "%2F"), names.prefix);
    let mut removed = Vec::new();
    for kind in ["namespaces", "nodes"] {
        let path = format!("/api/v1/{kind}");
        let (_, body) = api.call(Method::GET, &format!("{path}{selector}"), None, &[]).await?;
        let list: Value = serde_json::from_slice(&body).with_context(|| format!("GET {path}"))?;
        let found: Vec<String> = list["items"].as_array().into_iter().flatten().map(name_of).collect();
        let progress = progress::steps(format!("removing {kind}"), found.len());
        for_each(&found, async |name| {
            if kind == "namespaces" {
                empty(api, name).await?;
            }
            // The object may be on its way out already.
            let gone = [StatusCode::NOT_FOUND, StatusCode::CONFLICT];
            api.call(Method::DELETE, &format!("{path}/{name}"), None, &gone).await?;
            progress.inc(1);
            Ok(())
        })
        .await?;
        drop(progress);
        gone(api, &format!("{path}{selector}"), kind).await?;
        removed.push(found.len());
    }
    Ok((removed[0], removed[1]))
}

/// Waits until a list is empty: the objects in a namespace go first.
async fn gone(api: &Api, list: &str, kind: &str) -> anyhow::Result<()> {
    let progress = progress::waiting(format!("until the {kind} are gone"));
    for _ in 0..GONE_TIMEOUT.as_millis() / GONE_POLL.as_millis() {
        let (_, body) = api.call(Method::GET, list, None, &[]).await?;
        let list: Value = serde_json::from_slice(&body)?;
        if list["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        progress.tick();
        tokio::time::sleep(GONE_POLL).await;
    }
    bail!("the {kind} are still being deleted after {} s", GONE_TIMEOUT.as_secs())
}

/// Removes the pods of a namespace at once: without kubelets, nobody would end their grace period.
async fn empty(api: &Api, namespace: &str) -> anyhow::Result<()> {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    api.call(Method::DELETE, &path, Some(&options), &[StatusCode::NOT_FOUND]).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;

    #[test]
    fn only_a_namespace_of_our_own_with_the_same_workload_is_used() {
        let names = Names { prefix: "scale".into() };
        let check = |owner: &str, shape: String, deleted: bool| {
            let mut namespace = json!({"metadata": {"name": "scale", "labels": {OWNER_LABEL: owner}, "annotations": {SHAPE_ANNOTATION: shape}}});
            if deleted {
                namespace["metadata"]["deletionTimestamp"] = workload::LONG_AGO.into();
            }
            check_owner(&namespace, &workload(), &names)
                .map_or_else(|error| error.to_string(), |()| "ours".into())
        };
        let found = [
            check("scale", workload().shape(), false),
            check("other", workload().shape(), false),
            check("scale", workload().shape(), true),
            check("scale", Workload { pods: 7, ..workload() }.shape(), false),
            check("scale", String::new(), false),
        ];
        insta::assert_snapshot!(found.join("\n"));
    }
}

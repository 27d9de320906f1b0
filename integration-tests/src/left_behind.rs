//! The inputs of `fixtures/left-behind`, and the paths to what a replica leaves for them. Its
//! README says who records and who reads it.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::path::{Path, PathBuf};

use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// The kinds of a record, in its order: inputs, then outputs, then Leases.
pub const KINDS: [(&str, &str); 7] = [
    ("api/v1", "nodes"),
    ("api/v1", "pods"),
    ("api/v1", "services"),
    ("apis/kube-endpoint-manager.github.io/v1alpha1", "endpointselectors"),
    ("api/v1", "endpoints"),
    ("apis/discovery.k8s.io/v1", "endpointslices"),
    ("apis/coordination.k8s.io/v1", "leases"),
];

/// The flag that makes a process run all controllers.
pub const ALL_CONTROLLERS: &str = "--controllers=*,endpoint-selector-controller";

/// The path of the Lease that an EndpointSelector of the inputs names.
pub const LEADERS_LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader";

/// Returns the folder with the inputs and the records.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/left-behind")
}

/// Returns the file of a version's record.
pub fn record_of(version: &str) -> PathBuf {
    folder().join(format!("{version}.json"))
}

/// Returns the objects on which a recorded replica starts.
///
/// # Panics
///
/// If the file is missing or is no YAML.
pub fn inputs() -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join("inputs.yaml")).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Returns true if a ready endpoint of the Service `leader` shows that the replica has found out
/// who holds [`LEADERS_LEASE`].
pub fn shows_leader(slices: &[Value]) -> bool {
    let of_leader =
        slices.iter().filter(|it| it["metadata"]["labels"]["kubernetes.io/service-name"] == "leader");
    let mut endpoints = of_leader.filter_map(|slice| slice["endpoints"].as_array()).flatten();
    endpoints.any(|endpoint| endpoint["conditions"]["ready"] == true)
}

/// Sends a merge patch.
async fn patch(client: &Client, path: &str, patch: &Value) -> kube::Result<()> {
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(patch.to_string().into_bytes()).map_err(kube::Error::HttpError)?;
    client.request::<Value>(request).await.map(drop)
}

/// Makes a pod of the inputs ready or not ready.
///
/// # Errors
///
/// The error of the request.
pub async fn set_ready(client: &Client, pod: &str, is_ready: bool) -> kube::Result<()> {
    let status = if is_ready { "True" } else { "False" };
    let body = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    patch(client, &format!("/api/v1/namespaces/default/pods/{pod}/status"), &body).await
}

/// Renews [`LEADERS_LEASE`], as the program of its holder would at this time.
///
/// # Errors
///
/// The error of the request.
pub async fn renew_leaders_lease(client: &Client, now: jiff::Timestamp) -> kube::Result<()> {
    // A MicroTime has six digits after the point.
    patch(client, LEADERS_LEASE, &json!({"spec": {"renewTime": format!("{now:.6}")}})).await
}

/// Makes the changes that a replica reads while it is recorded.
///
/// # Errors
///
/// The error of a request.
pub async fn change(client: &Client, now: jiff::Timestamp) -> kube::Result<()> {
    set_ready(client, "p2", true).await?;
    renew_leaders_lease(client, now).await
}

/// Returns all objects of [`KINDS`] on a server.
///
/// # Errors
///
/// The error of a failed request.
pub async fn read(client: &Client) -> kube::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (group, plural) in KINDS {
        let request = Request::get(format!("/{group}/{plural}")).body(Vec::new());
        let mut list: Value = client.request(request.map_err(kube::Error::HttpError)?).await?;
        let kind =
            list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default().to_owned();
        let api_version = list["apiVersion"].take();
        let Value::Array(items) = list["items"].take() else { continue };
        objects.extend(items.into_iter().map(|mut item| {
            (item["apiVersion"], item["kind"]) = (api_version.clone(), kind.as_str().into());
            item
        }));
    }
    Ok(objects)
}

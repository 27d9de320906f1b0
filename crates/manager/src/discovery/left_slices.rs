//! Looks for slices of the endpoint selector controller on a server that does not serve
//! EndpointSelectors.

use futures::future::join_all;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use kube::client::Body;
use kube_endpoint_api_client::{Answered, ApiClient};
use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use kube_endpoint_informer::Cluster;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use super::{LONGEST_ANSWER, TIMEOUT};

/// Returns false if the server has no slice of the endpoint selector controller in the namespaces
/// of a cluster. An answer that does not tell counts as one with a slice.
pub(super) async fn may_exist(client: &ApiClient, cluster: &Cluster) -> bool {
    let namespaces = cluster.watched_namespaces().names();
    let mut paths: Vec<String> = namespaces.map(|name| format!("/namespaces/{name}")).collect();
    if paths.is_empty() {
        paths.push(String::new());
    }
    let asked = paths.iter().map(async |namespace| timeout(TIMEOUT, may_exist_in(client, namespace)).await);
    join_all(asked).await.into_iter().any(|answer| answer.unwrap_or(true))
}

async fn may_exist_in(client: &ApiClient, namespace: &str) -> bool {
    #[derive(Deserialize)]
    struct List {
        items: Vec<IgnoredAny>,
    }

    let path = format!(
        "/apis/discovery.k8s.io/v1{namespace}/endpointslices?limit=1&labelSelector=\
         endpointslice.kubernetes.io%2Fmanaged-by%3D{SELECTOR_CONTROLLER}"
    );
    let Ok(request) = Request::get(path).header(ACCEPT, "application/json").body(Body::empty()) else {
        return true;
    };
    let Ok(answer) = client.send(request).await else { return true };
    let Ok(answered) = Answered::read(answer, LONGEST_ANSWER).await else { return true };
    answered.status() != StatusCode::OK
        || serde_json::from_slice(answered.body()).map_or(true, |list: List| !list.items.is_empty())
}

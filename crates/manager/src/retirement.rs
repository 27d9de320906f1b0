//! Checks before the start if the Endpoints of a whole cluster may be retired.

use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use kube::client::Body;
use kube_endpoint_api_client::{Answered, ApiClient};
use kube_endpoint_core_model::retirement::ServerVersion;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::Settings;
use crate::controller_name::ControllerName;

/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const LONGEST_ANSWER: usize = 1 << 20;
/// The list of Endpoints that controllers made. They have this label since Kubernetes 1.33.
const MADE: &str =
    "endpoints?limit=1&labelSelector=endpoints.kubernetes.io%2Fmanaged-by%3Dendpoint-controller";

/// `--endpoints-default=retired` is refused on this cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--endpoints-default=retired would delete Endpoints that may be needed: {why}; find out with `kubectl endpoints retire -A`, \
     and set --endpoints-retired-accept=REASON if nothing needs them, or --endpoints-default=published"
)]
pub struct RetirementRefused {
    why: String,
}

#[derive(Deserialize)]
struct List {
    items: Vec<serde_json::Value>,
}

/// Checks that `--endpoints-default=retired` takes nothing from this cluster that its API server
/// needs. Call it before [`Manager::run`](crate::Manager::run), which deletes nothing in this case
/// either, but publishes nothing, so that what is there becomes old.
///
/// Where no Endpoints of a controller are left, as after the API server went back to an older
/// version, nothing can be lost, and the check succeeds. It also does if the server does not
/// answer.
///
/// # Errors
///
/// [`RetirementRefused`] if the API server reads Endpoints itself, there are some, and the settings
/// accept no reason.
pub async fn check_retirement(client: &ApiClient, settings: &Settings) -> Result<(), RetirementRefused> {
    let retirement = &settings.retirement;
    let concerns = retirement.all && settings.controllers.contains(&ControllerName::Endpoints);
    if !concerns {
        return Ok(());
    }
    if let Some(reason) = &retirement.accepted {
        tracing::info!(
            reason,
            "all Endpoints that controllers made are retired, whatever the API server needs"
        );
        return Ok(());
    }
    let version: Option<ServerVersion> = read(client, "/version").await;
    let Some(why) = version.and_then(|version| version.needs_endpoints(true)) else { return Ok(()) };
    let mut paths: Vec<String> = settings
        .namespaces
        .iter()
        .map(|namespace| format!("/api/v1/namespaces/{namespace}/{MADE}"))
        .collect();
    if paths.is_empty() {
        paths.push(format!("/api/v1/{MADE}"));
    }
    for path in paths {
        if read::<List>(client, &path).await.is_some_and(|list| !list.items.is_empty()) {
            return Err(RetirementRefused { why });
        }
    }
    Ok(())
}

/// Returns `None` if the server gives no such answer.
async fn read<T: DeserializeOwned>(client: &ApiClient, path: &str) -> Option<T> {
    let request = Request::get(path).header(ACCEPT, "application/json").body(Body::empty()).ok()?;
    let asked = async {
        let answer = client.send(request).await.ok()?;
        Answered::read(answer, LONGEST_ANSWER).await.ok()
    };
    let answered = timeout(TIMEOUT, asked).await.ok()??;
    serde_json::from_slice(answered.body()).ok()
}

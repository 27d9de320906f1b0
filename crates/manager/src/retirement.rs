//! Checks before the start if the Endpoints of a whole cluster may be retired.

use std::time::Duration;

use http::Request;
use http::header::ACCEPT;
use kube::client::Body;
use kube_endpoint_api_client::{Answered, ApiClient};
use kube_endpoint_core_model::Service;
use kube_endpoint_core_model::maker::{CONTROLLERS, Content, Provenance};
use kube_endpoint_core_model::retirement::ServerVersion;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::Settings;
use crate::controller_name::ControllerName;

/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before the server is asked again.
const PAUSE: Duration = Duration::from_secs(2);
/// How often the server is asked for one thing: for more than a minute.
const ATTEMPTS: usize = 30;
/// The most bytes of an answer: a page has the metadata of 500 objects.
const LONGEST_ANSWER: usize = 64 << 20;
/// The form of an object.
const JSON: &str = "application/json";
/// The form of a list that has the metadata of the objects only.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// `--endpoints-default=retired` is refused on this cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetirementRefused {
    /// The API server reads Endpoints itself, and there are some to delete.
    #[error(
        "--endpoints-default=retired would delete Endpoints that may be needed: {0}; find out with `kubectl endpoints retire -A`, \
         and set --endpoints-retired-accept=REASON if nothing needs them, or --endpoints-default=published"
    )]
    Needed(String),
    /// The API server does not tell what this depends on.
    #[error(
        "--endpoints-default=retired depends on the version of the API server: {0}; let the server answer, or set \
         --endpoints-retired-accept=REASON if nothing needs Endpoints"
    )]
    Unknown(String),
}

#[derive(Deserialize)]
struct Page {
    metadata: PageMeta,
    /// An empty list may be null.
    items: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMeta {
    #[serde(rename = "continue")]
    token: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    namespace: String,
    #[serde(flatten)]
    provenance: Provenance,
}

/// Checks that `--endpoints-default=retired` takes nothing from this cluster that its API server
/// needs. Call it before [`Manager::run`](crate::Manager::run), which deletes nothing in this case
/// either, but publishes nothing, so that what is there becomes old. In a dry run all is allowed.
///
/// Where no Endpoints of a controller are left to delete, as after the API server went back to an
/// older version, the manager starts, with a warning: nothing can be lost, and the slices have to
/// be kept up to date.
///
/// # Errors
///
/// [`RetirementRefused`] if the API server reads Endpoints itself, there are some, and the settings
/// accept no reason; or if the server does not answer within a minute, or refuses to tell.
pub async fn check_retirement(client: &ApiClient, settings: &Settings) -> Result<(), RetirementRefused> {
    let retirement = &settings.retirement;
    let concerns =
        retirement.all && settings.controllers.contains(&ControllerName::Endpoints) && !settings.dry_run;
    if !concerns {
        return Ok(());
    }
    if let Some(reason) = &retirement.accepted {
        tracing::info!(
            reason,
            "all Endpoints that controllers made are retired, even if the API server reads some"
        );
        return Ok(());
    }
    let unknown = RetirementRefused::Unknown;
    let version: Option<ServerVersion> = read(client, "/version", JSON).await.map_err(unknown)?;
    let version = version.ok_or_else(|| unknown("it does not serve /version".to_owned()))?;
    let Some(why) = version.needs_endpoints(true) else { return Ok(()) };
    let namespaces =
        settings.namespaces.iter().map(|namespace| format!("/api/v1/namespaces/{namespace}/endpoints"));
    let mut lists: Vec<String> = namespaces.collect();
    if lists.is_empty() {
        lists.push("/api/v1/endpoints".to_owned());
    }
    for list in lists {
        if has_endpoints_to_delete(client, &list).await.map_err(unknown)? {
            return Err(RetirementRefused::Needed(why));
        }
    }
    tracing::warn!(%why, "no Endpoints of a controller are left, and none is written: --endpoints-default=retired");
    Ok(())
}

/// Returns true if a list has Endpoints that a controller made and whose Service selects pods or
/// does not exist.
async fn has_endpoints_to_delete(client: &ApiClient, list: &str) -> Result<bool, String> {
    let mut token = String::new();
    loop {
        let after = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let page: Option<Page> = read(client, &format!("{list}?limit=500{after}"), METADATA).await?;
        let page = page.ok_or_else(|| format!("it does not serve {list}"))?;
        for Item { metadata } in page.items.iter().flatten() {
            let made = &metadata.provenance;
            if !made.maker(Content::Endpoints, &CONTROLLERS).is_controller() || made.is_lock() {
                continue;
            }
            let path = format!("/api/v1/namespaces/{}/services/{}", metadata.namespace, metadata.name);
            let service: Option<Service> = read(client, &path, JSON).await?;
            if service.is_none_or(|service| service.selects_pods()) {
                return Ok(true);
            }
        }
        token = page.metadata.token;
        if token.is_empty() {
            return Ok(false);
        }
    }
}

/// Reads an object, or a list. Returns `None` if it does not exist. Asks again
/// while there is no answer, or the server fails.
async fn read<T: DeserializeOwned>(
    client: &ApiClient,
    path: &str,
    accept: &str,
) -> Result<Option<T>, String> {
    let mut failure = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            sleep(PAUSE).await;
        }
        let request = Request::get(path).header(ACCEPT, accept);
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        let asked = async {
            let answer = client.send(request).await.map_err(|error| error.to_string())?;
            Answered::read(answer, LONGEST_ANSWER).await
        };
        let answered = timeout(TIMEOUT, asked).await;
        failure = match answered.unwrap_or_else(|_| Err(format!("{path}: no answer within {TIMEOUT:?}"))) {
            Ok(answered) if answered.status().is_success() => {
                return serde_json::from_slice(answered.body())
                    .map(Some)
                    .map_err(|error| format!("{path}: {error}"));
            }
            Ok(answered) if answered.status() == http::StatusCode::NOT_FOUND => return Ok(None),
            Ok(answered) if !answered.status().is_server_error() && answered.status().as_u16() != 429 => {
                return Err(format!("{path}: {answered}"));
            }
            Ok(answered) => format!("{path}: {answered}"),
            Err(error) => error,
        };
        tracing::warn!(
            error = failure,
            "the API server does not tell what --endpoints-default=retired depends on; asking again"
        );
    }
    Err(failure)
}

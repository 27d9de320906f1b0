//! Checks before the start if the Endpoints of a whole cluster may be retired.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, MetadataPage, RequestLimiter, WriteError};
use kube_endpoint_core_model::maker::{Content, Provenance};
use kube_endpoint_core_model::{Endpoints, ObjectKey, Text};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use crate::Settings;

/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before the server is asked again.
const PAUSE: Duration = Duration::from_secs(2);
/// How often the server is asked for one thing: for more than a minute.
const ATTEMPTS: usize = 30;
/// The most objects in a page.
const PAGE: usize = 500;

/// `--endpoints-default=retired` is refused on this cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetirementRefused {
    /// The API server reads Endpoints itself, and there are some to delete.
    #[error(
        "--endpoints-default=retired would delete Endpoints that may be needed: {0}; find out with `kubectl diagnose-svc retire -A`, \
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

/// The server has not told.
struct Unanswered {
    is_forbidden: bool,
    why: String,
}

/// The metadata of Endpoints.
#[derive(Deserialize)]
struct Metadata {
    namespace: Text,
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
    if !settings.retires_all() || settings.dry_run {
        return Ok(());
    }
    if let Some(reason) = &settings.retirement.accepted {
        tracing::info!(
            reason,
            "all Endpoints that controllers made are retired, even if the API server reads some"
        );
        return Ok(());
    }
    let agent = format!("kube-endpoint-manager/{} retirement", env!("CARGO_PKG_VERSION"));
    // It only reads.
    let server = ApiWriter::new(client.clone(), RequestLimiter::unlimited(), agent)
        .with_controllers(Arc::clone(&settings.controller_field_managers));
    let version = read("/version", async || server.server_version().await).await;
    let version = version.map_err(|unanswered| RetirementRefused::Unknown(unanswered.why))?;
    let Some(why) = version.needs_endpoints(true) else { return Ok(()) };
    let mut scopes: Vec<Option<&str>> = settings.namespaces.iter().map(|name| Some(&**name)).collect();
    if scopes.is_empty() {
        scopes.push(None);
    }
    for namespace in scopes {
        match has_endpoints_to_delete(&server, namespace).await {
            Ok(false) => {}
            Ok(true) => return Err(RetirementRefused::Needed(why)),
            // Nothing is deleted there before it can be read, and then the manager asks again.
            Err(Unanswered { is_forbidden: true, why }) if settings.namespaces.len() > 1 => {
                tracing::warn!(namespace, why, "the Endpoints of a namespace cannot be read");
            }
            Err(Unanswered { why, .. }) => return Err(RetirementRefused::Unknown(why)),
        }
    }
    tracing::warn!(%why, "no Endpoints of a controller are left, and none is written: --endpoints-default=retired");
    Ok(())
}

/// Returns true if a namespace, or one of all, has Endpoints that a controller made and whose
/// Service selects pods or does not exist.
async fn has_endpoints_to_delete(server: &ApiWriter, namespace: Option<&str>) -> Result<bool, Unanswered> {
    let mut token: Option<String> = None;
    loop {
        let page = async || server.list_metadata::<Endpoints, _>(namespace, PAGE, token.as_deref()).await;
        let MetadataPage { items, next } = read("the list of Endpoints", page).await?;
        for Metadata { namespace, provenance } in items {
            if provenance.reason_to_keep(Content::Endpoints, &server.controllers()).is_some() {
                continue;
            }
            let key = ObjectKey { namespace, name: provenance.name().clone() };
            let service = read(&format!("the Service {key}"), async || server.service(&key).await).await?;
            if service.is_none_or(|service| service.selects_pods()) {
                return Ok(true);
            }
        }
        token = next;
        if token.is_none() {
            return Ok(false);
        }
    }
}

/// Reads `what` from the server with `ask`. Asks again while there is no answer, or the server
/// fails.
async fn read<T>(what: &str, ask: impl AsyncFn() -> Result<T, WriteError>) -> Result<T, Unanswered> {
    let mut attempt = 1;
    loop {
        let answer = timeout(TIMEOUT, ask()).await;
        let late = || Err(WriteError::Unknown(format!("{what}: no answer within {TIMEOUT:?}")));
        let error = match answer.unwrap_or_else(|_| late()) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let may_pass =
            matches!(error, WriteError::Busy { .. } | WriteError::Failed { .. } | WriteError::Unknown(_));
        if !may_pass || attempt == ATTEMPTS {
            return Err(Unanswered { is_forbidden: error.code() == Some(403), why: error.to_string() });
        }
        tracing::warn!(
            %error,
            "the API server does not tell what --endpoints-default=retired depends on; asking again"
        );
        sleep(PAUSE).await;
        attempt += 1;
    }
}

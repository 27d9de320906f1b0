//! Reads what `doctor` and `retire` ask about servers and their programs.

use anyhow::bail;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::ListParams;
use kube::{Client, Error};
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_explain::doctor::{Instance, Read, Unread};
use kube_endpoint_explain_reader::{Resource, is_not_in_files};

/// The namespace of controllers.
pub(crate) const SYSTEM: &str = "kube-system";

pub(crate) const VALIDATING: Resource = Resource::v1(
    "admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);
pub(crate) const MUTATING: Resource = Resource::v1(
    "admissionregistration.k8s.io",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);

/// Reads the version of the server.
///
/// # Errors
///
/// An error if the server does not answer, or is no API server.
pub(crate) async fn version(client: &Client) -> anyhow::Result<Read<Info>> {
    match client.apiserver_version().await {
        // A server of something else may answer with an object, too.
        Ok(info) if info.git_version.is_empty() => bail!(
            "the answer to /version has no gitVersion; check the server in the kubeconfig, and whether a proxy answers in its place"
        ),
        Ok(info) => Ok(Ok(info)),
        Err(error) if is_not_in_files(&error) => Ok(Err(Unread::Failed(why_request_failed(&error)))),
        Err(Error::Api(status)) if status.code == 403 => {
            Ok(Err(Unread::Forbidden("get /version".to_owned())))
        }
        Err(error) => bail!("the version of the server cannot be read: {}", why_request_failed(&error)),
    }
}

/// Reads pods that a selector selects.
pub(crate) async fn instances(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
) -> Read<Vec<Instance>> {
    let pods = Resource::PODS.page(client, namespace, ListParams::default().labels(selector)).await?;
    Ok(pods.iter().map(Instance::read).collect())
}

/// Reads the pods of kube-endpoint-manager and of its add-on: all, or else those of kube-system.
pub(crate) async fn managers(client: &Client) -> Read<Vec<Instance>> {
    let selector = "app.kubernetes.io/name=kube-endpoint-manager";
    match instances(client, None, selector).await {
        Err(Unread::Forbidden(_)) => instances(client, Some(SYSTEM), selector).await,
        pods => pods,
    }
}

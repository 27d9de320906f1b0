//! Deletes what a run has created: the namespaces and nodes with its label.

use futures::{StreamExt, TryStreamExt, stream};

use super::cluster::name_of;
use super::{ConformanceError, LABEL};
use crate::conformance::{Api, Kind};

/// Deletes all namespaces and nodes of a run. It tries each, and returns the first error.
///
/// Without a kubelet nobody confirms the end of a pod, and without a controller nobody removes a
/// finalizer. Both would keep their namespace.
pub(super) async fn tidy(api: &Api) -> Result<(), ConformanceError> {
    let mut results = Vec::new();
    for namespace in api.labelled(Kind::Namespace, LABEL).await? {
        let api = api.clone().in_namespace(name_of(&namespace));
        for service in api.list(Kind::Service).await? {
            if !service["metadata"]["finalizers"].is_null() {
                results.push(api.remove_finalizers(Kind::Service, name_of(&service)).await);
            }
        }
        results.push(delete_pods(&api).await);
        if namespace["metadata"]["deletionTimestamp"].is_null() {
            results.push(api.delete(Kind::Namespace, api.namespace(), None).await);
        }
    }
    for node in api.labelled(Kind::Node, LABEL).await? {
        results.push(api.delete(Kind::Node, name_of(&node), None).await);
    }
    let is_gone = |error: &ConformanceError| error.is_status(404) || error.is_status(409);
    results.into_iter().find(|result| result.as_ref().is_err_and(|error| !is_gone(error))).unwrap_or(Ok(()))
}

/// How many requests to send at once.
const AT_ONCE: usize = 16;

/// Deletes all pods of a namespace, one by one: a server may take longer for a thousand in one
/// request than a request may take.
async fn delete_pods(api: &Api) -> Result<(), ConformanceError> {
    let pods = api.list(Kind::Pod).await?;
    let deletes = pods.iter().map(|pod| async move {
        match api.delete(Kind::Pod, name_of(pod), Some(0)).await {
            Err(error) if error.is_status(404) => Ok(()),
            other => other,
        }
    });
    stream::iter(deletes).buffer_unordered(AT_ONCE).try_collect().await
}

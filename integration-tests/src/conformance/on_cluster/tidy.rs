//! Deletes what a run has created: the namespaces and nodes with its label.

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

/// How often to try again, if the server does not delete all pods in the time of a request.
const TRIES: u32 = 10;

/// Deletes all pods of a namespace. A thousand may take longer than a request may.
async fn delete_pods(api: &Api) -> Result<(), ConformanceError> {
    for _ in 1..TRIES {
        match api.delete_pods().await {
            Err(error) if error.is_status(504) => {}
            other => return other,
        }
    }
    api.delete_pods().await
}

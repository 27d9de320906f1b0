//! `retire`: reads who still reads v1 Endpoints. It writes nothing.

mod cluster;
pub(crate) mod convert;
mod files;

use anyhow::bail;
use kube::Error;
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_core_model::retirement::ServerVersion;
use kube_endpoint_explain::doctor::{Read, Unread};
use kube_endpoint_explain::retire::{Facts, Report};
use serde_json::json;

use crate::args::{Global, Retire};
use crate::connect::{Connection, connect};
use crate::output::Output;
use crate::reader::Reader;
use cluster::Cluster;

/// Reads the files and the cluster, and prints the report.
///
/// # Errors
///
/// An error if a file is not what it has to be, the server does not answer or is no API server, or
/// the namespace does not exist.
pub(crate) async fn run(global: &Global, output: Output, args: &Retire) -> anyhow::Result<u8> {
    output.check_format()?;
    // A wrong file is an error before the cluster is read.
    let audit_log = files::audit_log(&args.audit_log)?;
    let metrics = files::metrics(&args.metrics)?;
    let Connection { client, namespace, .. } = connect(global).await?;
    let namespace = (!args.all_namespaces).then_some(&*namespace);
    let cluster = Cluster { client: client.kube(), namespace };
    let server = version(&cluster).await?;
    let metrics = async {
        match metrics {
            Some(metrics) => Ok(metrics),
            None => cluster.metrics().await,
        }
    };
    let (metrics, api_servers, endpoints, services, rbac, prometheus, called, pods) = tokio::join!(
        metrics,
        cluster.api_servers(),
        cluster.endpoints(),
        cluster.services(),
        cluster.rbac(),
        cluster.prometheus_objects(),
        cluster.called_services(&server),
        cluster.pods(),
    );
    let (pods, pods_elsewhere) = pods;
    let is_empty =
        endpoints.as_ref().is_ok_and(|of| of.is_empty()) && services.as_ref().is_ok_and(|of| of.is_empty());
    if let Some(namespace) = namespace.filter(|_| is_empty) {
        Reader::quiet(client.kube().clone()).check_namespace(namespace).await?;
    }
    let configurations = match &pods {
        Ok(pods) => cluster.configurations(pods.configurations()).await,
        Err(_) => Vec::new(),
    };
    let facts = Facts {
        namespace: namespace.map(Into::into),
        server,
        api_servers,
        metrics,
        audit_log,
        endpoints,
        services,
        pods,
        pods_elsewhere,
        rbac,
        configurations,
        prometheus,
        called,
    };
    let report = Report::of(&facts);
    output.print_as("RetireReport", &report, |layout| report.text(layout))?;
    Ok(report.exit_code())
}

/// Reads the version of the server.
async fn version(cluster: &Cluster<'_>) -> anyhow::Result<Read<ServerVersion>> {
    match cluster.client.apiserver_version().await {
        Ok(info) => {
            let read = serde_json::from_value(json!({"major": info.major, "minor": info.minor}));
            match read {
                Ok(version) => Ok(Ok(version)),
                // A server of something else may answer with an object, too.
                Err(_) if info.git_version.is_empty() => bail!(
                    "the answer to /version has no gitVersion; check the server in the kubeconfig, and whether a proxy answers \
                     in its place"
                ),
                Err(error) => Ok(Err(Unread::Failed(error.to_string()))),
            }
        }
        Err(Error::Api(status)) if status.code == 403 => {
            Ok(Err(Unread::Forbidden("get /version".to_owned())))
        }
        Err(error) => bail!("the version of the server cannot be read: {}", why_request_failed(&error)),
    }
}

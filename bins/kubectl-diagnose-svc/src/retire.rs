//! `retire`: asks API servers who still reads v1 Endpoints. It writes nothing.

mod files;

use std::collections::BTreeSet;

use kube::api::ListParams;
use kube::{Client, Error};
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::retirement::ServerVersion;
use kube_endpoint_explain::doctor::{Read, Unread};
use kube_endpoint_explain::retire::{Facts, Metrics, Report, api_servers};
use serde_json::json;

use crate::args::{Global, Retire};
use crate::connect::{Connection, connect};
use crate::output::Output;
use crate::source::{SYSTEM, managers, version};
use kube_endpoint_explain_reader::{Reader, Resource};

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
    let Connection { client, namespace, .. } = connect(&global.config).await?;
    let (kube, namespace) = (client.kube(), (!args.all_namespaces).then_some(&*namespace));
    let server = version(kube).await?.and_then(|info| {
        let read = serde_json::from_value::<ServerVersion>(json!({"major": info.major, "minor": info.minor}));
        read.map_err(|error| Unread::Failed(error.to_string()))
    });
    let metrics = async {
        match metrics {
            Some(metrics) => Ok(metrics),
            None => metrics_of_server(kube).await,
        }
    };
    let (metrics, api_servers, services, managers) =
        tokio::join!(metrics, count_api_servers(kube), services(kube, namespace), managers(kube));
    if let Some(namespace) = namespace.filter(|_| services.as_ref().is_ok_and(BTreeSet::is_empty)) {
        Reader::new(kube.clone()).check_namespace(namespace).await?;
    }
    let namespace = namespace.map(Into::into);
    let facts = Facts { namespace, server, api_servers, metrics, audit_log, services, managers };
    let report = Report::of(&facts);
    output.print_as("RetireReport", &report, |layout| report.text(layout))?;
    Ok(report.exit_code())
}

/// Reads the names of the Services of a namespace, or of all.
async fn services(client: &Client, namespace: Option<&str>) -> Read<BTreeSet<ObjectKey>> {
    let read = Resource::SERVICES.metadata(client, namespace, None, BTreeSet::new, |all, page| {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let key = |metadata: &serde_json::Value| {
            ObjectKey::new(text(&metadata["namespace"]), text(&metadata["name"]))
        };
        all.extend(page.items.iter().map(key));
        Ok(())
    });
    read.await
}

/// Asks the server for its metrics.
async fn metrics_of_server(client: &Client) -> Read<Vec<Metrics>> {
    let request = http::Request::get("/metrics").body(Vec::new());
    let request = request.map_err(|error| Unread::Failed(error.to_string()))?;
    match client.request_text(request).await.map(|text| Metrics::read(&text)) {
        Ok(metrics) if metrics.is_of_api_server() => Ok(vec![metrics]),
        Ok(_) => Err(Unread::Failed("the answer to /metrics has none of an API server".to_owned())),
        Err(Error::Api(status)) if status.code == 403 => Err(Unread::Forbidden("get /metrics".to_owned())),
        Err(error) => Err(Unread::Failed(why_request_failed(&error))),
    }
}

/// Counts the API servers by the Leases that they hold.
async fn count_api_servers(client: &Client) -> Read<usize> {
    let of_servers = ListParams::default().labels("apiserver.kubernetes.io/identity=kube-apiserver");
    let leases = Resource::LEASES.page(client, Some(SYSTEM), of_servers).await?;
    api_servers(&leases).ok_or_else(|| Unread::Failed("no Lease tells".to_owned()))
}

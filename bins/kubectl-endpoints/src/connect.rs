//! Makes the client of the kubeconfig that kubectl would use.

use std::time::Duration;

use anyhow::Context;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_endpoint_api_client::{ApiClient, client_with_answer_limit, read_kubeconfig, watch_files};

use crate::args::Global;

/// The time for connecting to the server.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The time within which an answer has to begin: a command must not wait without end at a server
/// that accepts connections and does nothing.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A client, and its context.
pub(crate) struct Connection {
    pub(crate) client: ApiClient,
    /// The namespace of the command line, or of the context.
    pub(crate) namespace: String,
    /// Name of the context; empty in a pod.
    pub(crate) context: String,
}

/// Makes a client, without a request to the server.
///
/// # Errors
///
/// An error if there is no usable kubeconfig.
pub(crate) async fn connect(global: &Global) -> anyhow::Result<Connection> {
    connect_within(global, ANSWER_LIMIT).await
}

async fn connect_within(global: &Global, limit: Duration) -> anyhow::Result<Connection> {
    let (mut config, context) = config(global).await?;
    config.connect_timeout = Some(CONNECT_LIMIT);
    // Audit logs tell who reads; the plugin must not look like an unknown client.
    let agent = HeaderValue::from_static(concat!("kubectl-endpoints/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok(Connection { client: client_with_answer_limit(config, limit).await?, namespace, context })
}

/// Reads the kubeconfig of the command line, or that of kubectl, with the context of the command
/// line.
///
/// # Errors
///
/// An error if there is no readable kubeconfig.
pub(crate) fn kubeconfig(global: &Global) -> Result<Kubeconfig, KubeconfigError> {
    let mut kubeconfig = read_kubeconfig(global.kubeconfig.as_deref())?;
    if global.context.is_some() {
        kubeconfig.current_context.clone_from(&global.context);
    }
    Ok(kubeconfig)
}

/// Returns the configuration of the client, and the name of the context.
///
/// # Errors
///
/// An error if there is no usable kubeconfig.
pub(crate) async fn config(global: &Global) -> anyhow::Result<(Config, String)> {
    let kubeconfig = match kubeconfig(global) {
        Ok(kubeconfig) => kubeconfig,
        // In a pod there is a service account in its place.
        Err(error) if global.kubeconfig.is_none() && global.context.is_none() => {
            let config = Config::incluster().map_err(|_| error);
            return Ok((config.context("no cluster is configured; give --kubeconfig FILE")?, String::new()));
        }
        Err(error) => return Err(error).context("the kubeconfig cannot be read"),
    };
    let options = KubeConfigOptions { context: global.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
    let mut config =
        config.context("the kubeconfig cannot be used; `kubectl config get-contexts` lists its contexts")?;
    watch_files(&mut config, &kubeconfig);
    Ok((config, kubeconfig.current_context.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kube_endpoint_explain::Options;

    use super::*;
    use crate::args::CommandLine;
    use crate::doctor;
    use crate::reader::Reader;

    #[tokio::test]
    async fn a_server_that_accepts_and_never_answers_is_an_error_that_names_it() {
        // The kernel accepts connections, and nobody reads from them.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let content = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        std::fs::write(kubeconfig.path(), content).unwrap();
        let words = ["kubectl-endpoints", "doctor", "--kubeconfig", kubeconfig.path().to_str().unwrap()];
        let global = CommandLine::try_parse_from(words).unwrap().global;
        let limit = Duration::from_millis(300);
        let Connection { client, .. } = connect_within(&global, limit).await.unwrap();
        let reader = Reader::quiet(client.kube().clone());
        let options = Options::default();
        let asked = doctor::facts(client.kube(), &reader, &options);
        let error = Box::pin(asked).await.unwrap_err().to_string();
        let start = format!(
            "the version of the server cannot be read: http://{address} has not begun to answer within 300ms; check the"
        );
        assert!(error.starts_with(&start) && error.contains("--kubeconfig"), "{error}");
        let error = reader.all(None).await.err().unwrap().to_string();
        assert!(error.contains(&format!("http://{address} has not begun to answer")), "{error}");
    }
}

//! Makes the client of the kubeconfig that kubectl would use.

use anyhow::Context;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube_endpoint_api_client::{ApiClient, client_from_config, read_kubeconfig, watch_files};

use crate::args::Global;

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
    let (config, context) = config(global).await?;
    let namespace = global.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok(Connection { client: client_from_config(config).await?, namespace, context })
}

/// Reads the kubeconfig of the command line, or that of kubectl.
///
/// # Errors
///
/// An error if there is no readable kubeconfig.
pub(crate) fn kubeconfig(global: &Global) -> Result<Kubeconfig, KubeconfigError> {
    read_kubeconfig(global.kubeconfig.as_deref())
}

/// Returns the configuration of the client, and the name of the context.
///
/// # Errors
///
/// An error if there is no usable kubeconfig.
pub(crate) async fn config(global: &Global) -> anyhow::Result<(Config, String)> {
    let mut kubeconfig = match kubeconfig(global) {
        Ok(kubeconfig) => kubeconfig,
        // In a pod there is a service account in its place.
        Err(error) if global.kubeconfig.is_none() && global.context.is_none() => {
            let config = Config::incluster().map_err(|_| error);
            return Ok((config.context("no cluster is configured; give --kubeconfig FILE")?, String::new()));
        }
        Err(error) => return Err(error).context("the kubeconfig cannot be read"),
    };
    if global.context.is_some() {
        kubeconfig.current_context = global.context.clone();
    }
    let options = KubeConfigOptions { context: global.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
    let mut config =
        config.context("the kubeconfig cannot be used; `kubectl config get-contexts` lists its contexts")?;
    watch_files(&mut config, &kubeconfig);
    Ok((config, kubeconfig.current_context.unwrap_or_default()))
}

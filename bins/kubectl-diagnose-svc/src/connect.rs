//! Makes the client of the kubeconfig that kubectl would use.

use std::time::Duration;

use anyhow::anyhow;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::Config;
use kube::config::KubeConfigOptions;
use kube_endpoint_api_client::{
    ApiClient, ClientError, UnusableKubeconfig, client_from_config, client_with_answer_limit, watch_files,
};
use kube_endpoint_core_model::causes;

use crate::config_flags::ConfigFlags;

/// The time for connecting to the server.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The time within which an answer has to begin: a command must not wait without end at a server
/// that accepts connections and does nothing.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

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
pub(crate) async fn connect(flags: &ConfigFlags) -> anyhow::Result<Connection> {
    let (mut config, context) = config(flags).await?;
    // Audit logs tell who reads; the plugin must not look like an unknown client.
    let agent = HeaderValue::from_static(concat!("kubectl-diagnose-svc/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    Ok(Connection { client: client(config, flags).await?, namespace, context })
}

/// Makes a client of a configuration, with the limits of the flags.
///
/// # Errors
///
/// An error if the configuration names certificates or credentials that cannot be used.
pub(crate) async fn client(mut config: Config, flags: &ConfigFlags) -> Result<ApiClient, ClientError> {
    config.connect_timeout = Some(CONNECT_LIMIT);
    match flags.request_timeout.unwrap_or(ANSWER_LIMIT) {
        Duration::ZERO => client_from_config(config).await,
        limit => client_with_answer_limit(config, limit).await,
    }
}

/// Returns the configuration of the client, and the name of the context.
///
/// # Errors
///
/// An error if there is no usable kubeconfig.
pub(crate) async fn config(flags: &ConfigFlags) -> anyhow::Result<(Config, String)> {
    let kubeconfig = match flags.kubeconfig() {
        Ok(kubeconfig) => kubeconfig,
        // In a pod there is a service account in its place.
        Err(error) if flags.is_default_place() && error.is::<UnusableKubeconfig>() => {
            let mut config = Config::incluster().map_err(|_| error)?;
            flags.change_in_pod(&mut config);
            return Ok((config, String::new()));
        }
        Err(error) => return Err(error),
    };
    let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| {
        let why = causes(&error);
        anyhow!("the kubeconfig cannot be used: {why}; `kubectl config get-contexts` lists its contexts")
    })?;
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
    use crate::place::Place;

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
        let words = ["kubectl-diagnose-svc", "doctor", "--request-timeout=300ms", "--kubeconfig"];
        let words = words.into_iter().chain(kubeconfig.path().to_str());
        let global = CommandLine::try_parse_from(words).unwrap().global;
        let place = Place::of_cluster(connect(&global.config).await.unwrap());
        let options = Options::default();
        let asked = doctor::facts(&place, &options);
        let error = Box::pin(asked).await.unwrap_err().to_string();
        let start = format!(
            "the version of the server cannot be read: http://{address} has not begun to answer within 300ms; check the"
        );
        assert!(error.starts_with(&start) && error.contains("--kubeconfig"), "{error}");
        let error = place.reader.all(None).await.err().unwrap().to_string();
        assert!(error.contains(&format!("http://{address} has not begun to answer")), "{error}");
    }
}

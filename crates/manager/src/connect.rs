//! Makes the client: from a kubeconfig file, `$KUBECONFIG`, `~/.kube/config` or the pod's service account.

use std::path::{Path, PathBuf};

use kube::config::{Config, InferConfigError, KubeConfigOptions, Kubeconfig};
use kube_endpoint_api_client::{
    ApiClient, ClientError, client_from_config, watch_files, without_credentials,
};
use kube_endpoint_core_model::causes;

/// Why no client could be made. Nothing has been started.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig file cannot be read or is invalid.
    #[error("kubeconfig {path}: {why}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// No file was given, and the default locations have no configuration.
    #[error(
        "no API server is configured: give --kubeconfig FILE, set KUBECONFIG, or try it out with --embedded"
    )]
    NotFound(#[source] InferConfigError),
    /// No client can be made from the configuration.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The API server's URL has a scheme other than `https` and `http`.
    #[error("invalid API server address {0}: it must begin with https:// or http://")]
    Scheme(String),
}

/// Makes a client that sends each request once. The caller of a request decides whether to retry it.
///
/// # Errors
///
/// When there is no configuration or it is invalid. The server is not contacted.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<ApiClient, ConnectError> {
    let config = match kubeconfig {
        Some(path) => read(path).await?,
        None => infer().await.map_err(ConnectError::NotFound)?,
    };
    if !matches!(config.cluster_url.scheme_str(), Some("https" | "http")) {
        return Err(ConnectError::Scheme(without_credentials(&config.cluster_url)));
    }
    let server = without_credentials(&config.cluster_url);
    let client = client_from_config(config).await?;
    tracing::info!(server, "using API server");
    Ok(client)
}

async fn infer() -> Result<Config, InferConfigError> {
    let mut config = Config::infer().await?;
    // A service account's configuration already names the file of its CA bundle.
    if config.root_cert_file.is_none()
        && let Ok(kubeconfig) = Kubeconfig::read()
    {
        watch_files(&mut config, &kubeconfig);
    }
    Ok(config)
}

async fn read(path: &Path) -> Result<Config, ConnectError> {
    let failed = |why: String| ConnectError::Kubeconfig { path: path.to_owned(), why };
    if let Err(error) = std::fs::metadata(path) {
        return Err(failed(format!("{error}; give the path of an existing, readable file")));
    }
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| {
        // The parser appends an excerpt of the file. The line and column before it suffice.
        let why = causes(&error);
        failed(why.split_once(" --> ").map_or(&*why, |(why, _)| why).to_owned())
    })?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(causes(&error)))?;
    watch_files(&mut config, &kubeconfig);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    async fn error_of(content: &str) -> String {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let error = connect(Some(file.path())).await.err().map(|error| error.to_string()).unwrap_or_default();
        error.replace(file.path().to_str().unwrap(), "FILE")
    }

    #[tokio::test]
    async fn an_invalid_kubeconfig_is_reported_on_one_line() {
        let missing = connect(Some(Path::new("/no/such/file"))).await.err().unwrap().to_string();
        let no_context = error_of(r#"{"clusters":[],"contexts":[],"users":[],"current-context":"x"}"#).await;
        let elsewhere = error_of(
            r#"{"clusters":[{"name":"c","cluster":{"server":"ftp://127.0.0.1"}}],"current-context":"c",
            "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}"#,
        );
        let errors = [missing, error_of("a: [").await, no_context, elsewhere.await];
        assert!(errors.iter().all(|error| !error.is_empty() && !error.contains('\n')), "{errors:#?}");
        insta::assert_snapshot!(format!("{}\n{}\n{}", errors[0], errors[2], errors[3]));
    }
}

//! Finding the API server: kubeconfig, the usual places, or the pod's service account.

use std::path::{Path, PathBuf};

use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube_endpoint_core_model::causes;
use kube_endpoint_informer::ApiClient;

/// Why no client could be made. Nothing has been started then.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read.
    #[error("kubeconfig {path}: {why}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No file was named, and none of the usual places has one.
    #[error(
        "no API server to talk to: give --kubeconfig FILE, set KUBECONFIG, or run with --embedded to try it out"
    )]
    NotFound(#[source] kube::config::InferConfigError),
    /// What the configuration says makes no client.
    #[error("the configuration of the API server makes no sense: {}", causes(.0))]
    Client(#[from] kube::Error),
    /// The API server is said to be where no API server can be.
    #[error("the API server's address {0} makes no sense: it must begin with https:// or http://")]
    Scheme(String),
}

/// A client that sends each request once: what to do about a failure is decided by who made it.
///
/// # Errors
///
/// When there is no configuration, or one that makes no sense. Whether a server answers is not tried.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<ApiClient, ConnectError> {
    let config = match kubeconfig {
        Some(path) => read(path).await?,
        None => Config::infer().await.map_err(ConnectError::NotFound)?,
    };
    if !matches!(config.cluster_url.scheme_str(), Some("https" | "http")) {
        return Err(ConnectError::Scheme(config.cluster_url.to_string()));
    }
    let server = config.cluster_url.to_string();
    let client = kube_endpoint_informer::client_from_config(config)?;
    tracing::info!(server, "the API server to talk to");
    Ok(client)
}

async fn read(path: &Path) -> Result<Config, ConnectError> {
    let failed = |why: String| ConnectError::Kubeconfig { path: path.to_owned(), why };
    if let Err(error) = std::fs::metadata(path) {
        return Err(failed(format!("{error}; give the path of a file that exists and can be read")));
    }
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| {
        // The parser also draws the place; its line and column are enough.
        let why = causes(&error);
        failed(why.split_once(" --> ").map_or(&*why, |(why, _)| why).to_owned())
    })?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(causes(&error)))
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
    async fn what_is_wrong_with_a_kubeconfig_is_told_in_one_line() {
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

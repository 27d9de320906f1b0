//! Finding the API server: kubeconfig, the usual places, or the pod's service account.

use std::path::{Path, PathBuf};

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

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
    #[error("the configuration of the API server makes no sense: {0}")]
    Client(#[from] kube::Error),
}

/// A client that sends each request once: what to do about a failure is decided by who made it.
///
/// # Errors
///
/// When there is no configuration, or one that makes no sense. Whether a server answers is not tried.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let config = match kubeconfig {
        Some(path) => read(path).await?,
        None => Config::infer().await.map_err(ConnectError::NotFound)?,
    };
    Ok(kube_endpoint_informer::client_from_config(config)?)
}

async fn read(path: &Path) -> Result<Config, ConnectError> {
    let failed = |why: String| ConnectError::Kubeconfig { path: path.to_owned(), why };
    if let Err(error) = std::fs::metadata(path) {
        return Err(failed(format!("{error}; give the path of a file that exists and can be read")));
    }
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(causes(&error)))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(causes(&error)))
}

/// An error and what is behind it, in one line.
fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !line.contains(&cause_text) {
            line = format!("{line}: {cause_text}");
        }
        next = cause.source();
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
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
        let errors = [missing, error_of("a: [").await, no_context];
        assert!(errors.iter().all(|error| !error.is_empty() && !error.contains('\n')), "{errors:#?}");
        insta::assert_snapshot!(format!("{}\n{}", errors[0], errors[2]));
    }
}

//! Makes the client: from a kubeconfig file, `$KUBECONFIG`, `~/.kube/config` or the pod's service
//! account.

use std::path::Path;

use kube::Config;
use kube_endpoint_api_client::{
    ApiClient, ClientError, UnusableKubeconfig, client_from_config, read_kubeconfig, without_credentials,
};

/// The error of a client that could not be made. No task has started.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig does not make a configuration.
    #[error(transparent)]
    Kubeconfig(#[from] UnusableKubeconfig),
    /// The caller gave no file, and the default locations have no configuration.
    #[error(
        "no API server is configured: give --kubeconfig FILE, set KUBECONFIG, or try it out with --embedded"
    )]
    NotFound,
    /// The configuration does not make a client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The URL of `--master` is malformed.
    #[error(
        "invalid value {0:?} for --master: write the URL of an API server, such as https://10.0.0.1:6443"
    )]
    Master(String),
    /// The API server's URL has a scheme other than `https` and `http`.
    #[error("invalid API server address {0}: it must begin with https:// or http://")]
    Scheme(String),
}

/// Makes a client that sends each request once, and leaves retries to the caller.
///
/// `master` overrides the server's URL in the kubeconfig or of the service account, as in
/// kube-controller-manager. If there is neither, the client uses it without credentials.
///
/// # Errors
///
/// If there is no configuration, or it is invalid. This does not contact the server.
pub async fn connect(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<ApiClient, ConnectError> {
    Ok(client_from_config(config(kubeconfig, master).await?).await?)
}

/// Returns the configuration of a client, with a URL of `http` or `https`.
pub(crate) async fn config(kubeconfig: Option<&Path>, master: Option<&str>) -> Result<Config, ConnectError> {
    let master = master.map(url_of).transpose()?;
    let found = match kubeconfig {
        Some(path) => Ok(read_kubeconfig(Some(path))?.config().await?),
        None => infer().await,
    };
    let config = match (found, master) {
        (Ok(mut config), Some(master)) => {
            config.cluster_url = master;
            // As in client-go: the name belongs to the server of the kubeconfig.
            config.tls_server_name = None;
            config
        }
        (Err(_), Some(master)) => Config::new(master),
        (found, None) => found?,
    };
    if !matches!(config.cluster_url.scheme_str(), Some("https" | "http")) {
        return Err(ConnectError::Scheme(without_credentials(&config.cluster_url)));
    }
    Ok(config)
}

/// Parses the value of `--master`. Like client-go, this takes an address without a scheme for one
/// without TLS.
fn url_of(master: &str) -> Result<http::Uri, ConnectError> {
    let invalid = || ConnectError::Master(master.to_owned());
    let url = if master.contains("://") { master.to_owned() } else { format!("http://{master}") };
    let url: http::Uri = url.parse().map_err(|_| invalid())?;
    if url.host().is_none_or(str::is_empty) { Err(invalid()) } else { Ok(url) }
}

/// Returns the configuration of the default locations, or that of the pod's service account.
async fn infer() -> Result<Config, ConnectError> {
    let error = match async { read_kubeconfig(None)?.config().await }.await {
        Ok(config) => return Ok(config),
        Err(error) if error.is_missing() && error.is_unnamed() => ConnectError::NotFound,
        Err(error) => error.into(),
    };
    Config::incluster().map_err(|_| error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    async fn error_of(content: &str) -> String {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let error =
            connect(Some(file.path()), None).await.err().map(|error| error.to_string()).unwrap_or_default();
        error.replace(file.path().to_str().unwrap(), "FILE")
    }

    #[test]
    fn the_url_of_master_may_lack_a_scheme() {
        let check = |master: &str, want: Option<&str>| {
            let got = url_of(master).ok().map(|url| url.to_string());
            assert_eq!(got.as_deref(), want, "{master}");
        };
        check("https://10.0.0.1:6443", Some("https://10.0.0.1:6443/"));
        check("10.0.0.1:8080", Some("http://10.0.0.1:8080/"));
        check("[::1]:8080", Some("http://[::1]:8080/"));
        check("https://", None);
        check("a b", None);
    }

    #[tokio::test]
    async fn an_invalid_kubeconfig_is_reported_on_one_line() {
        let missing = connect(Some(Path::new("/no/such/file")), None).await.err().unwrap().to_string();
        let no_context = error_of(r#"{"clusters":[],"contexts":[],"users":[],"current-context":"x"}"#).await;
        let elsewhere = error_of(
            r#"{"clusters":[{"name":"c","cluster":{"server":"ftp://127.0.0.1"}}],"current-context":"c",
            "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}"#,
        );
        let errors = [missing, error_of("a: [").await, no_context, elsewhere.await, error_of("").await];
        assert!(errors.iter().all(|error| !error.is_empty() && !error.contains('\n')), "{errors:#?}");
        insta::assert_snapshot!(format!("{}\n{}\n{}\n{}", errors[0], errors[2], errors[3], errors[4]));
    }
}

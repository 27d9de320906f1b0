//! The page of `kube-endpoint-manager --embedded`. It needs no tunnel and no credentials, and its
//! kubeconfig names it, in an extension of the cluster.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use http::Uri;
use kube::config::Kubeconfig;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The name of the extension.
const EXTENSION: &str = "kube-endpoint-manager";

/// The time in which the page must accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Returns the URL of the page, or `None` if the current cluster is not that of `--embedded`.
///
/// # Errors
///
/// An error if there is no page, or its process has ended.
pub(super) async fn page(kubeconfig: &Kubeconfig) -> anyhow::Result<Option<String>> {
    let Some(extension) = extension(kubeconfig) else { return Ok(None) };
    let Some(page) = extension["page"].as_str() else {
        bail!(
            "this cluster is a kube-endpoint-manager --embedded without a page: start it without --embedded-ui-address=none"
        );
    };
    let url: Option<Uri> = page.parse().ok().filter(|url: &Uri| url.scheme_str() == Some("http"));
    let address = url.as_ref().and_then(|url| url.authority()?.as_str().parse::<SocketAddr>().ok());
    let Some(address) = address.filter(|address| address.ip().is_loopback()) else {
        bail!("the kubeconfig names the page {page:?}, which is not on loopback");
    };
    let answer = timeout(CONNECT_LIMIT, TcpStream::connect(address)).await;
    answer.map_err(Into::into).and_then(|connected| connected).with_context(|| {
        format!(
            "the page of kube-endpoint-manager --embedded was at {page}, where nothing answers: start that program again"
        )
    })?;
    Ok(Some(page.to_owned()))
}

/// Returns the extension of the cluster of the current context.
fn extension(kubeconfig: &Kubeconfig) -> Option<&Value> {
    let context = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    let mut extensions = cluster.extensions.iter().flatten();
    extensions.find(|extension| extension.name == EXTENSION).map(|extension| &extension.extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn page_of(cluster: &str) -> Result<Option<String>, String> {
        let kubeconfig = Kubeconfig::from_yaml(&format!(
            "{{clusters: [{{name: c, cluster: {cluster}}}], contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             current-context: c}}"
        ));
        page(&kubeconfig.unwrap()).await.map_err(|error| error.to_string())
    }

    async fn page_at(page: &str) -> Result<Option<String>, String> {
        let extension = format!("{{name: kube-endpoint-manager, extension: {{page: {page}}}}}");
        page_of(&format!("{{server: 'https://127.0.0.1:1', extensions: [{extension}]}}")).await
    }

    #[tokio::test]
    async fn the_kubeconfig_of_embedded_names_the_page() {
        assert_eq!(page_of("{server: 'https://10.0.0.1:6443'}").await, Ok(None));
        let other = "{extensions: [{name: other, extension: {page: 'http://127.0.0.1:80/'}}]}";
        assert_eq!(page_of(other).await, Ok(None));
        assert_eq!(page(&Kubeconfig::default()).await.unwrap(), None);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/ui/", listener.local_addr().unwrap());
        assert_eq!(page_at(&url).await, Ok(Some(url.clone())));
        drop(listener);
        let error = page_at(&url).await.unwrap_err();
        assert!(error.contains(&format!("was at {url}, where nothing answers")), "{error}");
        let error = page_at("null").await.unwrap_err();
        assert!(error.contains("--embedded without a page"), "{error}");
        for other in ["http://192.0.2.1:80/ui/", "https://127.0.0.1:80/ui/", "http://localhost/", "7x"] {
            let error = page_at(other).await.unwrap_err();
            assert!(error.ends_with(&format!("the page \"{other}\", which is not on loopback")), "{error}");
        }
    }
}

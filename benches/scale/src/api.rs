//! Requests to the API server, in JSON.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Config;
use kube::client::Body;
use kube_endpoint_api_client::{
    AnswerBody, ApiClient, client_from_config, read_kubeconfig, without_credentials,
};
use kube_endpoint_core_model::causes;
use serde_json::Value;

/// How many requests are under way at a time while this program makes or removes objects.
const CONCURRENCY: usize = 32;

/// How often this program sends a request if no answer arrives or the server asks to wait.
const ATTEMPTS: u32 = 5;

/// The media type of merge patches.
const MERGE_PATCH: &str = "application/merge-patch+json";

/// The API server of a kubeconfig.
#[derive(Clone)]
pub(crate) struct Api {
    config: Config,
    client: ApiClient,
}

impl Api {
    /// Reads the kubeconfig, without a request to the server.
    pub(crate) async fn new(kubeconfig: &Path) -> anyhow::Result<Self> {
        let config = read_kubeconfig(Some(kubeconfig))?.config().await?;
        let named = || format!("kubeconfig {}", kubeconfig.display());
        let client = client_from_config(config.clone()).await.with_context(named)?;
        Ok(Self { config, client })
    }

    /// Returns the same server over connections of its own.
    pub(crate) async fn with_own_connections(&self) -> anyhow::Result<Self> {
        let client = client_from_config(self.config.clone()).await?;
        Ok(Self { client, ..self.clone() })
    }

    /// Returns the URL, without password.
    pub(crate) fn url(&self) -> String {
        without_credentials(&self.config.cluster_url)
    }

    /// Asks the server for its version.
    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        let unreachable = || format!("the API server {} does not answer", self.url());
        let request = request(Method::GET, "/version", None, None)?;
        let answer = tokio::time::timeout(Duration::from_secs(10), self.client.send(request)).await;
        let answer =
            answer.map_err(|_| anyhow::anyhow!("no answer within 10 s")).with_context(unreachable)?;
        let (status, body) = whole(answer.with_context(unreachable)?).await.with_context(unreachable)?;
        if !status.is_success() {
            bail!("{}: GET /version: {}", self.url(), refusal(status, &body));
        }
        let version: Value = serde_json::from_slice(&body).with_context(unreachable)?;
        Ok(version["gitVersion"].as_str().unwrap_or("of unknown version").to_owned())
    }

    /// Sends a request. A status among `expected` is no error.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        expected: &[StatusCode],
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let mut attempt = 1;
        loop {
            let content_type = if method == Method::PATCH { MERGE_PATCH } else { "application/json" };
            let request = request(method.clone(), path, body, Some(content_type))?;
            let outcome = match self.client.send(request).await {
                Ok(answer) => whole(answer).await,
                Err(error) => Err(error.into()),
            };
            match outcome {
                Ok((status, body)) if status.is_success() || expected.contains(&status) => {
                    return Ok((status, body));
                }
                Ok((status, _)) if status == StatusCode::TOO_MANY_REQUESTS && attempt < ATTEMPTS => {}
                Ok((status, body)) => bail!("{method} {path}: {}", refusal(status, &body)),
                Err(error) if attempt == ATTEMPTS => bail!("{method} {path}: {}", causes(&*error)),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            attempt += 1;
        }
    }

    /// Reads an object. Returns `None` if it does not exist.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Option<Value>> {
        let (status, body) = self.call(Method::GET, path, None, &[StatusCode::NOT_FOUND]).await?;
        Ok(if status == StatusCode::NOT_FOUND { None } else { Some(serde_json::from_slice(&body)?) })
    }

    /// Creates an object. Returns false if it exists already.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> anyhow::Result<bool> {
        let mut attempt = 1;
        loop {
            let (status, body) = self.call(Method::POST, path, Some(object), &[StatusCode::CONFLICT]).await?;
            if status != StatusCode::CONFLICT || already_exists(&body) {
                return Ok(status != StatusCode::CONFLICT);
            }
            // A server that has just started gives this answer until it can allocate addresses.
            if attempt == ATTEMPTS {
                bail!("POST {path}: {}", refusal(status, &body));
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            attempt += 1;
        }
    }

    /// Applies a merge patch.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> anyhow::Result<()> {
        self.call(Method::PATCH, path, Some(patch), &[]).await.map(|_| ())
    }

    /// Reads a list page by page and hands each object to `item`. Returns the version of the list.
    pub(crate) async fn list(&self, path: &str, mut item: impl FnMut(&Value)) -> anyhow::Result<String> {
        let mut next = String::new();
        loop {
            let (_, body) = self.call(Method::GET, &format!("{path}?limit=500{next}"), None, &[]).await?;
            let list: Value = serde_json::from_slice(&body).with_context(|| format!("GET {path}"))?;
            list["items"].as_array().into_iter().flatten().for_each(&mut item);
            match list["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => next = format!("&continue={}", escaped(token)),
                _ => return Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()),
            }
        }
    }

    /// Returns the version of a list, and true if it has items.
    pub(crate) async fn position(&self, path: &str) -> anyhow::Result<(String, bool)> {
        let (_, body) = self.call(Method::GET, &format!("{path}?limit=1"), None, &[]).await?;
        let list: Value = serde_json::from_slice(&body).with_context(|| format!("GET {path}"))?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok((version, list["items"].as_array().is_some_and(|items| !items.is_empty())))
    }

    /// Starts a watch. The body is a stream of lines, each an event.
    pub(crate) async fn watch(&self, path: &str, version: &str) -> anyhow::Result<Response<AnswerBody>> {
        let path = format!("{path}?watch=1&resourceVersion={version}");
        let answer = self.client.send(request(Method::GET, &path, None, None)?).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (status, body) = whole(answer).await?;
        bail!("GET {path}: {}", refusal(status, &body))
    }
}

/// Runs `work` for each item, some at a time. The first error ends it.
pub(crate) async fn for_each<T, F: Future<Output = anyhow::Result<()>>>(
    items: impl IntoIterator<Item = T>,
    work: impl FnMut(T) -> F,
) -> anyhow::Result<()> {
    stream::iter(items).map(work).buffer_unordered(CONCURRENCY).try_collect().await
}

fn request(
    method: Method,
    path: &str,
    body: Option<&Value>,
    content_type: Option<&str>,
) -> anyhow::Result<Request<Body>> {
    let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
    if let (Some(_), Some(content_type)) = (body, content_type) {
        request = request.header("content-type", content_type);
    }
    let bytes = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
    Ok(request.body(Body::from(bytes))?)
}

async fn whole(answer: Response<AnswerBody>) -> anyhow::Result<(StatusCode, Bytes)> {
    let status = answer.status();
    Ok((status, answer.into_body().collect().await?.to_bytes()))
}

/// Returns a text with the status and the message of an error.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok();
    let message = message.as_ref().and_then(|it| it["message"].as_str()).unwrap_or_default();
    format!("{status}: {message}").trim_end_matches([' ', ':']).to_owned()
}

/// Returns true if a conflict means that the object exists. Other conflicts pass.
fn already_exists(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|status| status["reason"] == "AlreadyExists")
}

/// Returns a continue token as part of a query.
fn escaped(token: &str) -> String {
    percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_the_server_said() {
        let check =
            |body: &str, want: &str| assert_eq!(refusal(StatusCode::FORBIDDEN, body.as_bytes()), want);
        check(r#"{"message": "pods is forbidden"}"#, "403 Forbidden: pods is forbidden");
        check("not JSON", "403 Forbidden");
    }

    #[test]
    fn only_some_conflicts_say_that_there_is_such_an_object() {
        assert!(already_exists(br#"{"reason": "AlreadyExists", "code": 409}"#));
        assert!(!already_exists(br#"{"reason": "Conflict", "code": 409}"#));
        assert!(!already_exists(b"not JSON"));
    }

    #[test]
    fn continue_tokens_are_escaped() {
        assert_eq!(escaped("aZ0+/="), "aZ0%2B%2F%3D");
    }
}

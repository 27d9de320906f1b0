//! Sends the requests for one Lease, and classifies their answers.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request as HttpRequest, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube_endpoint_api_client::{AnswerBody, ApiClient, is_status_not_found, why_request_failed};
use kube_endpoint_api_writer::RequestLimiter;
use serde_json::Value;

use crate::action::{Answer, Request};
use crate::lease::Lease;
use crate::options::ElectorOptions;

/// The longest answer, in bytes. A Lease has some hundred bytes; etcd stores at most 1.5 MiB.
const MAX_ANSWER: usize = 2 << 20;
/// Requests per second and their burst: client-go's defaults. An elector sends one request in two
/// seconds.
const QPS: f64 = 5.0;
const BURST: u32 = 10;

/// Sends requests for one Lease. Clones share the rate limit.
#[derive(Clone, Debug)]
pub(crate) struct LeaseClient {
    client: ApiClient,
    limiter: RequestLimiter,
    collection: String,
    name: String,
    user_agent: String,
}

impl LeaseClient {
    pub(crate) fn new(client: ApiClient, options: &ElectorOptions) -> Self {
        let collection = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", options.namespace);
        let user_agent = format!("kube-endpoint-manager/{} leader-election", env!("CARGO_PKG_VERSION"));
        // The constants are a valid rate.
        let limiter = RequestLimiter::new(QPS, BURST).unwrap_or_default();
        Self { client, limiter, collection, name: options.name.clone(), user_agent }
    }

    /// Sends one request, once. Waiting for the rate limit is part of the timeout.
    pub(crate) async fn send(&self, request: Request, timeout: Duration) -> Answer {
        let (method, is_write) = match &request {
            Request::Get => (Method::GET, false),
            Request::Create(_) => (Method::POST, true),
            Request::Update(_) => (Method::PUT, true),
        };
        let path = match &request {
            Request::Create(_) => self.collection.clone(),
            Request::Get | Request::Update(_) => format!("{}/{}", self.collection, self.name),
        };
        let body = match &request {
            Request::Get => Vec::new(),
            Request::Create(lease) | Request::Update(lease) => lease.as_json().to_string().into_bytes(),
        };
        let answered = async {
            self.limiter.acquire().await;
            self.answer(&method, &path, body).await
        };
        let failed =
            |why: String| Answer::Failed { why: format!("{method} {path}: {why}"), may_be_applied: is_write };
        match tokio::time::timeout(timeout, answered).await {
            Err(_) => failed(format!("no answer within {timeout:?}")),
            Ok(Err(why)) => failed(why),
            Ok(Ok((status, body))) => classify(status, &body, is_write),
        }
    }

    /// Opens a watch of the Lease. It begins with the present state.
    pub(crate) async fn watch(&self, timeout: Duration) -> Result<AnswerBody, String> {
        self.limiter.acquire().await;
        let path = format!(
            "{}?watch=true&fieldSelector=metadata.name%3D{}&timeoutSeconds={}",
            self.collection,
            self.name,
            timeout.as_secs()
        );
        let request = self.request(&Method::GET, &path, Vec::new())?;
        let (head, body) =
            self.client.send(request).await.map_err(|error| why_request_failed(&error))?.into_parts();
        if head.status == StatusCode::OK {
            return Ok(body);
        }
        Err(format!("GET {path}: {}", message(head.status, &read(body).await.unwrap_or_default())))
    }

    async fn answer(
        &self,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), String> {
        let request = self.request(method, path, body)?;
        let (head, body) =
            self.client.send(request).await.map_err(|error| why_request_failed(&error))?.into_parts();
        Ok((head.status, read(body).await?))
    }

    fn request(&self, method: &Method, path: &str, body: Vec<u8>) -> Result<HttpRequest<Body>, String> {
        HttpRequest::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, &self.user_agent)
            .body(Body::from(body))
            .map_err(|error| error.to_string())
    }
}

async fn read(body: AnswerBody) -> Result<Bytes, String> {
    let whole = Limited::new(body, MAX_ANSWER).collect().await;
    Ok(whole.map_err(|error| error.to_string())?.to_bytes())
}

fn message(status: StatusCode, body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    match answer["message"].as_str().filter(|message| !message.is_empty()) {
        Some(message) => message.to_owned(),
        None => format!("the server answered {status}"),
    }
}

/// Classifies an answer by its status. After a 5xx, the API server may have carried out a write.
fn classify(status: StatusCode, body: &[u8], is_write: bool) -> Answer {
    if status.is_success() {
        let lease = serde_json::from_slice(body).ok().and_then(Lease::from_json);
        return lease.map_or_else(
            || Answer::Failed { why: "the answer is not a Lease".to_owned(), may_be_applied: is_write },
            Answer::Lease,
        );
    }
    let why = message(status, body);
    // A proxy may answer 404, too. Only an API server knows that there is no Lease.
    if status == StatusCode::NOT_FOUND && is_status_not_found(body) {
        return Answer::NotFound(why);
    }
    if is_write && status == StatusCode::CONFLICT {
        return Answer::Conflict(why);
    }
    Answer::Failed { why, may_be_applied: is_write && !status.is_client_error() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_says_whether_a_write_may_have_been_carried_out() {
        let check = |status: u16, body: &str, want: Answer| {
            assert_eq!(classify(StatusCode::from_u16(status).unwrap(), body.as_bytes(), true), want);
        };
        let failed = |why: &str, may_be_applied| Answer::Failed { why: why.into(), may_be_applied };
        let lease = json!({"kind": "Lease", "metadata": {"name": "l"}});
        check(200, &lease.to_string(), Answer::Lease(Lease::from_json(lease.clone()).unwrap()));
        check(201, &lease.to_string(), Answer::Lease(Lease::from_json(lease).unwrap()));
        check(200, "<html>", failed("the answer is not a Lease", true));
        check(200, r#"{"kind":"Status","metadata":{}}"#, failed("the answer is not a Lease", true));
        let not_found = r#"{"kind":"Status","reason":"NotFound","message":"m"}"#;
        check(404, not_found, Answer::NotFound("m".into()));
        for body in ["404 page not found", "<html>", "{}", ""] {
            check(404, body, failed("the server answered 404 Not Found", false));
        }
        check(404, r#"{"message":"m"}"#, failed("m", false));
        check(302, "<a>", failed("the server answered 302 Found", true));
        check(409, r#"{"message":"m"}"#, Answer::Conflict("m".into()));
        check(403, r#"{"message":"m"}"#, failed("m", false));
        check(422, "", failed("the server answered 422 Unprocessable Entity", false));
        check(429, "", failed("the server answered 429 Too Many Requests", false));
        check(500, r#"{"message":"m"}"#, failed("m", true));
        check(504, "<html>", failed("the server answered 504 Gateway Timeout", true));
    }
}

//! Reviews: questions that the API server answers, and the limits on asking.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::causes;
use kube_endpoint_workqueue::TokenBucket;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// Questions per second, and at once: upstream's limits for its clients of reviews.
const QUESTIONS_PER_SECOND: NonZeroU32 = NonZeroU32::new(200).expect("not zero");
const QUESTIONS_AT_ONCE: NonZeroU32 = NonZeroU32::new(400).expect("not zero");

/// Upstream's `DefaultAuthWebhookRetryBackoff`, without jitter: few questions are asked at once.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// An answer is small; a longer one is not read.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// The API server gave no answer. The reason is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server could not be asked; the log says why")]
pub(crate) struct Unanswered;

/// Asks reviews of one kind.
pub(crate) struct Reviewer {
    client: ApiClient,
    group: &'static str,
    kind: &'static str,
    path: &'static str,
    limit: TokenBucket,
    timeout: Duration,
    failing: AtomicBool,
}

impl Reviewer {
    /// Asks who has a token.
    pub(crate) fn of_tokens(client: ApiClient, timeout: Duration) -> Self {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        Self::new(client, "authentication.k8s.io", "TokenReview", path, timeout)
    }

    /// Asks whether a user may do something.
    pub(crate) fn of_access(client: ApiClient, timeout: Duration) -> Self {
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        Self::new(client, "authorization.k8s.io", "SubjectAccessReview", path, timeout)
    }

    fn new(
        client: ApiClient,
        group: &'static str,
        kind: &'static str,
        path: &'static str,
        timeout: Duration,
    ) -> Self {
        let limit = TokenBucket::per_second(QUESTIONS_PER_SECOND, QUESTIONS_AT_ONCE);
        Self { client, group, kind, path, limit, timeout, failing: AtomicBool::new(false) }
    }

    /// The status of the review with this `spec`. A question with `urgent` does not wait for others. Answers that ask for another attempt are followed, as long as the time
    /// limit allows.
    ///
    /// # Errors
    /// If there is no answer within the time limit, or none that can be read. That is logged once, until there is one.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, spec: Value, urgent: bool) -> Result<T, Unanswered> {
        let answer = timeout(self.timeout, self.attempts(spec, urgent)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {:?}", self.timeout)));
        match answer {
            Ok(status) => {
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("the API server answers a {} again", self.kind);
                }
                Ok(status)
            }
            Err(why) => {
                // Clients without credentials can cause this at any rate.
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        %why,
                        "the API server did not answer a {}; requests that need it are refused until it does",
                        self.kind
                    );
                }
                Err(Unanswered)
            }
        }
    }

    async fn attempts<T: DeserializeOwned>(&self, spec: Value, urgent: bool) -> Result<T, String> {
        let review = json!({
            "apiVersion": format!("{}/v1", self.group), "kind": self.kind, "metadata": {}, "spec": spec,
        });
        let review = serde_json::to_vec(&review).map_err(|error| error.to_string())?;
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            if !urgent {
                sleep(self.limit.reserve()).await;
            }
            let status = match self.attempt(&review).await? {
                Ok(status) => return Ok(status),
                Err(status) => status,
            };
            let again = matches!(
                status,
                StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::INTERNAL_SERVER_ERROR
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            );
            if !again || attempt == ATTEMPTS {
                let hint = match status {
                    StatusCode::FORBIDDEN => "; give this process the ClusterRole system:auth-delegator",
                    _ => "",
                };
                return Err(format!("HTTP status {status}{hint}"));
            }
            sleep(pause).await;
            pause = pause.mul_f64(1.5);
        }
        Err("no answer".to_owned())
    }

    /// One request. The inner error is the status of an answer that is no review.
    ///
    /// Neither the text of an error nor a body is shown: they may repeat the token.
    async fn attempt<T: DeserializeOwned>(&self, review: &[u8]) -> Result<Result<T, StatusCode>, String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Body::from(review.to_vec()))
            .map_err(|error| error.to_string())?;
        let answer = self.client.send(request).await.map_err(|error| causes(&error))?;
        if !answer.status().is_success() {
            return Ok(Err(answer.status()));
        }
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|_| "the answer broke off, or is too long")?.to_bytes();
        let mut review: Value = serde_json::from_slice(&body).map_err(|_| "the answer is no JSON")?;
        let status = serde_json::from_value(review["status"].take());
        status.map(Ok).map_err(|_| format!("the answer is no {}", self.kind))
    }
}

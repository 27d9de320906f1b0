//! Reviews: questions that the API server answers, and the limits on asking.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube_endpoint_api_client::{ApiClient, why_request_failed};
use kube_endpoint_core_model::LogLimit;
use kube_endpoint_workqueue::TokenBucket;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// Questions per second, and at once: upstream's limits for its clients of reviews.
const QUESTIONS_PER_SECOND: NonZeroU32 = NonZeroU32::new(200).expect("not zero");
const QUESTIONS_AT_ONCE: NonZeroU32 = NonZeroU32::new(400).expect("not zero");

/// Questions of one kind that wait or are being asked. There is no place for more, so that clients
/// without credentials cannot take any amount of memory.
const MAX_OPEN_QUESTIONS: usize = 400;

/// How long a question may wait for the limit on questions per second. One that would wait longer
/// is refused at once.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How often refused questions are logged at most.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Upstream's `DefaultAuthWebhookRetryBackoff`, without jitter: few questions are asked at once.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// An answer is small; a longer one is not read.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// The API server gave no answer, or was not asked because there are too many questions. The reason
/// is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server could not be asked; the log says why")]
pub struct Unanswered;

/// Why a question has no answer.
enum Failure {
    /// The API server gave none that can be used.
    Answer(String),
    /// Too many questions are asked.
    Busy,
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Answer(why)
    }
}

/// A question that has a place among the open ones.
pub(crate) struct Question {
    review: Bytes,
    /// Not delayed by other questions, nor counted among them.
    urgent: bool,
    _place: Option<OwnedSemaphorePermit>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a, S> {
    api_version: String,
    kind: &'a str,
    metadata: Metadata,
    spec: S,
}

#[derive(Serialize)]
struct Metadata {}

/// Asks reviews of one kind.
pub(crate) struct Reviewer {
    client: ApiClient,
    group: &'static str,
    kind: &'static str,
    path: &'static str,
    limit: TokenBucket,
    places: Arc<Semaphore>,
    timeout: Duration,
    failing: AtomicBool,
    /// Questions may be answered and not answered in turn.
    lines: LogLimit,
    /// When refused questions were logged last.
    logged_busy: Mutex<Option<Instant>>,
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
        Self {
            client,
            group,
            kind,
            path,
            limit,
            places: Arc::new(Semaphore::new(MAX_OPEN_QUESTIONS)),
            timeout,
            failing: AtomicBool::new(false),
            lines: LogLimit::default(),
            logged_busy: Mutex::default(),
        }
    }

    /// Returns the question for a review with this `spec`. An `urgent` one is asked whatever other
    /// questions there are.
    ///
    /// # Errors
    /// If there is no place for another question. That is logged once a minute.
    pub(crate) fn question(&self, spec: impl Serialize, urgent: bool) -> Result<Question, Unanswered> {
        let place = match urgent {
            true => None,
            false => Some(Arc::clone(&self.places).try_acquire_owned().map_err(|_| self.busy())?),
        };
        let review = Review {
            api_version: format!("{}/v1", self.group),
            kind: self.kind,
            metadata: Metadata {},
            spec,
        };
        let review = serde_json::to_vec(&review).map_err(|_| Unanswered)?;
        Ok(Question { review: review.into(), urgent, _place: place })
    }

    /// Logs that a question is refused.
    fn busy(&self) -> Unanswered {
        let now = Instant::now();
        let mut logged = self.logged_busy.lock();
        // Clients without credentials can cause this at any rate.
        if logged.is_none_or(|logged| now >= logged + LOG_INTERVAL) {
            *logged = Some(now);
            tracing::warn!(
                "clients cause more than {QUESTIONS_PER_SECOND} {}s per second; requests that need another one are refused",
                self.kind
            );
        }
        Unanswered
    }

    /// Returns the status of the review. Answers that ask for another attempt are followed, as long
    /// as the time limit allows.
    ///
    /// # Errors
    /// If there is no answer within the time limit, or none that can be read. That is logged once,
    /// until there is one. Or if the question would wait too long for others.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, question: Question) -> Result<T, Unanswered> {
        let answer = timeout(self.timeout, self.attempts(&question)).await;
        let answer =
            answer.unwrap_or_else(|_| Err(Failure::Answer(format!("no answer within {:?}", self.timeout))));
        match answer {
            Ok(status) => {
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!("the API server answers a {} again", self.kind);
                }
                Ok(status)
            }
            Err(Failure::Busy) => Err(self.busy()),
            Err(Failure::Answer(why)) => {
                // Clients without credentials can cause this at any rate.
                if !self.failing.load(Ordering::Relaxed)
                    && let Some(left_out) = self.lines.admit(Instant::now().into_std())
                {
                    self.failing.store(true, Ordering::Relaxed);
                    tracing::warn!(
                        %why, left_out,
                        "the API server did not answer a {}; requests that need it are refused until it does",
                        self.kind
                    );
                }
                Err(Unanswered)
            }
        }
    }

    async fn attempts<T: DeserializeOwned>(&self, question: &Question) -> Result<T, Failure> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            if !question.urgent {
                sleep(self.limit.reserve_within(LONGEST_WAIT).ok_or(Failure::Busy)?).await;
            }
            let status = match self.attempt(question.review.clone()).await? {
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
                return Err(format!("HTTP status {status}{hint}").into());
            }
            sleep(pause).await;
            pause = pause.mul_f64(1.5);
        }
        Err("no answer".to_owned().into())
    }

    /// One request. The inner error is the status of an answer that is no review.
    ///
    /// Neither the text of an error nor a body is shown: they may repeat the token.
    async fn attempt<T: DeserializeOwned>(&self, review: Bytes) -> Result<Result<T, StatusCode>, String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Body::from(review))
            .map_err(|error| error.to_string())?;
        let answer = self.client.send(request).await.map_err(|error| why_request_failed(&error))?;
        if !answer.status().is_success() {
            return Ok(Err(answer.status()));
        }
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|_| "the answer broke off, or is too long")?.to_bytes();
        let mut review: Value = serde_json::from_slice(&body).map_err(|_| "the answer is no JSON")?;
        if review["kind"] != self.kind {
            return Err(format!("the answer is no {}", self.kind));
        }
        let status = serde_json::from_value(review["status"].take());
        status.map(Ok).map_err(|_| format!("the answer is no {}", self.kind))
    }
}

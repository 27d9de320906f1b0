//! Asks the API server to review tokens and rights, and limits the number of these questions.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube_endpoint_api_client::{ApiClient, why_request_failed};
use kube_endpoint_core_model::{Admission, LogLimit};
use kube_endpoint_workqueue::TokenBucket;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// Questions per second, and in a burst: upstream's limits for its clients of reviews.
const QUESTIONS_PER_SECOND: NonZeroU32 = NonZeroU32::new(200).expect("not zero");
const QUESTIONS_AT_ONCE: NonZeroU32 = NonZeroU32::new(400).expect("not zero");

/// The number of questions of one kind that wait or are under way. The limit keeps clients without
/// credentials from taking any amount of memory.
const MAX_OPEN_QUESTIONS: usize = 400;

/// How long a question may wait for the limit on questions per second. The reviewer refuses one
/// that would wait longer at once.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The shortest time between two log lines about refused questions.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Upstream's `DefaultAuthWebhookRetryBackoff`, without jitter: there are few questions at once.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest answer, in bytes. Real ones are small.
const LONGEST_ANSWER: usize = 1024 * 1024;

/// The API server gave no answer, or this process did not ask because there are too many questions.
/// The log has the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server could not be asked; the log says why")]
pub struct Unanswered;

/// Why a question has no answer.
enum Failure {
    /// The API server gave no usable answer.
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
    /// True if the question neither waits for others nor counts among them.
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
    /// Limits the lines of the log, because answers and failures may alternate.
    lines: LogLimit,
    /// When the log last had a line about refused questions.
    logged_busy: Mutex<Option<Instant>>,
}

impl Reviewer {
    /// Creates a reviewer that asks who has a token.
    pub(crate) fn of_tokens(client: ApiClient, timeout: Duration) -> Self {
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        Self::new(client, "authentication.k8s.io", "TokenReview", path, timeout)
    }

    /// Creates a reviewer that asks what a user may do.
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

    /// Returns the question for a review with this `spec`. No limit applies to an `urgent` one.
    ///
    /// # Errors
    /// [`Unanswered`] if there is no place for another question. This logs it once a minute.
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

    /// Logs a refused question.
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

    /// Returns the status of the review. If an answer asks for another attempt, this makes one
    /// within the time limit.
    ///
    /// # Errors
    /// [`Unanswered`] if no readable answer comes within the time limit, which this logs once until
    /// one comes, or if the question would wait too long for others.
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
                    && let Admission::Write { left_out } = self.lines.admit(Instant::now().into_std())
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

    /// Sends one request. The inner error is the status of an answer that is no review.
    ///
    /// The messages contain neither the text of an error nor a body, which may repeat the token.
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

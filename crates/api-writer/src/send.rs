//! Sends requests: the encoding, the rate limiter, the fence and the time limits.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use kube_endpoint_api_client::{ContentType, why_request_failed};
use kube_endpoint_core_model::causes;

use crate::error::WriteError;
use crate::fence::Permit;
use crate::request_span::RequestSpan;
use crate::writer::ApiWriter;

/// Time limit for an answer. Upstream's clients have none, so a hanging request blocks its key.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The most bytes that are read of an answer. etcd stores objects of 1.5 MiB at most; a list of
/// metadata is about 1 KiB for each object.
const LONGEST_ANSWER: usize = 16 << 20;

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// HTTP status.
    pub(crate) code: u16,
    /// The encoding of the body, whatever was asked for.
    pub(crate) content_type: ContentType,
    pub(crate) body: Bytes,
}

/// The media types of a request.
#[derive(Clone, Debug)]
pub(crate) struct Formats {
    content_type: HeaderValue,
    /// The types that the answer may have.
    accept: HeaderValue,
}

impl Formats {
    pub(crate) const fn new(content_type: &'static str, accept: &'static str) -> Self {
        Self {
            content_type: HeaderValue::from_static(content_type),
            accept: HeaderValue::from_static(accept),
        }
    }

    /// JSON in both directions.
    pub(crate) fn json() -> Self {
        Self::new("application/json", "application/json")
    }

    /// A list that is to have the metadata of the objects only.
    pub(crate) fn list_of_metadata() -> Self {
        Self::new("application/json", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    }

    /// An object in an encoding, whose metadata is to be returned.
    pub(crate) fn metadata(content_type: ContentType) -> Self {
        const fn formats(content_type: ContentType) -> Formats {
            Formats::new(content_type.as_str(), content_type.accept_metadata())
        }
        // The compiler checks that they are valid, so no write has to.
        static PROTOBUF: Formats = formats(ContentType::Protobuf);
        static JSON: Formats = formats(ContentType::Json);
        match content_type {
            ContentType::Protobuf => PROTOBUF.clone(),
            ContentType::Json => JSON.clone(),
        }
    }
}

impl ApiWriter {
    /// Creates or changes an event.
    pub(crate) async fn send_event(
        &self,
        method: Method,
        path: &str,
        formats: Formats,
        body: impl Into<Bytes>,
    ) -> Result<(), WriteError> {
        let (_permit, waited) = self.begin(&method, "events").await?;
        self.send_write(method, path, formats, body.into(), waited).await.map(drop)
    }

    /// Returns true if a request was refused because of the encoding in which it was sent or that
    /// it asked for. It has had no effect, and should be sent again in the encoding that the
    /// resource has now.
    pub(crate) fn is_refused_encoding<T>(
        &self,
        resource: &str,
        sent: ContentType,
        answer: &Result<T, WriteError>,
    ) -> bool {
        match answer {
            Err(WriteError::Refused { code, .. }) => self.client.refused_content_type(resource, sent, *code),
            _ => false,
        }
    }

    /// Waits for the rate limiter and the fence. Returns the permit of a write, and how long it
    /// waited.
    pub(crate) async fn begin(
        &self,
        method: &Method,
        resource: &str,
    ) -> Result<(Permit, Duration), WriteError> {
        if self.dry_run.is_some() {
            let message = format!("{method} {resource}: a dry run writes nothing");
            return Err(WriteError::Refused { code: 0, message });
        }
        let begun = self.fence.begin(self.limiter.acquire()).await?;
        self.client.waited_for_rate_limiter(method, begun.1);
        Ok(begun)
    }

    /// Sends a request that writes, and abandons it at the time limit of the fence.
    pub(crate) async fn send_write(
        &self,
        method: Method,
        path: &str,
        formats: Formats,
        body: Bytes,
        waited: Duration,
    ) -> Result<Answer, WriteError> {
        let request = self.send(method.clone(), path, formats, body, waited);
        let answer = self.fence.within_limit(request).await;
        answer.unwrap_or_else(|| {
            let late = format!("{method} {path}: no answer before the lease had to be renewed");
            Err(WriteError::Unknown(late))
        })
    }

    /// Sends one request and reads the whole answer. `waited` is how long the request has waited
    /// for the rate limiter.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        formats: Formats,
        body: Bytes,
        waited: Duration,
    ) -> Result<Answer, WriteError> {
        let Formats { content_type, accept } = formats;
        let span = RequestSpan::begin(&method, path, waited);
        let refused = |why: &str| WriteError::Refused { code: 0, message: format!("{path}: {why}") };
        let user_agent = self.user_agent_header.clone().ok_or_else(|| refused("invalid user agent"))?;
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::try_from(path).map_err(|error| refused(&error.to_string()))?;
        // With those that the client adds.
        let mut headers = HeaderMap::with_capacity(6);
        headers.insert(header::CONTENT_TYPE, content_type);
        headers.insert(header::ACCEPT, accept);
        headers.insert(header::USER_AGENT, user_agent);
        span.inject(&mut headers);
        *request.headers_mut() = headers;
        let answered = async {
            let answer = self.client.send(request).await.map_err(|error| why_request_failed(&error))?;
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    format!("the answer has more than {LONGEST_ANSWER} bytes, which is the most that is read")
                } else {
                    causes(&*error)
                }
            })?;
            Ok::<_, String>((parts, body.to_bytes()))
        };
        let result = match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
            Err(_) => {
                Err(WriteError::Unknown(format!("{method} {path}: no answer within {ANSWER_TIMEOUT:?}")))
            }
            Ok(Err(error)) => Err(WriteError::Unknown(format!("{method} {path}: {error}"))),
            Ok(Ok((parts, body))) if parts.status.is_success() => {
                let content_type = ContentType::of_answer(&parts.headers);
                Ok(Answer { code: parts.status.as_u16(), content_type, body })
            }
            Ok(Ok((parts, body))) => {
                Err(WriteError::from_answer(parts.status, retry_after(&parts.headers), &body))
            }
        };
        let code = result.as_ref().map_or_else(WriteError::code, |answer| Some(answer.code));
        span.end(code, result.as_ref().err());
        result
    }
}

/// Returns the delay that an answer asks for. A zero, a date and an unreadable value become `None`:
/// the key then waits for its own backoff.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_counts_as_whole_seconds_above_zero_only() {
        let check = |value: &str, want: Option<u64>| {
            let headers =
                HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_str(value).unwrap())]);
            assert_eq!(retry_after(&headers), want.map(Duration::from_secs), "{value}");
        };
        check("7", Some(7));
        check(" 86400 ", Some(86_400));
        for none in ["0", "", "-1", "1.5", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "99999999999999999999999"]
        {
            check(none, None);
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}

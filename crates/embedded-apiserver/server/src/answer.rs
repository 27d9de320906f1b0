//! Makes HTTP responses: objects, Status errors, text, warnings.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use kube_endpoint_apiserver_printers::represent::Encoding;
use kube_endpoint_apiserver_rules::status::Status;
use serde_json::Value;

use crate::body::{self, Body};
use crate::protobuf;

/// The maximum number of characters of all warnings of a response, as upstream's
/// `truncateAtTotalRunes`.
const MOST_WARNED: usize = 4096;

/// The maximum number of characters of a warning if all of them together are too long, as
/// upstream's `truncateItemRunes`.
const LONGEST_WARNING: usize = 256;

/// The response of a handler.
pub(crate) type Answer = Response<Body>;

fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a response of encoded JSON.
pub(crate) fn json_bytes(status: StatusCode, bytes: impl Into<Bytes>) -> Answer {
    with_type(status, "application/json", body::once(bytes))
}

/// Returns a JSON response.
pub(crate) fn json(status: StatusCode, value: &Value) -> Answer {
    json_bytes(status, value.to_string())
}

/// Returns an answer of an encoded object.
pub(crate) fn encoded(encoding: Encoding, status: StatusCode, bytes: impl Into<Bytes>) -> Answer {
    with_type(status, encoding.media_type(), body::once(bytes))
}

/// Encodes an object that has `apiVersion` and `kind`.
pub(crate) fn object(encoding: Encoding, status: StatusCode, object: &Value) -> Answer {
    match encoding {
        Encoding::Json => json(status, object),
        Encoding::Protobuf => match protobuf::encode(object) {
            Ok(bytes) => encoded(encoding, status, bytes),
            Err(failed) => error(Encoding::Json, &failed),
        },
    }
}

/// Returns an answer that the server makes while the client reads it.
pub(crate) fn stream(media_type: &'static str, body: Body) -> Answer {
    with_type(StatusCode::OK, media_type, body)
}

/// Returns a plain text response.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    with_type(status, "text/plain; charset=utf-8", body::once(text))
}

/// Returns an error response.
pub(crate) fn error(encoding: Encoding, status: &Status) -> Answer {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = object(encoding, code, &status.to_json());
    if let Some(seconds) = status.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Adds `Warning: 299 - "text"` headers, each text once. It drops characters that a header must not
/// contain. If the texts are too long together, it cuts them and then leaves some out, as upstream,
/// since clients limit the size of a response's head.
pub(crate) fn warn(mut response: Answer, warnings: impl IntoIterator<Item = String>) -> Answer {
    let mut known = BTreeSet::new();
    let warnings: Vec<String> = warnings.into_iter().filter(|text| known.insert(text.clone())).collect();
    let all: usize = warnings.iter().map(|text| text.chars().count()).sum();
    let longest = if all > MOST_WARNED { LONGEST_WARNING } else { MOST_WARNED };
    let mut written = 0;
    for warning in warnings {
        if written >= MOST_WARNED {
            break;
        }
        written += warning.chars().count().min(longest);
        let quoted: String = warning
            .chars()
            .take(longest)
            .filter(|c| !c.is_control())
            .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted() {
        let response = warn(text(StatusCode::OK, ""), ["say \"a\\b\"\n".to_owned(), "two".to_owned()]);
        let headers: Vec<_> =
            response.headers().get_all(WARNING).iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(headers, [r#"299 - "say \"a\\b\"""#, "299 - \"two\""]);
    }

    #[test]
    fn warnings_are_given_once_and_cut_if_they_are_too_long_together() {
        let lengths = |warnings: Vec<String>| -> Vec<usize> {
            let response = warn(text(StatusCode::OK, ""), warnings);
            let frame = "299 - \"\"".len();
            response.headers().get_all(WARNING).iter().map(|value| value.len() - frame).collect()
        };
        let long = |letter: char| letter.to_string().repeat(2048);
        assert_eq!(lengths(vec![long('a'), long('a'), long('b')]), [2048, 2048]);
        assert_eq!(lengths(vec![long('a'), "x".to_owned(), long('b')]), [256, 1, 256]);
        let many = (0..100).map(|number| format!("{number}{}", long('a'))).collect();
        assert_eq!(lengths(many), [256; 16]);
    }
}

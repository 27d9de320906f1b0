//! Continue tokens: the start of the next page of a list and the resource version of the list.

use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Value, json};

/// A continue token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The resource version of the list; `None` for the latest state, which makes the list
    /// inconsistent.
    pub(crate) version: Option<u64>,
    /// The first key of the next page, without the prefix that follows from the request's path.
    pub(crate) start: String,
}

impl Token {
    /// Returns the encoded token: opaque and safe in a URL.
    pub(crate) fn encode(&self) -> String {
        let version = self.version.map_or(json!(-1), Value::from);
        let text = json!({"v": "meta.k8s.io/v1", "rv": version, "start": self.start}).to_string();
        let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
        text.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    /// Decodes a token that a client sent.
    pub(crate) fn decode(text: &str) -> Result<Self, Status> {
        Self::read(text).ok_or_else(|| {
            Status::bad_request("continue key is not valid: the token was not made by this server")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
        let bytes: Vec<u8> =
            digits.chunks(2).map(|pair| pair.iter().fold(0, |sum, d| sum * 16 + d)).collect();
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        let version = value["rv"].as_i64()?;
        Some(Self { version: version.try_into().ok(), start: value["start"].as_str()?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_can_be_decoded() {
        for version in [None, Some(0), Some(123)] {
            let token = Token { version, start: "ns/pod-\u{e9}\0".to_owned() };
            assert_eq!(Token::decode(&token.encode()), Ok(token));
        }
    }

    #[test]
    fn foreign_tokens_are_rejected() {
        for text in ["", "zz", "7b", "7b7d", "é"] {
            assert_eq!(Token::decode(text).unwrap_err().code, 400, "{text}");
        }
    }
}

//! Parses bodies in YAML.

use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy::Parsed;
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

/// The media type of YAML.
pub(crate) const CONTENT_TYPE: &str = "application/yaml";

/// Parses a request's body of one document. As upstream, it reports the first key that occurs
/// twice, and the last value of each key counts.
pub(crate) fn parse(body: &[u8], kind: &str) -> Result<Parsed, Status> {
    let refused = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): yaml: {why}"
        ))
    };
    match document(body, DuplicateKeyPolicy::Error) {
        Ok(value) => Ok(Parsed { value, strict: Vec::new() }),
        Err(error) => {
            if let serde_saphyr::Error::DuplicateMappingKey { key, location } = error.without_snippet()
                && let Ok(value) = document(body, DuplicateKeyPolicy::LastWins)
            {
                let key = key.as_deref().unwrap_or_default();
                let twice = format!("line {}: key {key:?} already set in map", location.line());
                return Ok(Parsed { value, strict: vec![twice] });
            }
            // An excerpt of the text follows.
            let why = error.to_string();
            Err(refused(why.lines().next().unwrap_or_default().to_owned()))
        }
    }
}

fn document(body: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! { duplicate_keys: duplicate_keys };
    serde_saphyr::from_slice_with_options(body, options)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_value_of_a_key_counts() {
        let parsed = parse(b"metadata: {name: a}\nsubsets: [1]\nsubsets: []\n", "Endpoints").unwrap();
        assert_eq!(parsed.value, json!({"metadata": {"name": "a"}, "subsets": []}));
        // The real server's words.
        assert_eq!(parsed.strict, [r#"line 3: key "subsets" already set in map"#]);
    }

    #[test]
    fn malformed_text_is_refused() {
        let message = parse(b"metadata: {name: [}", "Endpoints").unwrap_err().message;
        let expected = "the object provided is unrecognized (must be of type Endpoints): yaml: error: line 1 column 18: \
                        mismatched bracket '[' closed by '}'";
        assert_eq!(message, expected);
    }
}

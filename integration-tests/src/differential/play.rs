//! Sends the requests of a case.

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_controllers::ApiClient;
use serde_json::{Value, json};

use super::{Answer, Case, Exchange, Normal};

/// The reason why playing a case failed.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// Making a request failed, or it got no answer.
    #[error("{case}, request {number} ({request}): {why}")]
    Request {
        case: String,
        /// The number of the request, from 1.
        number: usize,
        /// Its method and path.
        request: String,
        why: String,
    },
}

/// Plays a case in a namespace of its own, which it creates before and deletes afterwards. Returns
/// the answers in normal form.
///
/// # Errors
/// A [`PlayError`] if a request gets no answer.
pub async fn play(client: &ApiClient, case: &Case) -> Result<Vec<Answer>, PlayError> {
    let namespace = format!("differential-{}", case.name.replace('_', "-"));
    let failed = |number: usize, request: &str| {
        let (case, request) = (case.name.clone(), request.to_owned());
        move |why| PlayError::Request { case, number, request, why }
    };
    let bare = |request: &str, body: Option<Value>| Exchange {
        request: request.to_owned(),
        content_type: None,
        accept: None,
        body,
        differs: None,
        answer: None,
    };
    let create = bare("POST /api/v1/namespaces", Some(json!({"metadata": {"name": namespace}})));
    let created = send(client, &create, &namespace, &[]).await.map_err(failed(0, &create.request))?;
    if created.0 != 201 {
        return Err(failed(0, &create.request)(format!("the answer is {}", created.2)));
    }
    let (mut normal, mut answers, mut bodies) = (Normal::default(), Vec::new(), Vec::new());
    for (index, exchange) in case.exchanges.iter().enumerate() {
        let sent = send(client, exchange, &namespace, &bodies).await;
        let (status, warnings, body) = sent.map_err(failed(index + 1, &exchange.request))?;
        answers.push(Answer { status, warnings, body: normal.body(body.clone()) });
        bodies.push(body);
    }
    let delete = bare(&format!("DELETE /api/v1/namespaces/{namespace}"), None);
    send(client, &delete, &namespace, &[]).await.map_err(failed(0, &delete.request))?;
    Ok(answers)
}

/// Sends one request. Returns the status, the warnings and the body of the answer.
async fn send(
    client: &ApiClient,
    exchange: &Exchange,
    namespace: &str,
    answers: &[Value],
) -> Result<(u16, Vec<String>, Value), String> {
    let (method, path) = exchange.request.split_once(' ').ok_or("write METHOD PATH")?;
    let mut request = Request::builder().method(method).uri(filled(path, namespace, answers)?);
    if exchange.body.is_some() || exchange.content_type.is_some() {
        let content_type = exchange.content_type.as_deref().unwrap_or("application/json");
        request = request.header("content-type", content_type);
    }
    if let Some(accept) = &exchange.accept {
        request = request.header("accept", accept);
    }
    let body = match &exchange.body {
        None => String::new(),
        Some(Value::String(text)) => filled(text, namespace, answers)?,
        Some(json) => filled(&json.to_string(), namespace, answers)?,
    };
    let request = request.body(Body::from(body.into_bytes())).map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    let warnings = head.headers.get_all("warning").iter();
    let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
    // A server in this process answers HEAD with the body that a connection would drop.
    let text = if method == "HEAD" { String::new() } else { String::from_utf8_lossy(&body).into_owned() };
    Ok((head.status.as_u16(), warnings, serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

/// Replaces `{ns}` and `{N/pointer}` in a text.
fn filled(text: &str, namespace: &str, answers: &[Value]) -> Result<String, String> {
    let mut out = text.replace("{ns}", namespace);
    for (index, answer) in answers.iter().enumerate() {
        let start = format!("{{{}/", index + 1);
        while let Some(at) = out.find(&start) {
            let end = at + out[at..].find('}').ok_or_else(|| format!("no end of {start}"))?;
            let pointer = out[at + start.len() - 1..end].to_owned();
            let found = answer.pointer(&pointer).and_then(Value::as_str);
            let found = found.ok_or_else(|| format!("answer {} has no text at {pointer}", index + 1))?;
            out.replace_range(at..=end, found);
        }
    }
    Ok(out)
}

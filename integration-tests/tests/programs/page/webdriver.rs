//! A client of chromedriver: the commands of <https://www.w3.org/TR/webdriver2/> that these tests
//! use, and chromedriver's own for the console and for Chrome's DevTools protocol.
//!
//! The libraries for that do not fit: thirtyfour 0.38 enables `preserve_order` of serde_json, and
//! with it changes the order of all JSON in the tested binary; fantoccini 0.22 needs a crate under
//! the MPL.

use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Keys without a character, as WebDriver encodes them.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Key {
    Tab = 0xE004,
    Enter = 0xE007,
    Escape = 0xE00C,
    Home = 0xE011,
    Down = 0xE015,
}

/// A session: a browser with one window.
pub(crate) struct WebDriver {
    port: u16,
    session: String,
}

impl WebDriver {
    /// Starts a browser with these capabilities. chromedriver listens on `port` of loopback.
    pub(crate) async fn start(port: u16, capabilities: Value) -> Self {
        let wanted = json!({"capabilities": {"alwaysMatch": capabilities}});
        let answer = request(port, Method::POST, "/session", Some(wanted)).await;
        let answer = answer.unwrap_or_else(|error| panic!("no session: {error}"));
        Self { port, session: answer["sessionId"].as_str().unwrap().to_owned() }
    }

    /// Ends the browser.
    pub(crate) async fn quit(&self) {
        self.send(Method::DELETE, "", None).await;
    }

    /// Loads an address and waits for the end of loading.
    pub(crate) async fn open(&self, address: &str) {
        self.send(Method::POST, "/url", Some(json!({"url": address}))).await;
    }

    /// Goes back in the history.
    pub(crate) async fn back(&self) {
        self.send(Method::POST, "/back", Some(json!({}))).await;
    }

    /// Returns the value of a JavaScript expression.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        let script = json!({"script": format!("return ({expression});"), "args": []});
        self.send(Method::POST, "/execute/sync", Some(script)).await
    }

    /// Presses and releases each key in whatever has the focus.
    pub(crate) async fn type_characters(&self, characters: impl Iterator<Item = char>) {
        let strokes = characters.flat_map(|character| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": character.to_string()}))
        });
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes.collect::<Vec<_>>()});
        self.send(Method::POST, "/actions", Some(json!({"actions": [keyboard]}))).await;
    }

    /// Sends a command of the DevTools protocol.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.send(Method::POST, "/goog/cdp/execute", Some(body)).await;
    }

    /// Returns the entries of the console since the last call.
    pub(crate) async fn console(&self) -> Vec<Value> {
        let entries = self.send(Method::POST, "/se/log", Some(json!({"type": "browser"}))).await;
        entries.as_array().unwrap().clone()
    }

    /// Returns a picture of the window, as PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        let picture = self.send(Method::GET, "/screenshot", None).await;
        BASE64_STANDARD.decode(picture.as_str().unwrap()).unwrap()
    }

    async fn send(&self, method: Method, command: &str, body: Option<Value>) -> Value {
        let path = format!("/session/{}{command}", self.session);
        let what = format!("{method} {command} {}", body.as_ref().unwrap_or(&Value::Null));
        request(self.port, method, &path, body).await.unwrap_or_else(|error| panic!("{what}: {error}"))
    }
}

/// Sends one command on a connection of its own. Returns the value of the answer.
async fn request(
    port: u16,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    // The task ends with the answer.
    tokio::spawn(connection);
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, format!("127.0.0.1:{port}"))
        .header(CONNECTION, "close")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))?;
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    let mut answer: Value = serde_json::from_slice(&body)?;
    let value = answer["value"].take();
    if !status.is_success() {
        return Err(format!("{status}: {}", value["message"].as_str().unwrap_or_default()).into());
    }
    Ok(value)
}

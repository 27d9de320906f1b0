//! A server in this process, and the controllers for scenarios on it.

use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use jiff::Timestamp;
use kube::Client;
use kube_endpoint_controllers::{ApiClient, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, User};
use serde_json::Value;
use tower::ServiceExt;

use super::{ConformanceError, Controllers, Pace, Parts, start_controllers_with, upstream_settings};

/// The time on an in-process server's clock when it starts, in Unix seconds: after the timestamps
/// that recordings give to existing pods, and before those that they set later.
const START: i64 = 1_767_225_600;

/// The user of the controllers in the request log of a server in this process. Requests of
/// scenarios have none.
pub const CONTROLLERS_USER: &str = "controllers";

/// The token of [`CONTROLLERS_USER`].
const CONTROLLERS_TOKEN: &str = "token-of-the-controllers";

/// Returns a client whose requests carry the token of [`CONTROLLERS_USER`].
fn controllers_client(server: &EmbeddedApiServer) -> ApiClient {
    let bearer = format!("Bearer {CONTROLLERS_TOKEN}");
    let bearer = HeaderValue::try_from(bearer).ok();
    ApiClient::for_tests(server.service().map_request(move |mut request: Request<kube::client::Body>| {
        request.headers_mut().extend(bearer.clone().map(|bearer| (AUTHORIZATION, bearer)));
        request
    }))
}

/// A server in this process and the controllers that run on it. Dropping it stops them.
pub struct TestBed {
    client: Client,
    server: EmbeddedApiServer,
    controllers: Controllers,
}

impl TestBed {
    /// Starts a server in this process and the controllers that write `parts`. Both use tokio's
    /// clock, so that the test takes no real time under a paused one.
    ///
    /// # Errors
    ///
    /// An error if the server or a controller does not start.
    pub async fn in_process(parts: Parts) -> Result<Self, ConformanceError> {
        Self::in_process_with(&upstream_settings(parts)).await
    }

    /// Starts a server in this process and controllers with `settings`.
    ///
    /// # Errors
    ///
    /// An error if the server or a controller does not start.
    pub async fn in_process_with(settings: &Settings) -> Result<Self, ConformanceError> {
        Self::in_process_on([], settings).await
    }

    /// Starts a server in this process that has `objects`, and then controllers with `settings`.
    ///
    /// # Errors
    ///
    /// An error if the server or a controller does not start.
    pub async fn in_process_on(
        objects: impl IntoIterator<Item = Value>,
        settings: &Settings,
    ) -> Result<Self, ConformanceError> {
        let server = EmbeddedApiServer::builder()
            .start_time(Timestamp::from_second(START).unwrap_or_default())
            .track_managers()
            .load(objects)
            .token(CONTROLLERS_TOKEN, User { name: CONTROLLERS_USER.to_owned(), groups: Vec::new() })
            .build()
            .map_err(|error| ConformanceError::NotStarted {
                what: "the server",
                reason: error.to_string(),
            })?;
        let controllers = start_controllers_with(controllers_client(&server), settings, server.now()).await?;
        let client = Client::new(server.service(), "default");
        Ok(Self { client, server, controllers })
    }

    /// Returns a client for the server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the server.
    pub fn server(&self) -> &EmbeddedApiServer {
        &self.server
    }

    /// Returns true if the controllers are still running.
    pub fn controllers_are_alive(&self) -> bool {
        self.controllers.are_alive()
    }

    /// Returns how often to poll, and how many requests to send at once.
    pub fn pace(&self) -> &Pace {
        &Pace::IN_PROCESS
    }
}

//! The server and the controllers for scenarios.

use std::path::Path;

use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
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

/// A server and the controllers that run on it. Dropping it stops those in this process.
pub struct TestBed {
    client: Client,
    pace: Pace,
    outlives_scenarios: bool,
    embedded: Option<(EmbeddedApiServer, Controllers)>,
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
        let embedded = Some((server, controllers));
        Ok(Self { client, pace: Pace::IN_PROCESS, outlives_scenarios: false, embedded })
    }

    /// Returns the cluster of a kubeconfig's current context, on which the controllers already run.
    ///
    /// # Errors
    ///
    /// [`ConformanceError::Kubeconfig`] if the file allows no client.
    pub async fn of_kubeconfig(path: &Path) -> Result<Self, ConformanceError> {
        let failed = |reason: String| ConformanceError::Kubeconfig { path: path.to_owned(), reason };
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| failed(error.to_string()))?;
        let client = Client::try_from(config).map_err(|error| failed(error.to_string()))?;
        Ok(Self { client, pace: Pace::REAL, outlives_scenarios: true, embedded: None })
    }

    /// Returns a client for the server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the server, if it is in this process.
    pub fn server(&self) -> Option<&EmbeddedApiServer> {
        self.embedded.as_ref().map(|(server, _)| server)
    }

    /// Returns true if the controllers are still running. It assumes that those of a cluster are.
    pub fn controllers_are_alive(&mut self) -> bool {
        self.embedded.as_mut().is_none_or(|(_, controllers)| controllers.are_alive())
    }

    /// Returns how often to poll, and how many requests to send at once.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Returns true if several scenarios use the server, so that each must clean up after itself.
    pub fn outlives_scenarios(&self) -> bool {
        self.outlives_scenarios
    }

    /// Returns the namespace for a scenario. It is unique if the server outlives the scenario,
    /// otherwise constant.
    #[expect(clippy::disallowed_methods, reason = "names on a real server must be unique")]
    pub fn namespace_for(&self, scenario: &str) -> String {
        let name: String = scenario
            .chars()
            .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
            .take(40)
            .collect();
        let name = name.trim_matches('-');
        if self.outlives_scenarios {
            let now = jiff::Timestamp::now().as_millisecond();
            format!("conf-{name}-{:x}", now & 0xf_ffff)
        } else {
            format!("conf-{name}")
        }
    }
}

//! A server with controllers, at which scenarios are played.

use std::path::Path;

use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_manager_core::{ApiClient, Settings};

use super::{ConformanceError, Controllers, Pace, Parts, start_controllers_with, upstream_settings};

/// What a server in this process believes the time to be when it starts: after the times that recordings give to
/// pods at first, before those that they give later.
const START: i64 = 1_767_225_600;

/// A server and the controllers that work at it. They live as long as this value.
pub struct World {
    client: Client,
    pace: Pace,
    outlives_scenarios: bool,
    embedded: Option<(EmbeddedApiServer, Controllers)>,
}

impl World {
    /// A new server in this process, and this project's controllers that write `parts`.
    ///
    /// It takes its time from tokio's clock, so that a paused clock compresses it.
    ///
    /// # Errors
    ///
    /// When the server or a controller does not start.
    pub async fn in_process(parts: Parts) -> Result<Self, ConformanceError> {
        Self::in_process_with(&upstream_settings(parts)).await
    }

    /// A new server in this process, and the controllers that settings name.
    ///
    /// # Errors
    ///
    /// When the server or a controller does not start.
    pub async fn in_process_with(settings: &Settings) -> Result<Self, ConformanceError> {
        let server = EmbeddedApiServer::builder()
            .start_time(Timestamp::from_second(START).unwrap_or_default())
            .build()
            .map_err(|error| ConformanceError::NotStarted {
                what: "the server",
                reason: error.to_string(),
            })?;
        let client = ApiClient::for_tests(server.service());
        let controllers = start_controllers_with(client.clone(), settings, server.now()).await?;
        let embedded = Some((server, controllers));
        Ok(Self {
            client: client.kube().clone(),
            pace: Pace::IN_PROCESS,
            outlives_scenarios: false,
            embedded,
        })
    }

    /// The cluster that a kubeconfig's current context names, at which controllers run already.
    ///
    /// # Errors
    ///
    /// [`ConformanceError::Kubeconfig`] when the file gives no client.
    pub async fn of_kubeconfig(path: &Path) -> Result<Self, ConformanceError> {
        let failed = |reason: String| ConformanceError::Kubeconfig { path: path.to_owned(), reason };
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| failed(error.to_string()))?;
        let client = Client::try_from(config).map_err(|error| failed(error.to_string()))?;
        Ok(Self { client, pace: Pace::REAL, outlives_scenarios: true, embedded: None })
    }

    /// A client of the server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The server, if it is in this process.
    pub fn server(&self) -> Option<&EmbeddedApiServer> {
        self.embedded.as_ref().map(|(server, _)| server)
    }

    /// Whether none of the controllers has ended; those of a cluster are taken to be there.
    pub fn controllers_are_alive(&mut self) -> bool {
        self.embedded.as_mut().is_none_or(|(_, controllers)| controllers.are_alive())
    }

    /// How often to look, and how much to ask at once.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Whether a scenario must clean up after itself, because others come after it.
    pub fn outlives_scenarios(&self) -> bool {
        self.outlives_scenarios
    }

    /// A namespace for a scenario: unique where others were before, else always the same.
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

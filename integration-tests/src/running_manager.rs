//! Runs a manager on an embedded API server in this process.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::time::Duration;

use http::header::USER_AGENT;
use kube_endpoint_controllers::{ApiClient, Gates, Manager, ManagerHandle, ManagerStatus, Settings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

/// The seed of the managers.
const SEED: u64 = 1;

/// A running manager.
pub struct RunningManager {
    handle: ManagerHandle,
    manager: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

/// Returns settings with `gates` and without a client-side rate limit.
pub fn settings(gates: Gates) -> Settings {
    let mut settings = Settings::default();
    settings.gates = gates;
    settings.qps = -1.0;
    settings
}

impl RunningManager {
    /// Starts a manager on `server`.
    ///
    /// # Panics
    ///
    /// If the settings are invalid.
    pub fn start(server: &EmbeddedApiServer, settings: &Settings) -> Self {
        Self::with_client(ApiClient::for_tests(server.service()), server, settings, SEED)
    }

    /// As [`Self::start`]. The user agent of all requests, in the server's log too, begins with
    /// `name` and a slash.
    ///
    /// # Panics
    ///
    /// If the settings are invalid.
    pub fn start_as(server: &EmbeddedApiServer, name: &str, settings: &Settings) -> Self {
        let name = name.to_owned();
        let seed = SEED + name.bytes().map(u64::from).sum::<u64>();
        let service = server.service().map_request(move |mut request: http::Request<kube::client::Body>| {
            let agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
            let agent = format!("{name}/{}", agent.unwrap_or_default());
            request.headers_mut().insert(USER_AGENT, agent.parse().unwrap());
            request
        });
        Self::with_client(ApiClient::for_tests(service), server, settings, seed)
    }

    /// Starts a manager with a client of `server`.
    ///
    /// # Panics
    ///
    /// If the settings are invalid.
    pub fn with_client(
        client: ApiClient,
        server: &EmbeddedApiServer,
        settings: &Settings,
        seed: u64,
    ) -> Self {
        let manager = Manager::new(client, settings, server.now(), seed).unwrap();
        let handle = manager.handle();
        let (stop, stopped) = oneshot::channel();
        let manager = tokio::spawn(async move {
            let shutdown = async move {
                let _ = stopped.await;
            };
            manager.run(shutdown).await.unwrap();
        });
        Self { handle, manager, stop }
    }

    /// Returns its status: the data of `/statusz`.
    pub fn status(&self) -> ManagerStatus {
        self.handle.status()
    }

    /// Shuts the manager down.
    ///
    /// # Panics
    ///
    /// If the manager has already ended, or fails.
    pub async fn stop(self) {
        assert!(!self.manager.is_finished());
        self.stop.send(()).unwrap();
        self.manager.await.unwrap();
    }
}

/// Runs a manager on `server` for `time` and returns the write requests that the server received in
/// that time, events included: method, path and status of each.
///
/// # Panics
///
/// If the manager fails.
pub async fn writes_within(server: &EmbeddedApiServer, settings: &Settings, time: Duration) -> Vec<String> {
    server.clear_request_log();
    let running = RunningManager::start(server, settings);
    tokio::time::sleep(time).await;
    running.stop().await;
    writes(server)
}

/// Returns the write requests in the server's log, events included: method, path and status of
/// each.
pub fn writes(server: &EmbeddedApiServer) -> Vec<String> {
    let log = server.request_log();
    let writes = log.iter().filter(|it| !matches!(it.request.method.as_str(), "GET" | "HEAD"));
    writes.map(|it| format!("{} {} {}", it.request.method, it.request.path, it.status)).collect()
}

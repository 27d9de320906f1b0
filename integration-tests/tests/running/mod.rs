//! A manager that runs for a while at a server in this process.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_manager_core::{ApiClient, Gates, Manager, Settings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running manager.
pub(crate) struct Running {
    manager: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

/// Settings with these gates and without a limit on requests.
pub(crate) fn settings(gates: Gates) -> Settings {
    Settings { gates, qps: -1.0, seed: 1, ..Settings::default() }
}

/// Starts a manager.
pub(crate) fn start(server: &EmbeddedApiServer, settings: &Settings) -> Running {
    let manager = Manager::new(ApiClient::for_tests(server.service()), settings, server.now()).unwrap();
    let (stop, stopped) = oneshot::channel();
    let manager = tokio::spawn(async move {
        let shutdown = async move {
            let _ = stopped.await;
        };
        manager.run(shutdown).await.unwrap();
    });
    Running { manager, stop }
}

impl Running {
    /// Ends it in an orderly way; it must not have ended before.
    pub(crate) async fn stop(self) {
        assert!(!self.manager.is_finished());
        self.stop.send(()).unwrap();
        self.manager.await.unwrap();
    }
}

/// All that was to be changed while a manager ran for so long, events included: method, path, status.
pub(crate) async fn writes_within(
    server: &EmbeddedApiServer,
    settings: &Settings,
    time: Duration,
) -> Vec<String> {
    server.clear_request_log();
    let running = start(server, settings);
    tokio::time::sleep(time).await;
    running.stop().await;
    writes(server)
}

/// All that was to be changed since the log was emptied, events included.
pub(crate) fn writes(server: &EmbeddedApiServer) -> Vec<String> {
    let log = server.request_log();
    let writes = log.iter().filter(|it| !matches!(it.request.method.as_str(), "GET" | "HEAD"));
    writes.map(|it| format!("{} {} {}", it.request.method, it.request.path, it.status)).collect()
}

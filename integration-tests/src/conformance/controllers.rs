//! Runs this project's controllers in this process.

use jiff::Timestamp;
use kube_endpoint_controllers::{ApiClient, ControllerName, Gates, Manager, Settings};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{ConformanceError, Part, Parts};

/// Running controllers. They stop when this is dropped.
pub struct Controllers {
    manager: Option<JoinHandle<()>>,
    /// Dropping it shuts the manager down.
    running: oneshot::Sender<()>,
}

impl Controllers {
    /// Returns true if the manager is still running.
    pub fn are_alive(&self) -> bool {
        self.manager.as_ref().is_none_or(|manager| !manager.is_finished())
    }

    /// Stops them, and waits until they have made their last write.
    pub async fn stop(self) {
        drop(self.running);
        if let Some(manager) = self.manager {
            // The task of a manager that panicked has ended, too.
            let _ = manager.await;
        }
    }
}

/// The seed of the controllers' slice names and jitter.
const SEED: u64 = 1;

/// Returns the settings for playing recordings: the controllers that write `parts`,
/// kube-controller-manager's behaviour, and no client-side rate limit, so that delays are the
/// controllers' own.
pub fn upstream_settings(parts: Parts) -> Settings {
    let writes = |name: &ControllerName| {
        let part = match name {
            ControllerName::Endpoints => Part::Endpoints,
            ControllerName::EndpointSlice => Part::Slices,
            ControllerName::EndpointSliceMirroring => Part::Mirroring,
            ControllerName::EndpointSelector => return false,
        };
        parts.and(part) == parts
    };
    let mut settings = Settings::default();
    settings.controllers = ControllerName::ALL.into_iter().filter(writes).collect();
    settings.gates = Gates::upstream();
    settings.qps = -1.0;
    settings
}

/// Starts the controllers that write `parts` with [`upstream_settings`]. `now` is the time on the
/// server's clock.
///
/// # Errors
///
/// An error if a controller does not start.
pub async fn start_controllers(
    client: ApiClient,
    parts: Parts,
    now: Timestamp,
) -> Result<Controllers, ConformanceError> {
    start_controllers_with(client, &upstream_settings(parts), now).await
}

/// Starts the controllers of `settings` and waits until their caches have synced.
///
/// # Errors
///
/// An error if a controller does not start.
pub async fn start_controllers_with(
    client: ApiClient,
    settings: &Settings,
    now: Timestamp,
) -> Result<Controllers, ConformanceError> {
    let (running, stopped) = oneshot::channel::<()>();
    if settings.controllers.is_empty() {
        return Ok(Controllers { manager: None, running });
    }
    let failed = |reason: String| ConformanceError::NotStarted { what: "the controllers", reason };
    let manager = Manager::new(client, settings, now, SEED).map_err(|error| failed(error.to_string()))?;
    let cluster = manager.cluster().clone();
    let manager = tokio::spawn(async move {
        let shutdown = async move {
            let _ = stopped.await;
        };
        if let Err(error) = manager.run(shutdown).await {
            tracing::error!(%error, "the manager ended");
        }
    });
    cluster.synced().await;
    Ok(Controllers { manager: Some(manager), running })
}

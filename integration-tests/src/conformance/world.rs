//! A server with controllers, at which scenarios are played.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::{ConformanceError, Pace};

/// A server and the controllers that work at it. They live as long as this value.
pub struct World {
    client: Client,
    pace: Pace,
    outlives_scenarios: bool,
}

impl World {
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
        Ok(Self { client, pace: Pace::REAL, outlives_scenarios: true })
    }

    /// A client of the server.
    pub fn client(&self) -> Client {
        self.client.clone()
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

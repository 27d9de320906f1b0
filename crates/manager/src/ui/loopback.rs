//! Serves the page on loopback, for `--embedded`: there are no users whom an API server could tell
//! apart.

use std::sync::Arc;

use kube_endpoint_core_model::Timestamp;
use kube_endpoint_serving::{BrowserServer, Limits, ServingError};

use crate::manager::Manager;
use crate::open_files::connections_that_fit;
use crate::options::UiAddress;
use crate::settings::Settings;

impl Manager {
    /// Opens the port of the page, and serves it as long as [`Manager::run`] runs. `clock` reads
    /// the current time. Returns the URL to open in a browser, or `None` if the page is off.
    ///
    /// # Errors
    ///
    /// If the port is not available.
    pub async fn serve_on_loopback(
        &mut self,
        address: UiAddress,
        settings: &Settings,
        version: &str,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Option<String>, ServingError> {
        let UiAddress::At(address) = address else { return Ok(None) };
        let client = self.client().clone();
        let ui = self.ui(&client, settings, version, Arc::new(clock));
        let limits = Limits::default();
        let limits = Limits { connections: connections_that_fit(limits.connections, settings), ..limits };
        let server = BrowserServer::bind(address, ui.pages(), limits).await?;
        let url = server.url();
        self.add_task("status page", server.run());
        Ok(Some(url))
    }
}

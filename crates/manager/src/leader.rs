//! The client of leader election.

use std::path::Path;

use kube_endpoint_api_client::{ApiClient, client_with_silence_limit};

use crate::connect::{ConnectError, config};
use crate::settings::LeaderElectionSettings;

/// Makes a client for the Lease, from the same configuration as [`connect`](crate::connect).
///
/// It has a connection of its own, so that no renewal waits behind lists and watches of the controllers. When the server
/// at the other end is gone, the connection is closed within half of the renew deadline, which leaves time to renew the
/// Lease on another one.
///
/// # Errors
///
/// As [`connect`](crate::connect).
pub async fn connect_for_lease(
    kubeconfig: Option<&Path>,
    master: Option<&str>,
    settings: &LeaderElectionSettings,
) -> Result<ApiClient, ConnectError> {
    let config = config(kubeconfig, master).await?;
    Ok(client_with_silence_limit(config, settings.renew_deadline / 2).await?)
}

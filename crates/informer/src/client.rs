//! The client that the informer layer and the API writers need.

use kube::client::ClientBuilder;
use kube::{Client, Config};

use crate::client_metrics::CountRequests;

/// Makes a client that hands every answer on. kube's own would send a request again by itself after 429, 503 and 504, by
/// a schedule that does not look at `Retry-After`; here, whoever sent the request decides. Its requests are counted and
/// timed ([`CountRequests`]).
///
/// # Errors
/// If the configuration names certificates or credentials that cannot be read.
pub fn client_from_config(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    Ok(ClientBuilder::try_from(config)?.with_layer(&CountRequests::new(host)).build())
}

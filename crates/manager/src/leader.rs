//! The client of leader election, the default identity of a candidate, and the file in which it
//! leaves its identity.

use std::path::Path;

use kube_endpoint_api_client::{ApiClient, client_with_silence_limit};
use kube_endpoint_leader_election::{IdentityFile, NoFormer};

use crate::connect::{ConnectError, config};
use crate::settings::LeaderElectionSettings;

/// Makes a client for the Lease, from the same configuration as [`connect`](crate::connect).
///
/// It has a connection of its own, so that no renewal waits behind lists and watches of the
/// controllers. If the server at the other end is gone, the client closes the connection within
/// half of the renew deadline. That leaves time to renew the Lease on another connection.
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

impl LeaderElectionSettings {
    /// Sets the identity, if there is none, to client-go's default: the host name, `_` and a random
    /// UUID.
    ///
    /// `random` must differ between all processes that campaign for one Lease, also between those
    /// that share a host and a seed: two candidates with one identity would both believe that they
    /// hold the Lease. Take it from the operating system.
    pub fn set_default_identity(&mut self, random: u128) {
        self.identity.get_or_insert_with(|| default_identity(&host_name(), random));
    }

    /// Leaves the identity of this process in a file, and takes the former process of the same file
    /// from there, if it has ended without a release. Set the identity first, and keep the file
    /// until the process has ended.
    ///
    /// Returns `None` if the file cannot be used. The election then goes on without it.
    pub fn open_identity_file(&mut self, path: &Path) -> Option<IdentityFile> {
        let identity = self.identity.as_deref()?;
        let (file, former) = match IdentityFile::open(path, identity) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(%error, "the identity file cannot be used: after a crash, the lease has to expire");
                return None;
            }
        };
        match former {
            Ok(former) => {
                tracing::info!(
                    former,
                    "the former process was killed; if the lease is still its, it is taken back"
                );
                self.former = Some(former);
            }
            Err(why @ NoFormer::CrashedAgain { .. }) => tracing::warn!(%why, "no lease is taken back"),
            Err(why) => tracing::info!(%why, "no lease is taken back"),
        }
        Some(file)
    }
}

/// Returns client-go's default identity on a host.
fn default_identity(host: &str, random: u128) -> String {
    // The bits of a UUID that mean "version 4, variant of RFC 9562".
    const FIXED: u128 = 0xf000_c000_0000_0000_0000;
    const VERSION_AND_VARIANT: u128 = 0x4000_8000_0000_0000_0000;
    let uuid = random & !FIXED | VERSION_AND_VARIANT;
    let digits = format!("{uuid:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    format!("{host}_{}", parts.join("-"))
}

/// Returns the name of this host, or the name of the program if the host has none.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "kube-endpoint-manager".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_identity_is_the_host_name_and_a_uuid() {
        let check = |random: u128, want: &str| assert_eq!(default_identity("node-1", random), want);
        check(0, "node-1_00000000-0000-4000-8000-000000000000");
        check(u128::MAX, "node-1_ffffffff-ffff-4fff-bfff-ffffffffffff");
        check(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, "node-1_01234567-89ab-4def-8123-456789abcdef");
    }

    #[test]
    fn an_identity_that_was_given_is_kept() {
        let mut settings = LeaderElectionSettings::default();
        settings.set_default_identity(1);
        assert_eq!(settings.identity, Some(default_identity(&host_name(), 1)));
        settings.set_default_identity(2);
        assert_eq!(settings.identity, Some(default_identity(&host_name(), 1)));
    }
}

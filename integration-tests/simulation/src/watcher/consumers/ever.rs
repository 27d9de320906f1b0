//! Keeps the addresses that a Service has ever had.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::pod::{App, Pod};

/// The sources of all addresses that a Service has ever had; a restore of the server takes nothing
/// away. A process may see a selector and a label together that never existed at the same time.
#[derive(Debug, Default)]
pub(super) struct Ever {
    selected: BTreeMap<String, BTreeSet<App>>,
    of_pods: BTreeMap<App, BTreeSet<IpAddr>>,
    /// The addresses that users have written into Endpoints and slices.
    of_users: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Ever {
    pub(super) fn selects(&mut self, service: &str, app: App) {
        self.selected.entry(service.to_owned()).or_default().insert(app);
    }

    pub(super) fn has_pod(&mut self, pod: &Pod) {
        self.of_pods.entry(pod.app.clone()).or_default().extend(&pod.addresses);
    }

    /// Notes addresses that a user has written for a Service.
    pub(super) fn written(&mut self, service: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        self.of_users.entry(service.to_owned()).or_default().extend(addresses);
    }

    pub(super) fn has(&self, service: &str, ip: IpAddr) -> bool {
        let of_pods = |app: &App| self.of_pods.get(app).is_some_and(|addresses| addresses.contains(&ip));
        self.selected.get(service).is_some_and(|apps| apps.iter().any(of_pods))
            || self.of_users.get(service).is_some_and(|addresses| addresses.contains(&ip))
    }
}

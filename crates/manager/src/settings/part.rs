//! The part of the cluster that a manager works on, and the Lease that its replicas share.

use kube_endpoint_core_model::LabelSelector;
use kube_endpoint_informer::{ClusterOptions, WatchedNamespaces};

use super::error::InvalidOption;
use super::leader_election::is_object_name;
use super::{LeaderElectionSettings, Settings};
use crate::options::SelectionOptions;

/// The most characters of the namespaces in the name of a Lease, which may have 253.
const MAX_NAMESPACES: usize = 150;

impl Settings {
    /// Returns the options of the stores.
    pub(crate) fn cluster(&self) -> ClusterOptions {
        ClusterOptions { watched_namespaces: self.watched_namespaces(), pod_log: self.pod_log }
    }

    /// Returns the namespaces that the informers list and watch.
    pub fn watched_namespaces(&self) -> WatchedNamespaces {
        WatchedNamespaces::named(self.namespaces.iter().map(String::as_str))
    }
}

/// Returns the namespaces, sorted and each once.
pub(super) fn namespaces(names: &[String]) -> Result<Vec<String>, InvalidOption> {
    namespace_names("--namespaces", names)
}

/// Returns the names of namespaces in an option, sorted and each once.
pub(super) fn namespace_names(option: &str, names: &[String]) -> Result<Vec<String>, InvalidOption> {
    let names = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    let mut namespaces: Vec<String> = names.map(str::to_owned).collect();
    let valid = |name: &String| is_object_name(name) && !name.contains('.') && name.len() <= 63;
    if let Some(name) = namespaces.iter().find(|name| !valid(name)) {
        let why = "write names of namespaces: lower-case letters, digits and `-`, at most 63 characters long";
        return Err(InvalidOption::new(option, name, why));
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok(namespaces)
}

/// Returns the label selector of Services, or `None` if it selects all.
pub(super) fn service_selector(options: &SelectionOptions) -> Result<Option<LabelSelector>, InvalidOption> {
    let Some(text) = &options.service_selector else { return Ok(None) };
    let parsed = text.parse::<LabelSelector>();
    let selector = parsed.map_err(|why| InvalidOption::new("--service-selector", text, why.to_string()))?;
    Ok((!selector.is_everything()).then_some(selector))
}

/// Returns the name of the Lease. This adds the selector and the namespaces to the default name, so
/// that the replicas of one part of the cluster share a Lease of their own. It keeps any other
/// name.
pub(super) fn lease_name(name: String, selector: Option<&LabelSelector>, namespaces: &[String]) -> String {
    use std::fmt::Write as _;

    if name != LeaderElectionSettings::default().name {
        return name;
    }
    let mut name = name;
    if let Some(selector) = selector {
        let _ = write!(name, ".selector-{:016x}", hash(&selector.to_string()));
    }
    if !namespaces.is_empty() {
        // No namespace has a dot in its name, so two lists never make the same name.
        let list = namespaces.join(".");
        let _ = if list.len() <= MAX_NAMESPACES {
            write!(name, ".namespaces.{list}")
        } else {
            write!(name, ".namespaces-{:016x}", hash(&list))
        };
    }
    name
}

/// Returns a hash (FNV-1a) that is the same in every process.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_cluster_has_a_lease_of_its_own() {
        let check = |name: &str, selector: &str, spaces: &[&str], want: &str| {
            let selector = (!selector.is_empty()).then(|| selector.parse::<LabelSelector>().unwrap());
            let spaces: Vec<String> = spaces.iter().map(|name| (*name).to_owned()).collect();
            let got = lease_name(name.to_owned(), selector.as_ref(), &spaces);
            assert_eq!(got, want);
            assert!(is_object_name(&got), "{got}");
        };
        let default = "kube-endpoint-manager";
        check(default, "", &[], default);
        check("own", "a=b", &["a"], "own");
        check(default, "", &["a", "b-c"], "kube-endpoint-manager.namespaces.a.b-c");
        check(default, "", &["a"], "kube-endpoint-manager.namespaces.a");
        check(default, "a=b", &[], "kube-endpoint-manager.selector-e65093190491a193");
        check(default, "a == b", &["a"], "kube-endpoint-manager.selector-e65093190491a193.namespaces.a");
        let long = "a".repeat(63);
        check(default, "", &[&long, &long, &long], "kube-endpoint-manager.namespaces-1c9bd28d10938166");
    }
}

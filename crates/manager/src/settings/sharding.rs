//! The part of the cluster that a manager works on, and the Lease that its replicas share.

use std::hash::Hasher;

use kube_endpoint_core_model::LabelSelector;
use kube_endpoint_informer::{ClusterOptions, Shard, WatchedNamespaces};

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
        match self.shard {
            Some(shard) => WatchedNamespaces::of_shard(shard),
            None => WatchedNamespaces::named(self.namespaces.iter().map(String::as_str)),
        }
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

/// Returns the shard of the namespaces, or `None` for all of them.
pub(super) fn shard(options: &SelectionOptions) -> Result<Option<Shard>, InvalidOption> {
    let Some(text) = options.shard.as_deref().filter(|text| !text.is_empty()) else { return Ok(None) };
    let shard = text.parse::<Shard>().map_err(|why| InvalidOption::new("--shard", text, why.to_string()))?;
    if options.namespaces.iter().any(|name| !name.trim().is_empty()) {
        let why = "use either --namespaces or --shard";
        return Err(InvalidOption::new("--shard", text, why));
    }
    Ok((shard.count() > 1).then_some(shard))
}

/// Returns the name of the Lease. This adds the shard, the selector and the namespaces to the
/// default name, so that the replicas of one part of the cluster share a Lease of their own. It
/// keeps any other name.
pub(super) fn lease_name(
    name: String,
    shard: Option<&Shard>,
    selector: Option<&LabelSelector>,
    namespaces: &[String],
) -> String {
    use std::fmt::Write as _;

    if name != LeaderElectionSettings::default().name {
        return name;
    }
    let mut name = name;
    if let Some(shard) = shard {
        let _ = write!(name, ".shard-{}-of-{}", shard.index(), shard.count());
    }
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

/// Returns a hash that is the same in every process.
fn hash(text: &str) -> u64 {
    let mut hasher = Fnv1a(0xcbf2_9ce4_8422_2325);
    hasher.write(text.as_bytes());
    hasher.finish()
}

struct Fnv1a(u64);

impl Hasher for Fnv1a {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_cluster_has_a_lease_of_its_own() {
        let check = |name: &str, shard: &str, selector: &str, spaces: &[&str], want: &str| {
            let shard = shard.parse::<Shard>().ok();
            let selector = (!selector.is_empty()).then(|| selector.parse::<LabelSelector>().unwrap());
            let spaces: Vec<String> = spaces.iter().map(|name| (*name).to_owned()).collect();
            let got = lease_name(name.to_owned(), shard.as_ref(), selector.as_ref(), &spaces);
            assert_eq!(got, want);
            assert!(is_object_name(&got), "{got}");
        };
        let default = "kube-endpoint-manager";
        check(default, "", "", &[], default);
        check("own", "1/3", "a=b", &["a"], "own");
        check(default, "", "", &["a", "b-c"], "kube-endpoint-manager.namespaces.a.b-c");
        check(default, "1/3", "", &[], "kube-endpoint-manager.shard-1-of-3");
        check(default, "", "", &["a"], "kube-endpoint-manager.namespaces.a");
        check(default, "", "a=b", &[], "kube-endpoint-manager.selector-e65093190491a193");
        check(default, "", "a == b", &["a"], "kube-endpoint-manager.selector-e65093190491a193.namespaces.a");
        let long = "a".repeat(63);
        check(default, "", "", &[&long, &long, &long], "kube-endpoint-manager.namespaces-1c9bd28d10938166");
    }
}

//! Feature gates. Each turns one deviation from kube-controller-manager's behaviour on or off.

use kube_endpoint_core_model::go_bool;

use crate::settings::InvalidOption;
use crate::upstream_gates::UpstreamGate;

/// A feature gate: one deviation from kube-controller-manager's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Repairs Endpoints of a Service with a selector immediately after an edit by another client.
    EndpointsRepair,
    /// Skips the write of a truncated Endpoints object that has not changed. Upstream rewrites it at every sync.
    EndpointsKeepTruncated,
    /// Skips the write of Endpoints that differ only in a reserved label of the Service. Upstream rewrites them at every
    /// sync.
    EndpointsIgnoreReservedLabels,
    /// Honours the deprecated Service annotation `service.alpha.kubernetes.io/tolerate-unready-endpoints`.
    TolerateUnreadyAnnotation,
    /// Deletes the slices that the endpointslice controller leaves behind when a Service loses its selector.
    OrphanedSliceCleanup,
    /// Syncs Services with endpoints on a node when its zone label appears or changes.
    NodeZoneResync,
    /// Syncs Services that skipped pods on an unknown node when the node appears.
    MissingNodeResync,
    /// Creates a slice first where updates alone would remove a ready pod for a moment.
    SafeWriteOrder,
    /// Still removes endpoints and makes them unready when a slice of the same sync cannot be created.
    WritesAfterFailedCreate,
    /// Merges sparse slices in syncs that write anyway.
    SliceCompaction,
    /// Never drops a Service whose writes fail: it is retried slowly, and synced when writes succeed again after an outage.
    SlowRetries,
    /// Corrects changes by another client after a second at the earliest, and more slowly while they keep coming back.
    ForeignWriteBackoff,
    /// Keeps topology hints when a share of nodes lacks a zone (`--topology-node-tolerance`).
    TopologyNodeTolerance,
}

/// Each gate with its name, default and description.
const TABLE: [(Gate, &str, bool, &str); 13] = [
    (
        Gate::EndpointsRepair,
        "EndpointsRepair",
        true,
        "repair edited Endpoints of Services with a selector immediately",
    ),
    (
        Gate::EndpointsKeepTruncated,
        "EndpointsKeepTruncated",
        true,
        "do not rewrite truncated Endpoints that have not changed",
    ),
    (
        Gate::EndpointsIgnoreReservedLabels,
        "EndpointsIgnoreReservedLabels",
        true,
        "do not rewrite Endpoints because the Service carries a reserved label",
    ),
    (
        Gate::TolerateUnreadyAnnotation,
        "TolerateUnreadyAnnotation",
        false,
        "honour the Service annotation service.alpha.kubernetes.io/tolerate-unready-endpoints",
    ),
    (
        Gate::OrphanedSliceCleanup,
        "OrphanedSliceCleanup",
        true,
        "delete slices made from pods once mirrored slices have replaced them",
    ),
    (
        Gate::NodeZoneResync,
        "NodeZoneResync",
        true,
        "sync Services when the zone of a node with their endpoints changes",
    ),
    (
        Gate::MissingNodeResync,
        "MissingNodeResync",
        true,
        "sync Services that skipped pods on an unknown node when the node appears",
    ),
    (
        Gate::SafeWriteOrder,
        "SafeWriteOrder",
        true,
        "create a slice first where updates alone would remove a ready pod for a moment",
    ),
    (
        Gate::WritesAfterFailedCreate,
        "WritesAfterFailedCreate",
        true,
        "still remove endpoints and make them unready when a slice cannot be created",
    ),
    (Gate::SliceCompaction, "SliceCompaction", false, "merge sparse slices in syncs that write anyway"),
    (
        Gate::SlowRetries,
        "SlowRetries",
        true,
        "retry a Service whose writes fail for as long as they fail, instead of dropping it after 15 retries",
    ),
    (
        Gate::ForeignWriteBackoff,
        "ForeignWriteBackoff",
        true,
        "wait longer before each correction of a change that another client keeps repeating",
    ),
    (
        Gate::TopologyNodeTolerance,
        "TopologyNodeTolerance",
        false,
        "ignore a share of nodes without a zone instead of removing all topology hints",
    ),
];

/// What gates of kube-controller-manager ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpstreamRequests {
    /// The value of `WatchListClient`, if it is set.
    pub(crate) watch_list_client: Option<bool>,
    /// Names of gates that change nothing here.
    pub(crate) ignored: Vec<String>,
}

/// The state of all feature gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates([bool; TABLE.len()]);

impl Default for Gates {
    fn default() -> Self {
        let mut gates = Self::upstream();
        for (gate, _, on, _) in TABLE {
            gates.0[gate as usize] = on;
        }
        gates
    }
}

impl Gates {
    /// All gates off: the behaviour of kube-controller-manager.
    pub fn upstream() -> Self {
        Self([false; TABLE.len()])
    }

    /// Whether a gate is on.
    pub fn is_on(&self, gate: Gate) -> bool {
        self.0[gate as usize]
    }

    /// Returns the gates with one of them set.
    #[must_use]
    pub fn with(mut self, gate: Gate, on: bool) -> Self {
        self.0[gate as usize] = on;
        self
    }

    /// Applies the elements of `--feature-gates`: `Name=true` or `Name=false`, where the name may follow `kube:`. Returns
    /// what the gates of kube-controller-manager among them ask for.
    ///
    /// # Errors
    ///
    /// When a gate is unknown, when its value is not a boolean, or when it asks for what the controllers cannot do.
    pub(crate) fn set(&mut self, words: &[String]) -> Result<UpstreamRequests, InvalidOption> {
        let mut requests = UpstreamRequests::default();
        for word in words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()) {
            let invalid =
                |why: String| InvalidOption { option: "--feature-gates".into(), value: word.into(), why };
            let (name, value) =
                word.split_once('=').ok_or_else(|| invalid("write Name=true or Name=false".into()))?;
            let name = name.trim().strip_prefix("kube:").unwrap_or(name.trim());
            let own = TABLE.iter().find(|(_, known, ..)| *known == name).map(|(gate, ..)| *gate);
            let upstream = UpstreamGate::find(name);
            if own.is_none() && upstream.is_none() {
                let known: Vec<&str> = TABLE.iter().map(|(_, name, ..)| *name).collect();
                return Err(invalid(format!(
                    "unknown gate; the gates are {} and those of kube-controller-manager 1.36",
                    known.join(", ")
                )));
            }
            let on = go_bool::parse(value.trim()).ok_or_else(|| invalid("write true or false".into()))?;
            if let Some(gate) = own {
                self.0[gate as usize] = on;
            }
            match upstream {
                None => {}
                Some(UpstreamGate::Locked(locked)) if locked == on => {}
                Some(UpstreamGate::Locked(locked)) => {
                    let why = format!(
                        "kube-controller-manager 1.36 locks this gate to {locked}; remove it or set it so"
                    );
                    return Err(invalid(why));
                }
                Some(UpstreamGate::WatchListClient) => requests.watch_list_client = Some(on),
                Some(UpstreamGate::Ignored) => requests.ignored.push(name.to_owned()),
            }
        }
        Ok(requests)
    }

    /// One line per gate for `--help`.
    pub(crate) fn help() -> String {
        let line = |(_, name, on, meaning): &(Gate, &str, bool, &str)| {
            format!("{name}=true|false ({on}): {meaning}")
        };
        TABLE.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (at, (gate, name, ..)) in TABLE.iter().enumerate() {
            assert_eq!(*gate as usize, at);
            assert_eq!(format!("{gate:?}"), *name);
        }
    }

    #[test]
    fn elements_set_gates() {
        let mut gates = Gates::default();
        gates.set(&["NodeZoneResync=false".into(), "SliceCompaction=true".into()]).unwrap();
        assert!(!gates.is_on(Gate::NodeZoneResync) && gates.is_on(Gate::SliceCompaction));
        assert!(gates.is_on(Gate::EndpointsRepair), "the others keep their defaults");
    }

    #[test]
    fn gates_of_kube_controller_manager_are_honoured_or_ignored() {
        let check = |words: &[&str], watch_list_client: Option<bool>, ignored: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut gates = Gates::default();
            let requests = gates.set(&words).unwrap();
            let ignored = ignored.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(requests, UpstreamRequests { watch_list_client, ignored }, "{words:?}");
            assert_eq!(gates, Gates::default(), "{words:?}");
        };
        check(&[], None, &[]);
        check(&["PreferSameTrafficDistribution=true", "InOrderInformers=1"], None, &[]);
        check(&["WatchListClient=false"], Some(false), &[]);
        check(&["kube:WatchListClient=False", " kube:WatchListClient = T "], Some(true), &[]);
        check(
            &["AllAlpha=true", "", "kube:DynamicResourceAllocation=0"],
            None,
            &["AllAlpha", "DynamicResourceAllocation"],
        );
    }

    #[test]
    fn errors_name_the_valid_values() {
        let error = |word: &str| Gates::default().set(&[word.to_owned()]).unwrap_err().to_string();
        insta::assert_snapshot!(
            [
                "Nope=true",
                "wardle:NodeZoneResync=true",
                "NodeZoneResync",
                "NodeZoneResync=yes",
                "AllAlpha=maybe",
                "PreferSameTrafficDistribution=false"
            ]
            .map(error)
            .join("\n")
        );
    }
}

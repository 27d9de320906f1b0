//! Feature gates. Each turns one deviation from kube-controller-manager's behaviour on or off.

use crate::settings::InvalidOption;

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
    /// Merges sparse slices in syncs that write anyway.
    SliceCompaction,
    /// Keeps topology hints when a share of nodes lacks a zone (`--topology-node-tolerance`).
    TopologyNodeTolerance,
}

/// Each gate with its name, default and description.
const TABLE: [(Gate, &str, bool, &str); 10] = [
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
    (Gate::SliceCompaction, "SliceCompaction", false, "merge sparse slices in syncs that write anyway"),
    (
        Gate::TopologyNodeTolerance,
        "TopologyNodeTolerance",
        false,
        "ignore a share of nodes without a zone instead of removing all topology hints",
    ),
];

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

    /// Applies the elements of `--feature-gates`: `Name=true` or `Name=false`.
    pub(crate) fn set(&mut self, words: &[String]) -> Result<(), InvalidOption> {
        for word in words {
            let invalid =
                |why: String| InvalidOption { option: "--feature-gates".into(), value: word.clone(), why };
            let (name, value) =
                word.split_once('=').ok_or_else(|| invalid("write Name=true or Name=false".into()))?;
            let Some((gate, ..)) = TABLE.iter().find(|(_, known, ..)| *known == name) else {
                let known: Vec<&str> = TABLE.iter().map(|(_, name, ..)| *name).collect();
                return Err(invalid(format!("unknown gate; the gates are {}", known.join(", "))));
            };
            self.0[*gate as usize] = match value {
                "true" => true,
                "false" => false,
                _ => return Err(invalid("write true or false".into())),
            };
        }
        Ok(())
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
    fn errors_name_the_valid_values() {
        let error = |word: &str| Gates::default().set(&[word.to_owned()]).unwrap_err().to_string();
        insta::assert_snapshot!(
            [error("Nope=true"), error("NodeZoneResync"), error("NodeZoneResync=yes")].join("\n")
        );
    }
}

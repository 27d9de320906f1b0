//! Feature gates: behaviour that goes past kube-controller-manager's, each on or off.

use crate::settings::InvalidOption;

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Endpoints of a selector Service that somebody edits by hand are repaired at once.
    EndpointsRepair,
    /// A truncated Endpoints object that is as it would be written is not written again at every sync.
    EndpointsKeepTruncated,
    /// Endpoints of a Service that itself carries a reserved label are not written again at every sync.
    EndpointsIgnoreReservedLabels,
    /// The old Service annotation `tolerate-unready-endpoints` is honoured.
    TolerateUnreadyAnnotation,
    /// Slices that the endpointslice controller left behind when a Service lost its selector are removed.
    OrphanedSliceCleanup,
    /// Services with endpoints on a node are synced when its zone appears or changes.
    NodeZoneResync,
    /// Services that left out pods because their node was unknown are synced when the node appears.
    MissingNodeResync,
    /// A slice is created first where updates alone would take a ready pod away for a moment.
    SafeWriteOrder,
    /// Syncs that write anyway also move endpoints of sparse slices together.
    SliceCompaction,
    /// Some nodes without a zone do not withdraw every Service's hints (`--topology-node-tolerance`).
    TopologyNodeTolerance,
}

/// What is known of each gate: name, default, meaning.
const TABLE: [(Gate, &str, bool, &str); 10] = [
    (
        Gate::EndpointsRepair,
        "EndpointsRepair",
        true,
        "repair hand-edited Endpoints of selector Services at once",
    ),
    (
        Gate::EndpointsKeepTruncated,
        "EndpointsKeepTruncated",
        true,
        "do not write a truncated Endpoints object again that is as it would be written",
    ),
    (
        Gate::EndpointsIgnoreReservedLabels,
        "EndpointsIgnoreReservedLabels",
        true,
        "do not write Endpoints again because the Service itself carries a reserved label",
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
        "remove a Service's own slices once mirrored ones have taken their place",
    ),
    (
        Gate::NodeZoneResync,
        "NodeZoneResync",
        true,
        "sync Services when the zone of a node under them changes",
    ),
    (
        Gate::MissingNodeResync,
        "MissingNodeResync",
        true,
        "sync Services when a node that their pods name appears",
    ),
    (
        Gate::SafeWriteOrder,
        "SafeWriteOrder",
        true,
        "create a slice first where updates alone would take a ready pod away for a moment",
    ),
    (Gate::SliceCompaction, "SliceCompaction", false, "merge sparse slices in syncs that write anyway"),
    (
        Gate::TopologyNodeTolerance,
        "TopologyNodeTolerance",
        false,
        "leave some nodes without a zone out of topology hints instead of withdrawing them all",
    ),
];

/// Which gates are on.
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
    /// All off: the behaviour of kube-controller-manager.
    pub fn upstream() -> Self {
        Self([false; TABLE.len()])
    }

    /// Whether a gate is on.
    pub fn is_on(&self, gate: Gate) -> bool {
        self.0[gate as usize]
    }

    /// The same gates with one set.
    #[must_use]
    pub fn with(mut self, gate: Gate, on: bool) -> Self {
        self.0[gate as usize] = on;
        self
    }

    /// Sets gates as `--feature-gates` has them: `Name=true`, `Name=false`.
    pub(crate) fn set(&mut self, words: &[String]) -> Result<(), InvalidOption> {
        for word in words {
            let invalid =
                |why: String| InvalidOption { option: "--feature-gates".into(), value: word.clone(), why };
            let (name, value) =
                word.split_once('=').ok_or_else(|| invalid("write Name=true or Name=false".into()))?;
            let Some((gate, ..)) = TABLE.iter().find(|(_, known, ..)| *known == name) else {
                let known: Vec<&str> = TABLE.iter().map(|(_, name, ..)| *name).collect();
                return Err(invalid(format!("there is no such gate; there are {}", known.join(", "))));
            };
            self.0[*gate as usize] = match value {
                "true" => true,
                "false" => false,
                _ => return Err(invalid("write true or false".into())),
            };
        }
        Ok(())
    }

    /// The gates for `--help`, a line each.
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
    fn words_set_gates() {
        let mut gates = Gates::default();
        gates.set(&["NodeZoneResync=false".into(), "SliceCompaction=true".into()]).unwrap();
        assert!(!gates.is_on(Gate::NodeZoneResync) && gates.is_on(Gate::SliceCompaction));
        assert!(gates.is_on(Gate::EndpointsRepair), "the others keep their defaults");
    }

    #[test]
    fn what_makes_no_sense_is_told_what_would_be_right() {
        let error = |word: &str| Gates::default().set(&[word.to_owned()]).unwrap_err().to_string();
        insta::assert_snapshot!(
            [error("Nope=true"), error("NodeZoneResync"), error("NodeZoneResync=yes")].join("\n")
        );
    }
}

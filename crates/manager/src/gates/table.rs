//! The table of feature gates.

/// The maturity of a gate, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// New and off by default. The gate may change or go. `AllAlpha` sets these.
    Alpha,
    /// Settled and on by default. `AllBeta` sets these.
    Beta,
}

impl Stage {
    /// Returns the name in the help text.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
        }
    }

    /// Returns true if gates of this stage are on by default.
    pub(super) fn is_on(self) -> bool {
        self == Self::Beta
    }
}

/// A feature gate: one deviation from kube-controller-manager's behaviour, or something new that is
/// not settled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Repairs Endpoints of a Service with a selector immediately after an edit by another client.
    EndpointsRepair,
    /// Skips the write of a truncated Endpoints object that has not changed. Upstream rewrites it
    /// at every sync.
    EndpointsKeepTruncated,
    /// Skips the write of Endpoints that differ only in a reserved label of the Service. Upstream
    /// rewrites them at every sync.
    EndpointsIgnoreReservedLabels,
    /// Deletes the slices that the endpointslice controller leaves behind when a Service loses its
    /// selector.
    OrphanedSliceCleanup,
    /// Corrects the label of headless Services that is left on other slices: kube-proxy ignores
    /// slices that have it.
    HeadlessLabelRepair,
    /// Syncs Services with endpoints on a node when its zone label appears or changes.
    NodeZoneResync,
    /// Syncs Services with pods on a node when the node appears, and a minute after it is deleted.
    MissingNodeResync,
    /// Creates a slice first where updates alone would remove a ready pod for a moment.
    SafeWriteOrder,
    /// Still removes endpoints and makes them unready after a failed create of a slice in the same
    /// sync.
    WritesAfterFailedCreate,
    /// Merges sparse slices in syncs that write anyway.
    SliceCompaction,
    /// Never drops a Service whose writes fail: retries it slowly, and syncs it when writes succeed
    /// again after an outage.
    SlowRetries,
    /// Corrects changes by another client after a second at the earliest, and later each time while
    /// the client repeats them.
    ForeignWriteBackoff,
    /// Collects changes of the pods of a large Service for up to 150 ms, and writes them together.
    WriteSpacing,
}

impl Gate {
    /// Returns all gates, in a fixed order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|spec| spec.gate)
    }

    /// Returns the name, as in `--feature-gates`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].name
    }
}

/// A row of the table.
pub(super) struct GateSpec {
    pub(super) gate: Gate,
    pub(super) name: &'static str,
    pub(super) stage: Stage,
    /// A description of the behaviour when the gate is on.
    pub(super) meaning: &'static str,
}

const fn spec(gate: Gate, name: &'static str, stage: Stage, meaning: &'static str) -> GateSpec {
    GateSpec { gate, name, stage, meaning }
}

/// All gates, in the order of [`Gate`].
pub(super) const TABLE: [GateSpec; 13] = [
    spec(
        Gate::EndpointsRepair,
        "EndpointsRepair",
        Stage::Beta,
        "repair edited Endpoints of Services with a selector immediately",
    ),
    spec(
        Gate::EndpointsKeepTruncated,
        "EndpointsKeepTruncated",
        Stage::Beta,
        "do not rewrite truncated Endpoints that have not changed",
    ),
    spec(
        Gate::EndpointsIgnoreReservedLabels,
        "EndpointsIgnoreReservedLabels",
        Stage::Beta,
        "do not rewrite Endpoints because the Service carries a reserved label",
    ),
    spec(
        Gate::OrphanedSliceCleanup,
        "OrphanedSliceCleanup",
        Stage::Beta,
        "delete slices made from pods once mirrored slices have replaced them",
    ),
    spec(
        Gate::HeadlessLabelRepair,
        "HeadlessLabelRepair",
        Stage::Beta,
        "correct the label service.kubernetes.io/headless of slices, with which kube-proxy ignores them",
    ),
    spec(
        Gate::NodeZoneResync,
        "NodeZoneResync",
        Stage::Beta,
        "sync Services when the zone of a node with their endpoints changes",
    ),
    spec(
        Gate::MissingNodeResync,
        "MissingNodeResync",
        Stage::Beta,
        "sync Services with pods on a node when the node appears, and a minute after it is deleted",
    ),
    spec(
        Gate::SafeWriteOrder,
        "SafeWriteOrder",
        Stage::Beta,
        "create a slice first where updates alone would remove a ready pod for a moment",
    ),
    spec(
        Gate::WritesAfterFailedCreate,
        "WritesAfterFailedCreate",
        Stage::Beta,
        "still remove endpoints and make them unready when a slice cannot be written",
    ),
    spec(
        Gate::SliceCompaction,
        "SliceCompaction",
        Stage::Alpha,
        "merge sparse slices in syncs that write anyway",
    ),
    spec(
        Gate::SlowRetries,
        "SlowRetries",
        Stage::Beta,
        "retry a Service whose writes fail for as long as they fail, instead of dropping it after 15 retries",
    ),
    spec(
        Gate::ForeignWriteBackoff,
        "ForeignWriteBackoff",
        Stage::Beta,
        "wait longer before each correction of a change that another client keeps repeating",
    ),
    spec(
        Gate::WriteSpacing,
        "WriteSpacing",
        Stage::Beta,
        "collect new endpoints of a Service with 1,000 pods or more for up to 150 ms, and write them together",
    ),
];

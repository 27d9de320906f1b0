//! Lines of the log about single keys, which many keys may cause at the same time.

use kube_endpoint_core_model::LogLimit;
/// The kinds of lines. Each is limited by itself, so that none hides another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Line {
    /// The API server asked for a pause.
    Pause,
    /// The cache has not shown our own writes for long.
    LongWait,
    /// Conflicts go on.
    Conflicts,
    /// The server undid an update.
    Undone,
    /// Another client repeats its changes.
    ForeignConflict,
    /// A Service joined or left the selection.
    Selection,
    /// A Service asks for something that it does not get.
    Warning,
    /// A slice of a Service without a selector is deleted.
    Orphan,
    /// Slices are deleted whose Endpoints are not mirrored.
    NotMirrored,
}

/// The limit of each kind.
#[derive(Debug, Default)]
pub(crate) struct LogLines {
    pause: LogLimit,
    long_wait: LogLimit,
    conflicts: LogLimit,
    undone: LogLimit,
    foreign_conflict: LogLimit,
    selection: LogLimit,
    warning: LogLimit,
    orphan: LogLimit,
    not_mirrored: LogLimit,
}

impl LogLines {
    pub(crate) fn limit(&self, line: Line) -> &LogLimit {
        match line {
            Line::Pause => &self.pause,
            Line::LongWait => &self.long_wait,
            Line::Conflicts => &self.conflicts,
            Line::Undone => &self.undone,
            Line::ForeignConflict => &self.foreign_conflict,
            Line::Selection => &self.selection,
            Line::Warning => &self.warning,
            Line::Orphan => &self.orphan,
            Line::NotMirrored => &self.not_mirrored,
        }
    }
}

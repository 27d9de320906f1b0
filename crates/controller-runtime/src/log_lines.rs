//! Limits for log lines about single keys, which many keys may cause at the same time.

use kube_endpoint_core_model::LogLimit;
/// The kinds of log lines. Each has a limit of its own, so that no kind hides another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Line {
    /// The API server asked for a pause.
    Pause,
    /// The cache has not shown own writes for a minute.
    LongWait,
    /// Conflicts go on although the cache does not change.
    Conflicts,
    /// The server accepted an update and kept what it had.
    Undone,
    /// Another client repeats its changes.
    ForeignConflict,
    /// Another controller writes the same objects.
    OtherController,
    /// A Service joined or left the selection.
    Selection,
    /// The controller deletes a slice of a Service without a selector.
    Orphan,
    /// The controller deletes slices whose Endpoints are not mirrored.
    NotMirrored,
}

#[derive(Debug, Default)]
pub(crate) struct LogLines {
    pause: LogLimit,
    long_wait: LogLimit,
    conflicts: LogLimit,
    undone: LogLimit,
    foreign_conflict: LogLimit,
    other_controller: LogLimit,
    selection: LogLimit,
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
            Line::OtherController => &self.other_controller,
            Line::Selection => &self.selection,
            Line::Orphan => &self.orphan,
            Line::NotMirrored => &self.not_mirrored,
        }
    }
}

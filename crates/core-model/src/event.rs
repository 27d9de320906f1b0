//! Events as data: a plan returns them, somebody else sends them.

/// Whether an event is news or trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// `Normal`
    Normal,
    /// `Warning`
    Warning,
}

impl EventType {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event about the object that was synced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlannedEvent {
    /// Normal or Warning.
    pub event_type: EventType,
    /// Machine-readable reason.
    pub reason: &'static str,
    /// For people, worded as upstream words it.
    pub message: String,
}

impl PlannedEvent {
    /// A warning.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { event_type: EventType::Warning, reason, message: message.into() }
    }

    /// News.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { event_type: EventType::Normal, reason, message: message.into() }
    }
}

impl std::fmt::Display for PlannedEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.event_type.as_str(), self.reason, self.message)
    }
}

//! Words that the messages of several reasons share.

use std::fmt;

use kube_endpoint_core_model::IpFamily;

use super::{DeadPort, NamedPort, PodReason};

impl fmt::Display for NamedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}={port}/{}", self.name, self.protocol),
            None => write!(f, "{:?} ({})", self.name, self.protocol),
        }
    }
}

impl fmt::Display for DeadPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, name, .. } = self;
        if name.is_empty() { write!(f, "{port}") } else { write!(f, "{port} ({name})") }
    }
}

pub(in crate::findings) fn list(ports: &[NamedPort]) -> String {
    let texts: Vec<String> = ports.iter().map(NamedPort::to_string).collect();
    if texts.is_empty() { "no named ports".to_owned() } else { texts.join(", ") }
}

pub(in crate::findings) fn any_of(families: &[IpFamily]) -> String {
    families.iter().map(|family| format!("{family:?}")).collect::<Vec<_>>().join(" or ")
}

/// Returns a message without the full stops and blanks at its end.
fn ended(message: &str) -> &str {
    message.trim_end_matches(['.', ' ', '\n'])
}

/// Appends the reason and the message of a condition or state, if there are any.
pub(in crate::findings) fn reported(f: &mut fmt::Formatter<'_>, why: &str, message: &str) -> fmt::Result {
    match (why, message) {
        ("", "") => Ok(()),
        (text, "") | ("", text) => write!(f, ": {}", ended(text)),
        (why, message) => write!(f, ": {why}, {}", ended(message)),
    }
}

/// Says which ports a pod lacks. `elsewhere` is true if other pods have one of them.
pub(in crate::findings) fn not_found(
    f: &mut fmt::Formatter<'_>,
    wanted: &[NamedPort],
    has: &[NamedPort],
    elsewhere: bool,
) -> fmt::Result {
    let others = if elsewhere { ", which other pods of the Service have" } else { "" };
    write!(f, "no container port named {}{others}; the pod has {}", list(wanted), list(has))
}

impl fmt::Display for PodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The finding about the Service says more.
            Self::NoServicePorts(_) => f.write_str("the Service has no ports"),
            reason => reason.finding().fmt(f),
        }
    }
}

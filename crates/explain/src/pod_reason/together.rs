//! Reasons of several pods that are told as one.

use std::fmt;

use super::PodReason;
use crate::finding::Problem;

/// Reasons of several pods that can be told as one. Prints as one sentence, without a full stop.
#[derive(Clone, Debug)]
pub(crate) struct Together<'a>(pub(crate) Vec<&'a PodReason>);

impl Together<'_> {
    /// Returns the nodes that the reasons name, each once.
    fn nodes(&self) -> Vec<&str> {
        let mut nodes: Vec<&str> = self.0.iter().filter_map(|reason| reason.node()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Returns what to do about all of them; `pod` is the name of one of the pods.
    pub(crate) fn remedy(&self, pod: &str) -> String {
        let nodes = self.nodes();
        match self.0.first() {
            Some(PodReason::NodeNotReady { .. }) if nodes.len() > 1 => {
                format!(
                    "Look at the kubelets of nodes {}: kubectl describe node {}",
                    first_few(&nodes),
                    first(&nodes)
                )
            }
            Some(PodReason::NodeNotFound { .. }) if nodes.len() > 1 => format!(
                "Bring the nodes {} back, or delete the pods so that they are scheduled elsewhere",
                first_few(&nodes)
            ),
            Some(reason) => reason.remedy().replace("POD", pod),
            None => String::new(),
        }
    }
}

impl fmt::Display for Together<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes();
        match self.0.first() {
            Some(PodReason::NodeNotReady { .. }) if nodes.len() > 1 => {
                write!(
                    f,
                    "their nodes are not ready, so the pods were marked not ready: {}",
                    first_few(&nodes)
                )
            }
            Some(PodReason::NodeNotFound { .. }) if nodes.len() > 1 => {
                write!(f, "their nodes do not exist: {}", first_few(&nodes))
            }
            Some(reason) => reason.fmt(f),
            None => Ok(()),
        }
    }
}

fn first<'a>(names: &[&'a str]) -> &'a str {
    names.first().copied().unwrap_or_default()
}

fn first_few(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

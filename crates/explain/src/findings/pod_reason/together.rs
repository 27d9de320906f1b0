//! Tells reasons of several pods in one sentence.

use std::fmt;

use kube_endpoint_core_model::ObjectKey;

use super::{PodReason, save};
use crate::facts::remedy::Remedy;
use crate::findings::{
    ContainerNotReady, InvalidAddress, NoAddressOfFamily, NodeNotFound, NodeNotReady, NotReady, PodFinished,
    PodTerminating, ReadinessGateNotMet, SomeFamiliesMissing,
};

/// Reasons of several pods with the same [group](PodReason::group). Prints as one sentence, without
/// a full stop.
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

    /// Returns how many of the pods are being deleted and still answer requests.
    fn serving(&self) -> usize {
        let is_serving = |reason: &&&PodReason| {
            matches!(reason, PodReason::PodTerminating(PodTerminating { serving: true, .. }))
        };
        self.0.iter().filter(is_serving).count()
    }

    /// Returns the addresses that the reasons name in place of others, each once.
    fn addresses(&self) -> Vec<String> {
        let of = |reason: &&PodReason| match reason {
            PodReason::InvalidAddress(InvalidAddress { address }) => vec![format!("{address:?}")],
            PodReason::NoAddressOfFamily(NoAddressOfFamily { has, .. })
            | PodReason::SomeFamiliesMissing(SomeFamiliesMissing { has, .. }) => {
                has.iter().map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        };
        let mut addresses: Vec<String> = self.0.iter().flat_map(of).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Returns a text of the reasons, or an empty one if they have different ones: then none of
    /// them holds for all.
    fn common<'r>(&'r self, text: impl Fn(&'r PodReason) -> &'r str) -> &'r str {
        let mut texts = self.0.iter().map(|reason| text(reason));
        let first = texts.next().unwrap_or_default();
        if texts.all(|other| other == first) { first } else { "" }
    }

    /// Returns the greatest number of seconds of the reasons.
    fn longest(&self, seconds: impl Fn(&PodReason) -> Option<i64>) -> Option<i64> {
        self.0.iter().filter_map(|reason| seconds(reason)).max()
    }

    /// Prints what holds for all of several pods: a message about the first one may be wrong about
    /// the others.
    fn common_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return Ok(()) };
        if let Some(stopped) = first.stopped() {
            let restarts = self.0.iter().filter_map(|reason| Some(reason.stopped()?.restarts.0));
            let restarts = restarts.clone().min().zip(restarts.max()).unwrap_or_default();
            let message = self.common(|reason| match reason.stopped() {
                Some(stopped) => stopped.told(),
                None => "",
            });
            return write!(f, "{}", super::containers::Stopped { message, restarts, ..stopped });
        }
        let mut common = (*first).clone();
        match &mut common {
            PodReason::PodFinished(PodFinished { message, .. }) => {
                *message = self
                    .common(|reason| match reason {
                        PodReason::PodFinished(PodFinished { message, .. }) => message,
                        _ => "",
                    })
                    .into();
            }
            PodReason::ReadinessGateNotMet(ReadinessGateNotMet { message, .. }) => {
                *message = self
                    .common(|reason| match reason {
                        PodReason::ReadinessGateNotMet(ReadinessGateNotMet { message, .. }) => message,
                        _ => "",
                    })
                    .into();
            }
            PodReason::NoAddress(starting) => {
                starting.node = first_few(&self.nodes()).into();
                starting.message = self
                    .common(|reason| match reason {
                        PodReason::NoAddress(starting) => &starting.message,
                        _ => "",
                    })
                    .into();
            }
            PodReason::NotReady(NotReady { stale_on: Some(node), .. }) => {
                *node = first_few(&self.nodes()).into();
            }
            PodReason::PodTerminating(PodTerminating { overdue_seconds, .. }) => {
                *overdue_seconds = self.longest(|reason| match reason {
                    PodReason::PodTerminating(PodTerminating { overdue_seconds, .. }) => *overdue_seconds,
                    _ => None,
                });
            }
            PodReason::ContainerNotReady(ContainerNotReady { containers, .. }) => {
                for (at, container) in containers.iter_mut().enumerate() {
                    let same = self.0.iter().filter_map(|reason| match reason {
                        PodReason::ContainerNotReady(ContainerNotReady { containers, .. }) => {
                            containers.get(at)
                        }
                        _ => None,
                    });
                    if same.clone().any(|one| one.restarts != container.restarts) {
                        container.restarts = 0;
                    }
                    container.first_probe_in_seconds =
                        same.filter_map(|one| one.first_probe_in_seconds).max();
                }
            }
            _ => {}
        }
        write!(f, "{common}")
    }

    /// Returns the remedy for all of them. `pod` is the name of one of the pods, which `service`
    /// selects; `is_alone` is true if the Service has only pods of this kind.
    pub(crate) fn remedy(&self, service: &ObjectKey, pod: &str, is_alone: bool) -> Remedy {
        let nodes = self.nodes();
        let Some(reason) = self.0.first() else { return Remedy::default() };
        let sentence = match reason {
            PodReason::NodeNotReady(NodeNotReady { .. }) if nodes.len() > 1 => {
                format!("Look at the kubelets of nodes {}", first_few(&nodes))
            }
            PodReason::NodeNotFound(NodeNotFound { owner, .. }) if nodes.len() > 1 => {
                return super::owner::node_gone(*owner, "nodes", &first_few(&nodes), save(service, pod));
            }
            PodReason::NotReady(NotReady { stale_on: Some(_), owner, .. }) => {
                return super::owner::stale(*owner, &first_few(&nodes), save(service, pod));
            }
            PodReason::PodFinished(PodFinished { why, message, .. })
                if super::ending::is_rejected(why, message) =>
            {
                return reason.remedy(service, pod);
            }
            PodReason::PodFinished(PodFinished { why, disruption, .. })
                if is_alone && (!why.is_empty() || disruption.is_some()) =>
            {
                super::ending::finished_sentence(why, disruption.as_ref(), true).1
            }
            PodReason::PodFinished(PodFinished { failed: Some(_), .. }) if is_alone => {
                "Look at why the pod ended, and start one in its place".to_owned()
            }
            PodReason::PodFinished(PodFinished { .. }) if is_alone => {
                "Start a pod that keeps running; if the work is done, delete the Service".to_owned()
            }
            PodReason::PodTerminating(terminating) => {
                let nodes = first_few(&nodes);
                return super::ending::terminating_remedy(terminating, service, pod, &nodes, is_alone);
            }
            _ => return reason.remedy(service, pod),
        };
        reason.remedy(service, pod).saying(sentence)
    }
}

impl fmt::Display for Together<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes();
        match self.0.first() {
            Some(PodReason::NodeNotReady(NodeNotReady { .. })) if nodes.len() > 1 => {
                write!(
                    f,
                    "their nodes are not ready, so the pods were marked not ready: {}",
                    first_few(&nodes)
                )?;
                let message = self.common(|reason| match reason {
                    PodReason::NodeNotReady(NodeNotReady { message, .. }) => message,
                    _ => "",
                });
                match message {
                    "" => Ok(()),
                    message => write!(f, " ({})", message.trim_end_matches('.')),
                }
            }
            Some(PodReason::PodFinished(PodFinished { why, message, .. }))
                if self.0.len() > 1 && super::ending::is_rejected(why, message) =>
            {
                let message = self.common(|reason| match reason {
                    PodReason::PodFinished(PodFinished { message, .. }) => message,
                    _ => "",
                });
                let node = if nodes.len() == 1 { "node" } else { "nodes" };
                super::ending::rejected(f, &format!("{node} {}", first_few(&nodes)), "the pods", why, message)
            }
            Some(PodReason::NodeNotFound(NodeNotFound { .. })) if nodes.len() > 1 => {
                write!(f, "their nodes do not exist: {}", first_few(&nodes))
            }
            Some(PodReason::PodTerminating(PodTerminating {
                disruption,
                finalizers,
                silent_node: Some(node),
                ..
            })) => {
                let silent = Some((&*first_few(&nodes), node.exists));
                let overdue = self.longest(|reason| match reason {
                    PodReason::PodTerminating(PodTerminating { overdue_seconds, .. }) => *overdue_seconds,
                    _ => None,
                });
                super::ending::terminating(
                    f,
                    self.serving() > 0,
                    disruption.as_ref(),
                    finalizers,
                    silent,
                    overdue,
                )
            }
            Some(PodReason::PodTerminating(PodTerminating { .. }))
                if (1..self.0.len()).contains(&self.serving()) =>
            {
                let answer = if self.serving() == 1 { "answers" } else { "answer" };
                write!(f, "the pods are being deleted, of which {} still {answer}", self.serving())
            }
            Some(PodReason::NoAddressOfFamily(NoAddressOfFamily { family, .. })) if self.0.len() > 1 => {
                write!(
                    f,
                    "the pods have no {family:?} address, only {}",
                    first_few(&texts(&self.addresses()))
                )
            }
            Some(PodReason::SomeFamiliesMissing(SomeFamiliesMissing { missing, .. })) if self.0.len() > 1 => {
                let missing: Vec<String> = missing.iter().map(|family| format!("{family:?}")).collect();
                let has = self.addresses();
                write!(
                    f,
                    "the pods have no {} address, only {}",
                    missing.join(" or "),
                    first_few(&texts(&has))
                )
            }
            Some(PodReason::InvalidAddress(InvalidAddress { .. })) if self.0.len() > 1 => {
                write!(
                    f,
                    "the pods' addresses are not IP addresses: {}",
                    first_few(&texts(&self.addresses()))
                )
            }
            Some(_) if self.0.len() > 1 => self.common_reason(f),
            Some(reason) => reason.fmt(f),
            None => Ok(()),
        }
    }
}

fn texts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

fn first_few(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

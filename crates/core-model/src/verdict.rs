//! Verdicts on the pods of a Service: each is published, or is left out for a first reason.

use std::fmt;

use serde::Serialize;

use crate::{IpFamily, ObjectKey, Text};

/// The decision of a plan about one pod. Prints as `pod NAME: VERDICT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodVerdict {
    pub pod: ObjectKey,
    /// A pod of a dual-stack Service is published if it is published for at least one address
    /// family.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Published, or the first reason why not. Serialises with the tag `verdict`: `published` or
/// `left-out`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// The pod is published with these conditions.
    Published {
        /// The condition `ready`: the endpoint may receive traffic.
        ready: bool,
        /// The condition `serving`: the pod is ready, even if it is being deleted.
        serving: bool,
        /// The condition `terminating`: the pod is being deleted.
        terminating: bool,
        /// Names of the Service's ports that the pod lacks, so that it is not published under them.
        missing_ports: Vec<Text>,
    },
    /// The pod is not published.
    LeftOut(LeftOut),
}

/// The first reason why a pod is not published. Serialises with the tag `reason`, which holds
/// [`LeftOut::code`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum LeftOut {
    /// The pod's phase is `Succeeded` or `Failed`.
    Terminal,
    /// The pod has no address yet.
    NoAddress,
    /// The pod is being deleted, and v1 Endpoints hold no such pods.
    Terminating,
    /// The informer does not know the pod's node, or not yet.
    NodeNotFound {
        /// The node that the pod names.
        node: Text,
    },
    /// The text of the pod's address is not an IP address.
    InvalidAddress { address: Text },
    /// The pod has no address of the wanted family.
    NoAddressOfFamily {
        /// The wanted family.
        family: IpFamily,
    },
    /// The pod has none of the Service's ports.
    NoPort {
        /// Names of the container ports that the Service asks for; empty if the Service has no
        /// ports.
        wanted: Vec<Text>,
    },
    /// The Endpoints object would hold more addresses than it may.
    OverCapacity,
}

impl LeftOut {
    /// Returns the stable code of the reason, in kebab case. It never changes once released.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::NoAddress => "no-address",
            Self::Terminating => "terminating",
            Self::NodeNotFound { .. } => "node-not-found",
            Self::InvalidAddress { .. } => "invalid-address",
            Self::NoAddressOfFamily { .. } => "no-address-of-family",
            Self::NoPort { .. } => "no-port",
            Self::OverCapacity => "over-capacity",
        }
    }
}

impl fmt::Display for PodVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}: {}", self.pod.name, self.verdict)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftOut(reason) => write!(f, "left out: {reason}"),
            Self::Published { ready, serving, terminating, missing_ports } => {
                write!(f, "published as {}", if *ready { "ready" } else { "not ready" })?;
                if ready != serving {
                    write!(f, ", though {}", if *serving { "serving" } else { "not serving" })?;
                }
                if *terminating {
                    write!(f, ", being deleted")?;
                }
                if !missing_ports.is_empty() {
                    let named = |name: &Text| if name.is_empty() { "(unnamed)".into() } else { name.clone() };
                    let names: Vec<Text> = missing_ports.iter().map(named).collect();
                    write!(f, ", without port {}", names.join(", "))?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("the pod has ended for good (phase Succeeded or Failed)"),
            Self::NoAddress => f.write_str("the pod has no IP address yet"),
            Self::Terminating => f.write_str("the pod is being deleted"),
            Self::NodeNotFound { node } if node.is_empty() => {
                f.write_str("the pod has no node (spec.nodeName)")
            }
            Self::NodeNotFound { node } => write!(f, "the pod's node {node:?} does not exist"),
            Self::InvalidAddress { address } => {
                write!(f, "the pod's address {address:?} is not an IP address")
            }
            Self::NoAddressOfFamily { family } => write!(f, "the pod has no {family:?} address"),
            Self::NoPort { wanted } if wanted.is_empty() => f.write_str("the Service has no ports"),
            Self::NoPort { wanted } => {
                let names: Vec<&str> = wanted.iter().map(|name| &**name).collect();
                write!(f, "the pod has no container port named {}", names.join(", "))
            }
            Self::OverCapacity => {
                f.write_str("the Endpoints object already holds as many addresses as it may")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons() -> [LeftOut; 10] {
        [
            LeftOut::Terminal,
            LeftOut::NoAddress,
            LeftOut::Terminating,
            LeftOut::NodeNotFound { node: "n1".into() },
            LeftOut::NodeNotFound { node: "".into() },
            LeftOut::InvalidAddress { address: "10.0.0".into() },
            LeftOut::NoAddressOfFamily { family: IpFamily::IPv6 },
            LeftOut::NoPort { wanted: vec!["http".into(), "https".into()] },
            LeftOut::NoPort { wanted: vec![] },
            LeftOut::OverCapacity,
        ]
    }

    #[test]
    fn reasons_are_sentences() {
        insta::assert_snapshot!(reasons().map(|reason| reason.to_string()).join("\n"));
    }

    #[test]
    fn serialised_verdicts_carry_stable_codes() {
        let verdict = |verdict| PodVerdict { pod: ObjectKey::new("ns", "web-0"), verdict };
        let lines = reasons().map(|reason| {
            let code = reason.code();
            let json = serde_json::to_value(verdict(Verdict::LeftOut(reason))).unwrap();
            assert_eq!(json["reason"], code);
            json.to_string()
        });
        let (ready, serving, terminating, missing_ports) = (false, true, true, vec!["http".into()]);
        let published = verdict(Verdict::Published { ready, serving, terminating, missing_ports });
        let published = serde_json::to_value(published).unwrap().to_string();
        insta::assert_snapshot!(lines.join("\n") + "\n" + &published);
    }

    #[test]
    fn published_pods_print_their_conditions() {
        let check = |ready, serving, terminating, missing: &[&str], want: &str| {
            let missing_ports = missing.iter().map(|name| Text::from(*name)).collect();
            let verdict = Verdict::Published { ready, serving, terminating, missing_ports };
            assert_eq!(verdict.to_string(), want);
        };
        check(true, true, false, &[], "published as ready");
        check(false, false, false, &[], "published as not ready");
        check(true, false, false, &[], "published as ready, though not serving");
        check(false, true, true, &[], "published as not ready, though serving, being deleted");
        check(true, true, false, &["a", ""], "published as ready, without port a, (unnamed)");
    }
}

//! Why a pod is published, or why it is not: what every plan says about every pod of its Service.

use std::fmt;

use crate::{IpFamily, ObjectKey, Text};

/// What a plan decided about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVerdict {
    /// The pod.
    pub pod: ObjectKey,
    /// What became of it, and in which family where a Service has two.
    pub verdict: Verdict,
}

/// Published, or the first reason why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is published with these conditions.
    Published {
        /// May get traffic.
        ready: bool,
        /// Would answer.
        serving: bool,
        /// On its way out.
        terminating: bool,
        /// Names of the Service's ports that the pod lacks, so that it is not published under them.
        missing_ports: Vec<Text>,
    },
    /// It is not published.
    LeftOut(LeftOut),
}

/// The first reason why a pod is not published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It has ended for good.
    Terminal,
    /// It has no address yet.
    NoAddress,
    /// It is being deleted, and v1 Endpoints hold no such pods.
    Terminating,
    /// Its node is not known (yet).
    NodeNotFound {
        /// The node that it names.
        node: Text,
    },
    /// Its address is no address.
    InvalidAddress {
        /// What it says instead.
        address: Text,
    },
    /// It has no address of the wanted family.
    NoAddressOfFamily {
        /// The wanted family.
        family: IpFamily,
    },
    /// It has none of the Service's ports.
    NoPort {
        /// The names that were looked for; none when the Service has no ports at all.
        wanted: Vec<Text>,
    },
    /// There are more addresses than an Endpoints object may hold.
    OverCapacity,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal => f.write_str("the pod has ended for good (phase Succeeded or Failed)"),
            Self::NoAddress => f.write_str("the pod has no IP address yet"),
            Self::Terminating => f.write_str("the pod is being deleted"),
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

    #[test]
    fn reasons_read_well() {
        let all = [
            LeftOut::Terminal,
            LeftOut::NoAddress,
            LeftOut::Terminating,
            LeftOut::NodeNotFound { node: "n1".into() },
            LeftOut::InvalidAddress { address: "10.0.0".into() },
            LeftOut::NoAddressOfFamily { family: IpFamily::IPv6 },
            LeftOut::NoPort { wanted: vec!["http".into(), "https".into()] },
            LeftOut::NoPort { wanted: vec![] },
            LeftOut::OverCapacity,
        ];
        insta::assert_snapshot!(all.map(|reason| reason.to_string()).join("\n"));
    }
}

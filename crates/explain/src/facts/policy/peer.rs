//! The peers that a rule of a NetworkPolicy names.

use std::net::IpAddr;

use kube_endpoint_core_model::label_selector::LabelSelectorFields;
use kube_endpoint_core_model::{LabelSelector, StringMap, Text};
use serde::Deserialize;
use serde_json::Value;

use crate::facts::json::{each, text};

/// The label with the name of a namespace, which API servers set.
pub(crate) const NAME: &str = "kubernetes.io/metadata.name";

/// The namespaces in which clusters run their DNS servers.
const OF_DNS: [&str; 2] = ["kube-system", "openshift-dns"];

/// The answer to the question if a policy lets pods connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lets {
    No,
    NotKnown,
    Yes,
}

impl From<bool> for Lets {
    fn from(lets: bool) -> Self {
        if lets { Self::Yes } else { Self::No }
    }
}

/// A pod at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    pub(crate) namespace: &'a Text,
    /// The labels of its namespace, or `None` if they are not known.
    pub(crate) of_namespace: Option<&'a StringMap>,
    pub(crate) labels: &'a StringMap,
    pub(crate) addresses: &'a [IpAddr],
    /// True if it is in the network of its node, where plugins see no pod.
    pub(crate) host_network: bool,
}

/// A peer of a rule.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    Pods {
        /// `None` for the namespace of the policy.
        namespaces: Option<LabelSelector>,
        /// `None` for all pods.
        pods: Option<LabelSelector>,
    },
    Block {
        cidr: Option<Block>,
        except: Vec<Block>,
    },
    /// A selector is as no API server permits.
    Unreadable,
}

impl Peer {
    pub(super) fn read(peer: &Value) -> Self {
        let block = &peer["ipBlock"];
        if block.is_object() {
            let except = each(&block["except"]).filter_map(|it| Block::parse(text(it)));
            return Self::Block { cidr: Block::parse(text(&block["cidr"])), except: except.collect() };
        }
        let selector = |field: &str| match &peer[field] {
            Value::Null => Some(None),
            fields => {
                let fields = LabelSelectorFields::deserialize(fields).ok()?;
                LabelSelector::try_from(&fields).ok().map(Some)
            }
        };
        match (selector("namespaceSelector"), selector("podSelector")) {
            (Some(namespaces), Some(pods)) => Self::Pods { namespaces, pods },
            _ => Self::Unreadable,
        }
    }

    /// Returns the answer to the question if a pod is this peer, for a policy of a namespace.
    pub(super) fn is(&self, of_policy: &Text, end: &End<'_>) -> Lets {
        match self {
            Self::Block { cidr, except } => {
                let has = |address: &IpAddr| cidr.as_ref().is_some_and(|block| block.contains(*address));
                let lacks = |address: &IpAddr| except.iter().any(|block| block.contains(*address));
                end.addresses.iter().any(|address| has(address) && !lacks(address)).into()
            }
            Self::Pods { .. } if end.host_network => Lets::NotKnown,
            Self::Pods { namespaces, pods } => {
                let in_namespace = match namespaces {
                    None => (*end.namespace == *of_policy).into(),
                    Some(selector) => selects(selector, end.namespace, end.of_namespace),
                };
                let is_pod = pods.as_ref().is_none_or(|pods| pods.matches(end.labels)).into();
                in_namespace.min(is_pod)
            }
            Self::Unreadable => Lets::NotKnown,
        }
    }

    /// Returns true if a DNS server may be this peer.
    pub(super) fn may_be_dns(&self, of_policy: &Text) -> bool {
        match self {
            Self::Pods { namespaces: None, .. } => OF_DNS.contains(&&**of_policy),
            Self::Pods { namespaces: Some(selector), .. } => {
                OF_DNS.iter().any(|name| selects(selector, &(*name).into(), None) != Lets::No)
            }
            Self::Block { .. } | Self::Unreadable => true,
        }
    }

    pub(super) fn asks_for_namespaces(&self) -> bool {
        let Self::Pods { namespaces: Some(selector), .. } = self else { return false };
        selector.keys().any(|key| key != NAME)
    }
}

/// Returns the answer to the question if a selector selects a namespace. The label with its name is
/// known in any case.
fn selects(selector: &LabelSelector, name: &Text, labels: Option<&StringMap>) -> Lets {
    let of_name = [(NAME, &**name)].into_iter().collect();
    let meets = |one: &LabelSelector| match labels {
        _ if one.keys().all(|key| key == NAME) => one.matches(&of_name).into(),
        Some(labels) => one.matches(labels).into(),
        None => Lets::NotKnown,
    };
    selector.requirements().map(|one| meets(&one)).min().unwrap_or(Lets::Yes)
}

/// A range of addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    first: IpAddr,
    /// The number of leading bits that all addresses share.
    length: u32,
}

impl Block {
    fn parse(cidr: &str) -> Option<Self> {
        let (first, length) = cidr.split_once('/')?;
        Some(Self { first: first.parse().ok()?, length: length.parse().ok()? })
    }

    fn contains(self, address: IpAddr) -> bool {
        let same = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(other)) => (first.to_bits() ^ other.to_bits()).leading_zeros(),
            (IpAddr::V6(first), IpAddr::V6(other)) => (first.to_bits() ^ other.to_bits()).leading_zeros(),
            _ => return false,
        };
        same >= self.length
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_a_peer_by_its_labels_its_namespace_and_its_addresses() {
        let shop: StringMap = [(NAME, "shop"), ("team", "shop")].into_iter().collect();
        let labels: StringMap = [("app", "front")].into_iter().collect();
        let (namespace, addresses) = ("shop".into(), ["10.1.2.3".parse().unwrap()]);
        let known = End {
            namespace: &namespace,
            of_namespace: Some(&shop),
            labels: &labels,
            addresses: &addresses,
            host_network: false,
        };
        let check = |of_policy: &str, peer: Value, want: [Lets; 3]| {
            let ends = [known, End { of_namespace: None, ..known }, End { host_network: true, ..known }];
            let got = ends.map(|end| Peer::read(&peer).is(&of_policy.into(), &end));
            assert_eq!(got, want, "{of_policy} {peer}");
        };
        let front = json!({"matchLabels": {"app": "front"}});
        let named = |name: &str| json!({"matchLabels": {(NAME): name}});
        let team = |name: &str| json!({"matchLabels": {"team": name}});
        let (yes, no, open) = (Lets::Yes, Lets::No, Lets::NotKnown);
        check("shop", json!({"podSelector": {}}), [yes, yes, open]);
        check("db", json!({"podSelector": {}}), [no, no, open]);
        check("db", json!({"namespaceSelector": {}}), [yes, yes, open]);
        check("db", json!({"namespaceSelector": named("shop"), "podSelector": front}), [yes, yes, open]);
        check("db", json!({"namespaceSelector": named("db"), "podSelector": front}), [no, no, open]);
        check("db", json!({"namespaceSelector": team("shop")}), [yes, open, open]);
        check("db", json!({"namespaceSelector": team("db")}), [no, open, open]);
        let other = json!({"matchLabels": {"app": "back"}});
        check("db", json!({"namespaceSelector": team("shop"), "podSelector": other}), [no, no, open]);
        check("db", json!({"ipBlock": {"cidr": "10.1.0.0/16"}}), [yes, yes, yes]);
        check("db", json!({"ipBlock": {"cidr": "10.2.0.0/16"}}), [no, no, no]);
        check("db", json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.2.0/24"]}}), [no, no, no]);
        check("db", json!({"ipBlock": {"cidr": "0.0.0.0/0"}}), [yes, yes, yes]);
        check("db", json!({"ipBlock": {"cidr": "::/0"}}), [no, no, no]);
    }
}

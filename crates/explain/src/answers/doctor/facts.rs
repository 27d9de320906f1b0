//! The facts about a cluster from which a report is made.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use serde_json::Value;

use super::loops::runs_beside;
use super::{Outputs, Review, Webhook};
use crate::answers::diff::{Change, Verb};
use crate::facts::json::each;
use crate::facts::lease::{ADDON_LEASE, Lease, MANAGER_LEASE, SLACK, SYSTEM, key_of};
use crate::facts::objects::Objects;
use crate::facts::output_kind::OutputKind;

/// Something that was read, or the reason why it was not.
pub type Read<T> = Result<T, Unread>;

/// The reason why something was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// A permission is missing, such as `list pods in kube-system`.
    Forbidden(String),
    /// Another reason, as a sentence without a full stop.
    Failed(String),
}

/// All facts.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The version of the API server.
    pub server: Read<String>,
    /// The version of the program that asks.
    pub plugin: String,
    pub slices: Read<Outputs>,
    pub endpoints: Read<Outputs>,
    /// The Leases of kube-system.
    pub leases: Read<Vec<Lease>>,
    /// The Leases of kube-endpoint-manager and of its add-on in all namespaces.
    pub leases_elsewhere: Read<Vec<Lease>>,
    /// The pods of kube-controller-manager.
    pub upstream: Read<Vec<Instance>>,
    /// The pods of kube-endpoint-manager.
    pub managers: Read<Vec<Instance>>,
    /// The answers about the user of kube-endpoint-manager; `None` if it is not known which that
    /// is.
    pub manager_reviews: Option<Read<Vec<Review>>>,
    /// The answers about the user who asks.
    pub own_reviews: Read<Vec<Review>>,
    /// The webhooks that see writes of Endpoints or EndpointSlices.
    pub webhooks: Read<Vec<Webhook>>,
    /// The number of events that report a fight over outputs.
    pub conflicts: Read<usize>,
    /// The pods of kube-proxy and of the DNS servers in kube-system.
    pub helpers: Read<Objects>,
    /// The writes that the controllers would make.
    pub changes: Read<Counts>,
}

impl Facts {
    /// Returns true if kube-endpoint-manager runs none of the loops of kube-controller-manager: it
    /// serves EndpointSelectors beside that.
    pub(super) fn are_beside(&self) -> bool {
        self.managers.as_ref().is_ok_and(runs_beside)
    }

    /// Returns true if the pods of a Lease, or else its name, show that its holder serves
    /// EndpointSelectors beside another controller, and runs none of the three loops.
    pub(super) fn is_beside(&self, lease: &Lease) -> bool {
        let pods = self.managers.iter().flatten();
        let of_lease: Vec<&Instance> = pods.filter(|pod| pod.lease() == lease.key).collect();
        lease.is_managers()
            && if of_lease.is_empty() { *lease.key.name == *ADDON_LEASE } else { runs_beside(of_lease) }
    }

    /// Returns the time until which an add-on has led, or leads at least.
    pub(super) fn addon_led_until(&self) -> Option<Timestamp> {
        let of_addon = self.leases().into_iter().filter(|lease| self.is_beside(lease));
        of_addon.filter_map(|lease| lease.ends()?.saturating_add(SLACK).ok()).max()
    }

    /// Returns the Leases of the two programs, each once.
    pub(super) fn leases(&self) -> Vec<&Lease> {
        let all = self.leases.iter().chain(&self.leases_elsewhere).flatten();
        let mut leases: Vec<&Lease> =
            all.filter(|lease| lease.is_upstreams() || lease.is_managers()).collect();
        leases.sort_by(|one, two| one.key.cmp(&two.key));
        leases.dedup_by(|one, two| one.key == two.key);
        leases
    }
}

/// A pod that runs kube-controller-manager or kube-endpoint-manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    pub key: ObjectKey,
    pub node: String,
    pub image: String,
    /// The command line of the first container; empty if the pod does not show it.
    pub arguments: Vec<String>,
    /// The time at which its first container started, if it runs.
    pub started: Option<Timestamp>,
    /// The user as which it sends requests; `None` if the pod does not tell.
    pub user: Option<String>,
}

impl Instance {
    /// Reads a pod.
    pub fn read(pod: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = key_of(&pod["metadata"]);
        let container = &pod["spec"]["containers"][0];
        let arguments = ["command", "args"].iter().flat_map(|list| each(&container[list]));
        let started = &pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"];
        let is_static = !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null();
        let account = pod["spec"]["serviceAccountName"].as_str().filter(|_| !is_static);
        Self {
            node: text(&pod["spec"]["nodeName"]),
            image: text(&container["image"]),
            arguments: arguments.map(text).collect(),
            started: started.as_str().and_then(|started| started.parse().ok()),
            user: account.map(|account| format!("system:serviceaccount:{}:{account}", key.namespace)),
            key,
        }
    }

    /// Returns the Lease for which kube-endpoint-manager campaigns in this pod. A part of a cluster
    /// has a Lease of another name, which the flags do not tell.
    pub fn lease(&self) -> ObjectKey {
        let value = |flag, default: &str| self.values(flag).last().unwrap_or(default).to_owned();
        ObjectKey::new(
            value("leader-elect-resource-namespace", SYSTEM),
            value("leader-elect-resource-name", MANAGER_LEASE),
        )
    }

    /// Returns the values of a flag, in order.
    pub(super) fn values<'a>(&'a self, flag: &'a str) -> impl Iterator<Item = &'a str> {
        let following = self.arguments.iter().skip(1).map(Some).chain([None]);
        self.arguments.iter().zip(following).filter_map(move |(argument, next)| {
            match argument.strip_prefix("--")?.strip_prefix(flag)? {
                "" => Some(next.map_or("", String::as_str)),
                value => value.strip_prefix('='),
            }
        })
    }
}

/// The number of writes that the controllers would make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of Services for which this was computed.
    pub services: usize,
    /// The number of all Services, if these are only some of them.
    pub of: Option<u64>,
    /// The writes by kind and verb.
    pub writes: BTreeMap<(OutputKind, Verb), usize>,
    /// Sentences about what could not be read.
    pub not_read: Vec<String>,
}

impl Counts {
    /// Adds writes.
    pub fn add(&mut self, changes: &[Change]) {
        for change in changes {
            let kind = match change.kind {
                "Endpoints" => OutputKind::Endpoints,
                _ => OutputKind::EndpointSlice,
            };
            *self.writes.entry((kind, change.verb)).or_default() += 1;
        }
    }
}

//! Tells since when a Service is in its state, and what changed last before that. It tells what the
//! objects show, and nothing where they show nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::well_known::ANNOTATION_TRIGGER_TIME;
use kube_endpoint_core_model::{ObjectKey, Pod, Service, Text, Timestamp};
use serde::Serialize;

use crate::answers::explanation::{Advice, Status};
use crate::facts::details::{PodDetails, RunState, write_time};
use crate::facts::edits::{Edit, Edited};
use crate::facts::objects::Objects;
use crate::facts::workload::Idle;
use crate::findings::finding::Problem;
use crate::findings::pod::PodExplanation;
use crate::findings::{Code, Fault};
use crate::models::leader::Leads;
use crate::models::near::NearMatches;
use crate::models::traffic::any_ready;

/// The labels by which pods name the revision of their workload.
const REVISIONS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// The last change before a Service got into its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LastChange {
    #[serde(serialize_with = "write_time")]
    pub at: Timestamp,
    /// The change, as a sentence without a full stop.
    pub what: String,
}

/// The state of a Service, and what was read about it.
pub(crate) struct Present<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) service: &'a Service,
    pub(crate) status: Status,
    /// The advice about the finding of the verdict.
    pub(crate) cause: Option<&'a Advice>,
    pub(crate) faults: &'a [Fault],
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) explained: &'a [PodExplanation],
    pub(crate) near: &'a NearMatches,
    pub(crate) leads: Option<&'a Leads>,
    pub(crate) now: Timestamp,
}

impl Present<'_> {
    /// Returns since when the state lasts, at least.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        let of_pods = self.cause.filter(|cause| cause.pods > 0);
        let of_fault = || self.cause.and_then(|cause| self.fault_since(cause.code));
        let since = match (self.status, of_pods) {
            (Status::Unknown, _) => None,
            (Status::Ok, _) => self.serving_since(),
            (Status::Degraded, Some(cause)) => self.first_hit(cause.code),
            (Status::Degraded, None) => of_fault(),
            (Status::Down | Status::Starting, Some(_)) => self.all_lost(),
            _ => of_fault().or_else(|| self.empty_since()),
        };
        since.filter(|since| *since <= self.now)
    }

    /// Returns the newest time at which a pod that clients are sent to became ready, or the leader
    /// changed.
    fn serving_since(&self) -> Option<Timestamp> {
        let serving = self.explained.iter().filter(|pod| pod.is_sent_traffic());
        let ready = serving.map(|pod| {
            let ready = self.view(pod)?.ready.filter(|ready| ready.is_true)?;
            ready.last_transition
        });
        let ready = ready.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(ready).max(self.leads.and_then(|leads| leads.since))
    }

    /// Returns the oldest time at which a pod got the reason of the verdict.
    fn first_hit(&self, code: Code) -> Option<Timestamp> {
        let hit = self.explained.iter().filter(|pod| pod.code() == code);
        hit.filter_map(|pod| self.lost(pod)).min()
    }

    /// Returns the time at which the last pod was lost, if that of each is known.
    fn all_lost(&self) -> Option<Timestamp> {
        let any_lasts = self.explained.iter().any(|pod| !pod.is_ending());
        let pods = self.explained.iter().filter(|pod| !any_lasts || !pod.is_ending());
        pods.map(|pod| self.lost(pod)).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn fault_since(&self, code: Code) -> Option<Timestamp> {
        let since = |fault: &Fault| match fault {
            Fault::ServiceTerminating(_) => self.service.deletion_timestamp,
            fault => fault.since(),
        };
        self.faults.iter().filter(|fault| fault.code() == code).filter_map(since).min()
    }

    /// Returns the time of the last write of the slices, or of the change that it showed, if there
    /// are some and none has a ready endpoint.
    fn empty_since(&self) -> Option<Timestamp> {
        let slices = self.objects.slices_of(&self.service.key);
        if any_ready(slices) {
            return None;
        }
        let changed = slices.iter().map(|slice| {
            let written = self.objects.slice_writes.get(&slice.key()).map(|write| write.time);
            written.or_else(|| slice.metadata.annotations.get(ANNOTATION_TRIGGER_TIME)?.parse().ok())
        });
        changed.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn key(&self, name: &Text) -> ObjectKey {
        ObjectKey { namespace: self.service.key.namespace.clone(), name: name.clone() }
    }

    fn view(&self, pod: &PodExplanation) -> Option<&Arc<Pod>> {
        self.objects.pod(&self.key(&pod.name))
    }

    fn details(&self, key: &ObjectKey) -> Option<&PodDetails> {
        self.objects.pod_details.get(key).map(|details| &**details)
    }

    /// Returns the time at which a pod got its reason.
    fn lost(&self, pod: &PodExplanation) -> Option<Timestamp> {
        let (reason, view) = (pod.reason.as_ref()?, self.view(pod)?);
        let changed = self.objects.pods_changed.get(&view.key).copied();
        if pod.is_deleted {
            // Without a grace period, the time is that of the creation.
            let created = self.details(&view.key).and_then(|details| details.created);
            return changed.filter(|changed| Some(*changed) != created);
        }
        if let Code::PortNameNotFound | Code::SomePortsNotFound | Code::PortProtocolDiffers = reason.code() {
            // The ports of a pod never change.
            let edit = self.edits().iter().find(|edit| edit.field == Edited::Ports)?;
            return changed.map(|created| created.max(edit.write.time));
        }
        let not_ready = view.ready.filter(|ready| !ready.is_true).and_then(|ready| ready.last_transition);
        reason.finding().since().or(not_ready).or_else(|| self.ended(&view.key))
    }

    /// Returns the time at which the last container of a pod ended.
    fn ended(&self, pod: &ObjectKey) -> Option<Timestamp> {
        let ends = self.details(pod)?.containers.iter().map(|container| match &container.state {
            RunState::Ended(end) => end.finished_at,
            _ => None,
        });
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn edits(&self) -> &[Edit] {
        self.objects.raw.edits(&self.service.key)
    }

    /// Returns the last change that is not after `since`, or `now`.
    pub(crate) fn last_change(&self, since: Option<Timestamp>) -> Option<LastChange> {
        let edits = self.edits().iter().filter(|edit| !edit.is_creation).map(of_edit);
        let of_workloads = self.scaled().chain(self.replica_sets()).chain(self.rollout());
        let all = edits.chain(self.nodes()).chain(of_workloads);
        let before = since.unwrap_or(self.now);
        // The first of those at one time.
        all.filter(|change| change.at <= before).min_by_key(|change| Reverse(change.at))
    }

    /// Returns the pods, or those that the selector nearly selects.
    fn pods_or_near(&self) -> Vec<&Pod> {
        let near = self.near.groups.iter().flat_map(|group| &group.pods);
        match self.pods {
            [] => near.filter_map(|name| self.objects.pod(&self.key(name))).map(|pod| &**pod).collect(),
            pods => pods.iter().map(|pod| &**pod).collect(),
        }
    }

    fn nodes(&self) -> impl Iterator<Item = LastChange> {
        self.pods.iter().filter_map(|pod| {
            let node = pod.node_name.as_ref()?;
            let at = self.objects.raw.nodes.get(node)?.not_ready_since?;
            Some(LastChange { at, what: format!("node {node} became not ready") })
        })
    }

    /// Returns the scaling of the workloads that should make the pods, to zero.
    fn scaled(&self) -> impl Iterator<Item = LastChange> {
        let selector = self.service.selector.as_ref().filter(|_| self.service.selects_pods());
        let workloads = selector.into_iter().flat_map(|selector| {
            let all = self.objects.workloads_of(&self.service.key.namespace);
            all.filter(|workload| selector.selects(&workload.labels))
        });
        workloads.filter_map(|workload| match &workload.idle {
            Some(Idle::NoReplicas { by: Some(by), at: Some(at) }) => Some(LastChange {
                at: at.parse().ok()?,
                what: format!("{by} scaled {} {} to zero", workload.kind, workload.key.name),
            }),
            _ => None,
        })
    }

    /// Returns the ReplicaSets of Deployments whose pods the Service selects.
    fn replica_sets(&self) -> impl Iterator<Item = LastChange> {
        let selector = self.service.selector.as_ref().filter(|_| self.service.selects_pods());
        let selected = selector.into_iter().flat_map(|selector| {
            let all = self.objects.rollouts_of(&self.service.key.namespace);
            all.filter(|(set, _)| selector.selects(&set.labels))
        });
        selected.map(|(set, rollout)| LastChange {
            at: rollout.at,
            what: format!(
                "Deployment {} created ReplicaSet {}{}",
                rollout.deployment,
                set.key.name,
                if rollout.revision.is_empty() {
                    String::new()
                } else {
                    format!(" (revision {})", rollout.revision)
                }
            ),
        })
    }

    /// Returns the creation of the oldest pod of the newest revision.
    fn rollout(&self) -> Option<LastChange> {
        let mut revisions: BTreeMap<(&Text, &Text, &Text), Timestamp> = BTreeMap::new();
        for pod in self.pods_or_near() {
            let hash = REVISIONS.iter().find_map(|label| pod.labels.get(label));
            let owner = self.objects.raw.serving(&pod.key).and_then(|serving| serving.owner.as_ref());
            let created = match pod.is_terminating() {
                true => self.details(&pod.key).and_then(|details| details.created),
                false => self.objects.pods_changed.get(&pod.key).copied(),
            };
            let (Some(hash), Some((kind, name)), Some(created)) = (hash, owner, created) else { continue };
            let oldest = revisions.entry((kind, name, hash)).or_insert(created);
            *oldest = (*oldest).min(created);
        }
        let ((kind, name, hash), at) = revisions.into_iter().max_by_key(|(_, at)| *at)?;
        // A Deployment names a ReplicaSet by its own name and the hash.
        let deployment = name.strip_suffix(hash.as_str()).and_then(|stem| stem.strip_suffix('-'));
        let owner = match deployment.filter(|_| **kind == *"ReplicaSet") {
            Some(stem) => format!("Deployment {stem}"),
            None => format!("{kind} {name}"),
        };
        Some(LastChange { at, what: format!("{owner} began revision {hash}") })
    }
}

fn of_edit(edit: &Edit) -> LastChange {
    let (by, path) = (&edit.write.by, edit.field.path());
    let what = match edit.is_alone {
        true => format!("{by} changed {path} of the Service"),
        false => format!("{by}, which sets {path}, changed the Service"),
    };
    LastChange { at: edit.write.time, what }
}

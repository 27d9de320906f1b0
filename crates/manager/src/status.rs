//! The state of a manager: the data of `/statusz`.

use std::fmt;

use kube_endpoint_api_client::{CertificateInUse, CertificateLifetime};
use kube_endpoint_core_model::harmless;
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_informer::Kind;
use serde::Serialize;

#[cfg(feature = "_controllers")]
use crate::controller_name::ControllerName;
use crate::manager::ManagerHandle;

/// The most keys in slow retry, and the most waiting keys, that the page lists for a controller. It
/// only tells that there are more.
#[cfg(feature = "_controllers")]
const LISTED_KEYS: usize = 100;

/// The page lists syncs that run for this time or longer. Without faults a sync takes milliseconds.
#[cfg(feature = "_controllers")]
const LONG_SYNC: std::time::Duration = std::time::Duration::from_secs(2);
/// The most characters that the text shows of a foreign text; the JSON has all of it.
const LONGEST_TEXT: usize = 1000;

/// The state of a manager. [`ManagerHandle::status`] locks its parts one after the other, so the
/// numbers may be of slightly different moments.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ManagerStatus {
    /// True if the informers have filled all caches once.
    pub synced: bool,
    /// The kinds that the informers have not listed yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<UnlistedKind>,
    /// The kinds that cannot be listed or watched in some namespaces, although they can in others.
    /// Nothing is written there from what has not been listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableNamespace>,
    /// True if this process runs the controllers. Without leader election it always does.
    pub leading: bool,
    /// True if this is a dry run, which writes nothing.
    pub dry_run: bool,
    /// The identity of the leader that a standby saw last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// True if the shutdown has begun.
    pub shutting_down: bool,
    /// The controllers that this process runs.
    pub controllers: Vec<ControllerStatus>,
    /// The certificates in use whose end is known.
    pub certificates: Vec<CertificateStatus>,
}

/// A certificate in use, or a bundle of CAs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CertificateStatus {
    /// Its purpose, as the label of its metric.
    pub name: &'static str,
    /// The file or the field of the kubeconfig that it is in.
    pub place: String,
    /// The time from which it is valid.
    pub start: String,
    /// Its end: of a chain the earliest end, of a bundle of CAs the latest.
    pub end: String,
}

/// A kind that its informer has not listed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnlistedKind {
    /// The plural, such as `pods`.
    pub kind: &'static str,
    /// The error of the last request for it, if the request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Display for UnlistedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, error } = self;
        match error {
            Some(error) => write!(f, "{kind} not listed: {error}"),
            None => write!(f, "{kind} not listed yet"),
        }
    }
}

/// A kind that cannot be listed or watched in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnreadableNamespace {
    pub namespace: String,
    /// The plural, such as `pods`.
    pub kind: &'static str,
    /// The error of the last request.
    pub error: String,
    /// Seconds since the first of these failures.
    pub seconds: u64,
    /// True if the kind has been listed before: the cache holds what it was then.
    pub listed: bool,
}

impl fmt::Display for UnreadableNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, kind, error, seconds, listed } = self;
        let error = harmless(error, LONGEST_TEXT);
        let what = if *listed { "no longer read" } else { "not read" };
        write!(f, "{kind} in namespace {namespace} {what} for {seconds} s: {error}")
    }
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The state of a controller.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerStatus {
    /// The name, as in `--controllers`.
    pub name: &'static str,
    /// The API that the controller waits for: the API server does not serve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<&'static str>,
    /// Keys that the queue holds or delays, and keys in a running sync.
    pub queued: usize,
    /// Keys whose last sync failed.
    pub failing: usize,
    /// Failing keys whose retries have all failed.
    pub retried_slowly: usize,
    /// Keys whose sync waits for the cache, or for the end of a pause that the API server asked
    /// for.
    pub deferred: usize,
    /// Keys for which a dry run plans writes.
    #[serde(skip_serializing_if = "is_zero")]
    pub planned: usize,
    /// Recent changes of outputs by other clients, which the clients may repeat.
    pub foreign_writes: usize,
    /// The outputs that other clients wrote last: 20 at most, the newest first.
    pub recent_foreign_writes: Vec<ForeignWriteStatus>,
    /// The controller that has written the same objects beside this one in the last hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_controller: Option<OtherControllerStatus>,
    /// The syncs that have been running for two seconds or longer, the longest first. There are no
    /// more than there are workers.
    pub long_syncs: Vec<LongSyncStatus>,
    /// The first keys whose retries have all failed, in order.
    pub slow_retries: Vec<SlowRetryStatus>,
    /// True if there are more keys in slow retry than this lists.
    pub more_slow_retries: bool,
    /// The first keys that wait for something other than a retry, in order.
    pub waiting: Vec<WaitingStatus>,
    /// True if there are more waiting keys than this lists.
    pub more_waiting: bool,
}

/// A key that waits before its next sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WaitingStatus {
    /// Namespace and name of the Service or the Endpoints object.
    pub key: String,
    /// The reason why it waits. If it has several, this is the one that lasts the longest.
    pub reason: &'static str,
    /// Seconds since the key began to wait for this reason.
    pub seconds: u64,
    /// Seconds until the next sync starts at the latest.
    pub seconds_left: u64,
}

/// An output that other clients wrote.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ForeignWriteStatus {
    /// `Endpoints` or `EndpointSlice`.
    pub kind: &'static str,
    /// Namespace and name of the object.
    pub object: String,
    /// The time at which the cache showed the last of the writes.
    pub at: String,
    /// The number of writes by other clients since the object has been in this list.
    pub count: u64,
    /// The last writer of its content: the field manager that the API server names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
}

/// Another controller that writes the same objects.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OtherControllerStatus {
    /// The field manager of its writes.
    pub name: String,
    /// Namespace and name of the object in which it was seen last.
    pub object: String,
    /// The time of that write, by the clock of the API server.
    pub at: String,
}

/// A sync that takes long: the API server, or a webhook that it calls, has not answered a request,
/// or the client's rate limit delays it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LongSyncStatus {
    /// Namespace and name of the Service or the Endpoints object.
    pub key: String,
    /// Seconds since it began.
    pub seconds: u64,
}

/// A key whose retries have all failed. The controller retries it every few minutes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SlowRetryStatus {
    /// Namespace and name of the Service or the Endpoints object.
    pub key: String,
    /// The error of its last sync.
    pub error: String,
    /// Seconds since the slow retries began.
    pub seconds: u64,
}

impl ManagerHandle {
    /// Returns the current state of the manager.
    pub fn status(&self) -> ManagerStatus {
        let leading = *self.leading().borrow();
        ManagerStatus {
            synced: self.has_synced(),
            unlisted: self.unlisted(),
            unreadable: self.unreadable(),
            leading,
            dry_run: self.is_dry_run(),
            leader: self.leader().filter(|_| !leading),
            shutting_down: self.is_shutting_down(),
            controllers: self.controller_statuses(),
            certificates: self.certificates().in_use().iter().filter_map(certificate).collect(),
        }
    }

    /// Returns the kinds that the informers have not listed yet.
    pub(crate) fn unlisted(&self) -> Vec<UnlistedKind> {
        let unlisted = self.cluster().unsynced();
        unlisted
            .iter()
            .map(|kind| UnlistedKind {
                kind: kind.name(),
                error: self.cluster().status(kind).failure.map(|failure| failure.message),
            })
            .collect()
    }

    /// Returns the kinds that cannot be read in some namespaces, sorted by namespace.
    pub(crate) fn unreadable(&self) -> Vec<UnreadableNamespace> {
        let cluster = self.cluster();
        let of_kind = |kind: Kind| {
            let failures = cluster.unreadable(kind).into_iter();
            let cluster = &cluster;
            failures.map(move |(namespace, failure)| UnreadableNamespace {
                listed: cluster.has_listed(kind, &namespace),
                namespace: namespace.to_string(),
                kind: kind.name(),
                error: failure.message,
                seconds: failure.since.elapsed().as_secs(),
            })
        };
        let mut unreadable: Vec<_> = Kind::ALL.into_iter().flat_map(of_kind).collect();
        unreadable.sort_by(|one, other| one.namespace.cmp(&other.namespace));
        unreadable
    }

    #[cfg_attr(
        not(feature = "_controllers"),
        expect(unused_mut, reason = "unchanged in a build without controllers")
    )]
    fn controller_statuses(&self) -> Vec<ControllerStatus> {
        let (mut statuses, serves_slices) = (Vec::new(), self.serves_slices());
        #[cfg(feature = "endpoints")]
        if let Some(controller) = &self.controllers().endpoints {
            statuses.push(of(ControllerName::Endpoints, controller, serves_slices));
        }
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = &self.controllers().endpoint_slice {
            statuses.push(of(ControllerName::EndpointSlice, controller, serves_slices));
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = &self.controllers().mirroring {
            statuses.push(of(ControllerName::EndpointSliceMirroring, controller, serves_slices));
        }
        #[cfg(feature = "selectors")]
        if let Some(controller) = &self.controllers().endpoint_selector {
            statuses.push(of(ControllerName::EndpointSelector, controller, serves_slices));
        }
        let _ = serves_slices;
        statuses
    }
}

#[cfg(feature = "_controllers")]
fn of<R: kube_endpoint_controller_runtime::Reconciler>(
    name: ControllerName,
    controller: &kube_endpoint_controller_runtime::Controller<R>,
    serves_slices: bool,
) -> ControllerStatus {
    let now = tokio::time::Instant::now();
    let counts = controller.state_counts();
    let failing = controller.failing_counts();
    let mut slow = controller.slow_retries(&kube_endpoint_core_model::ObjectKey::default(), LISTED_KEYS + 1);
    let more_slow_retries = slow.len() > LISTED_KEYS;
    slow.truncate(LISTED_KEYS);
    let mut held = controller.held_keys();
    let more_waiting = held.len() > LISTED_KEYS;
    held.truncate(LISTED_KEYS);
    let waiting = held.into_iter().map(|held| WaitingStatus {
        key: held.key.to_string(),
        reason: held.why.as_str(),
        seconds: now.saturating_duration_since(held.since).as_secs(),
        seconds_left: held.until.saturating_duration_since(now).as_secs(),
    });
    let recent = controller.recent_foreign_writes().into_iter().map(|write| ForeignWriteStatus {
        kind: name.output_kind(),
        object: write.object.to_string(),
        at: kube_endpoint_core_model::time::rfc3339(write.at),
        count: write.count,
        writer: write.writer.map(|writer| writer.to_string()),
    });
    let other = controller.other_controller().map(|other| OtherControllerStatus {
        name: other.name.to_string(),
        object: other.object.to_string(),
        at: kube_endpoint_core_model::time::rfc3339(other.at),
    });
    let long_syncs = controller
        .long_syncs(LONG_SYNC)
        .into_iter()
        .map(|(key, age)| LongSyncStatus { key: key.to_string(), seconds: age.as_secs() });
    let slow_retries = slow.into_iter().map(|slow| SlowRetryStatus {
        key: slow.key.to_string(),
        error: slow.error,
        seconds: now.saturating_duration_since(slow.since).as_secs(),
    });
    ControllerStatus {
        name: name.as_str(),
        waits_for: crate::discovery::waits_for(name, serves_slices),
        queued: controller.pending(),
        failing: failing.failing,
        retried_slowly: failing.retried_slowly,
        deferred: counts.deferred,
        planned: controller.planned_by_dry_run(),
        foreign_writes: counts.foreign_changes,
        recent_foreign_writes: recent.collect(),
        other_controller: other,
        long_syncs: long_syncs.collect(),
        slow_retries: slow_retries.collect(),
        more_slow_retries,
        waiting: waiting.collect(),
        more_waiting,
    }
}

fn certificate(used: &CertificateInUse) -> Option<CertificateStatus> {
    let CertificateLifetime { start, end } = *used.lifetime.as_ref().ok()?;
    let [start, end] = [start, end].map(rfc3339);
    Some(CertificateStatus { name: used.usage.label(), place: used.place.to_string(), start, end })
}

impl ManagerStatus {
    /// Returns true if this is a dry run that has synced everything and plans no write.
    pub(crate) fn plans_nothing(&self) -> bool {
        let is_idle = |it: &ControllerStatus| it.queued + it.failing + it.deferred + it.planned == 0;
        self.dry_run && self.synced && self.controllers.iter().all(is_idle)
    }
}

impl fmt::Display for ManagerStatus {
    /// Writes lines for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes = |yes: bool| if yes { "yes" } else { "no" };
        writeln!(f, "Caches synced: {}", yes(self.synced))?;
        for unlisted in &self.unlisted {
            writeln!(f, "  {unlisted}")?;
        }
        for unreadable in &self.unreadable {
            writeln!(f, "  {unreadable}")?;
        }
        writeln!(f, "Leading: {}", yes(self.leading))?;
        if self.dry_run {
            let nothing = if self.plans_nothing() { ", and nothing would change" } else { "" };
            writeln!(f, "Dry run: yes, nothing is written{nothing}")?;
        }
        if let Some(leader) = &self.leader {
            writeln!(f, "Leader: {}", harmless(leader, LONGEST_TEXT))?;
        }
        if self.shutting_down {
            writeln!(f, "Shutting down: yes")?;
        }
        for controller in &self.controllers {
            let ControllerStatus { name, queued, failing, retried_slowly, deferred, foreign_writes, .. } =
                controller;
            writeln!(
                f,
                "{name}: {queued} queued, {failing} failing ({retried_slowly} in slow retry), {deferred} waiting, \
                 {foreign_writes} foreign writes"
            )?;
            if let Some(api) = &controller.waits_for {
                writeln!(f, "  waits: the API server does not serve {api}")?;
            }
            if let Some(OtherControllerStatus { name, object, at }) = &controller.other_controller {
                let name = harmless(name, LONGEST_TEXT);
                writeln!(
                    f,
                    "  {name} writes the same objects, such as {object} at {at}: turn its loops off, or stop this program"
                )?;
            }
            for ForeignWriteStatus { kind, object, at, count, writer } in &controller.recent_foreign_writes {
                let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
                write!(
                    f,
                    "  {kind} {object} was written by another client or changed by a webhook, {times}, the last time at {at}"
                )?;
                match writer {
                    Some(writer) => writeln!(f, "; its last writer is {}", harmless(writer, LONGEST_TEXT))?,
                    None => writeln!(f)?,
                }
            }
            for LongSyncStatus { key, seconds } in &controller.long_syncs {
                writeln!(
                    f,
                    "  the sync of {key} has been running for {seconds} s and waits for the API server"
                )?;
            }
            for WaitingStatus { key, reason, seconds, seconds_left } in &controller.waiting {
                writeln!(f, "  {key} waits {seconds_left} s longer (for {seconds} s): {reason}")?;
            }
            for SlowRetryStatus { key, error, seconds } in &controller.slow_retries {
                writeln!(f, "  {key} ({seconds} s): {}", harmless(error, LONGEST_TEXT))?;
            }
        }
        for CertificateStatus { name, place, end, .. } in &self.certificates {
            writeln!(f, "Certificate {name} ends at {end}; it is in {place}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_readable_by_people_and_programs() {
        let status = ManagerStatus {
            synced: false,
            unlisted: vec![
                UnlistedKind { kind: "pods", error: None },
                UnlistedKind {
                    kind: "services",
                    error: Some("the API server answered 404: not here".to_owned()),
                },
            ],
            unreadable: vec![UnreadableNamespace {
                namespace: "team-b".to_owned(),
                kind: "services",
                error: "the API server answered 403: services is forbidden".to_owned(),
                seconds: 40,
                listed: false,
            }],
            leading: false,
            dry_run: true,
            leader: Some("node-1_4a".to_owned()),
            shutting_down: true,
            controllers: vec![ControllerStatus {
                name: "endpoints-controller",
                waits_for: Some("discovery.k8s.io/v1"),
                queued: 7,
                failing: 204,
                retried_slowly: 102,
                deferred: 1,
                planned: 2,
                foreign_writes: 3,
                recent_foreign_writes: vec![
                    ForeignWriteStatus {
                        kind: "Endpoints",
                        object: "shop/web".to_owned(),
                        at: "2026-01-01T00:00:09Z".to_owned(),
                        count: 2,
                        writer: Some("kube-controller-manager".to_owned()),
                    },
                    ForeignWriteStatus {
                        kind: "Endpoints",
                        object: "shop/db".to_owned(),
                        at: "2026-01-01T00:00:05Z".to_owned(),
                        count: 1,
                        writer: None,
                    },
                ],
                other_controller: Some(OtherControllerStatus {
                    name: "kube-controller-manager".to_owned(),
                    object: "shop/web".to_owned(),
                    at: "2026-01-01T00:00:09Z".to_owned(),
                }),
                long_syncs: vec![LongSyncStatus { key: "shop/db".to_owned(), seconds: 24 }],
                slow_retries: vec![SlowRetryStatus {
                    key: "shop/web".to_owned(),
                    error: "admission webhook denied the request".to_owned(),
                    seconds: 312,
                }],
                more_slow_retries: true,
                waiting: vec![WaitingStatus {
                    key: "shop/cart".to_owned(),
                    reason: kube_endpoint_controller_runtime::Hold::RetryAfter.as_str(),
                    seconds: 12,
                    seconds_left: 18,
                }],
                more_waiting: false,
            }],
            certificates: vec![CertificateStatus {
                name: "serving",
                place: "the memory of this process".to_owned(),
                start: "2025-12-31T00:00:00Z".to_owned(),
                end: "2027-01-01T00:00:00Z".to_owned(),
            }],
        };
        insta::assert_snapshot!(format!("{status}\n{}", serde_json::to_string_pretty(&status).unwrap()));
    }
}

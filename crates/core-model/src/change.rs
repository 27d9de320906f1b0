//! Changes of a pod that can change endpoints.

use std::sync::Arc;

use crate::{Pod, Text};

/// A pod of a list that has changed since somebody read the list: it joined, left, or has another
/// view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedPod {
    pub name: Text,
    /// Earlier views whose uid or addresses differ from those of the next view, and the last view
    /// of a pod that left.
    pub replaced: Vec<Arc<Pod>>,
    /// The current view, or `None` if it is no longer in the list.
    pub now: Option<Arc<Pod>>,
}

/// The effects that a change of a pod can have (upstream `podEndpointsChanged`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodChange {
    /// The content of its endpoints: every Service that selects the pod must be synced.
    pub endpoint: bool,
    /// The Services that select it or publish its hostname: those before and after the change must
    /// be synced.
    pub membership: bool,
    /// Conditions whose type has a prefix, or restarts of the containers of a ready pod: only
    /// Services whose EndpointSelector chooses pods by a condition or a Lease must be synced.
    pub choice: bool,
    /// Clients may lose an endpoint that they have: the pod is gone or ends, is not ready any more,
    /// has other addresses, or other Services select it.
    pub removes: bool,
}

impl PodChange {
    /// Compares a pod before and after a change; a pod that was added or deleted differs in all
    /// parts.
    pub fn of(old: Option<&Pod>, new: Option<&Pod>) -> Self {
        if let (Some(old), Some(new)) = (old, new) {
            return Self::between(old, new);
        }
        let removes = old.is_some_and(may_be_published);
        Self { endpoint: true, membership: true, choice: true, removes }
    }

    /// Compares two views of one pod.
    pub fn between(old: &Pod, new: &Pod) -> Self {
        let choice = old.conditions() != new.conditions() || new.is_ready() && old.started() != new.started();
        let membership =
            old.labels != new.labels || old.hostname != new.hostname || old.subdomain != new.subdomain;
        let leaves = old.is_ready() && !new.is_ready()
            || old.deletion_timestamp.is_none() && new.deletion_timestamp.is_some()
            || old.pod_ips != new.pod_ips
            || old.uid != new.uid
            || old.node_name != new.node_name
            || new.is_terminal();
        Self {
            choice,
            membership,
            removes: may_be_published(old) && (choice || membership || leaves),
            endpoint: old.deletion_timestamp.is_some() != new.deletion_timestamp.is_some()
                || old.is_ready() != new.is_ready()
                || old.pod_ips != new.pod_ips
                || old.has_pod_ip != new.has_pod_ip
                // Upstream does not compare phase, node, uid and ports. But a pod can reach a
                // terminal phase without becoming unready first, a pod that is replaced under the
                // same name between two lists has a new uid, and a sidecar can add ports. A
                // needless sync costs little; a missed sync leaves a dead endpoint.
                || ((has_address(old) || has_address(new))
                    && (old.is_terminal() != new.is_terminal()
                        || old.node_name != new.node_name
                        || old.ports != new.ports
                        || old.uid != new.uid)),
        }
    }

    /// Returns true if the change can affect no endpoint.
    pub fn is_none(self) -> bool {
        !(self.endpoint || self.membership || self.choice)
    }
}

/// Returns true if a pod has an address. Without one there is no endpoint: a scheduler binds such a
/// pod, an init container restarts, or a kubelet rejects it.
fn has_address(pod: &Pod) -> bool {
    pod.has_pod_ip || !pod.pod_ips.is_empty()
}

/// Returns true if a Service that selects a pod may have it as an endpoint.
fn may_be_published(pod: &Pod) -> bool {
    has_address(pod) && !pod.is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{PodPhase, RareFields, ReadyCondition};

    #[test]
    fn only_what_endpoints_depend_on_counts() {
        let bound = Pod { uid: "u".into(), phase: PodPhase::Running, ..Pod::default() };
        let address = Box::new([[10, 0, 0, 9].into()]);
        let old = Pod { has_pod_ip: true, pod_ips: address, ..bound.clone() };
        let check = |old: &Pod, change: fn(&mut Pod), endpoint: bool, membership: bool| {
            let mut new = old.clone();
            change(&mut new);
            let found = PodChange::between(old, &new);
            assert_eq!((found.endpoint, found.membership, found.choice), (endpoint, membership, false));
        };
        check(&old, |_| {}, false, false);
        check(&old, |pod| pod.resource_version.0 = 9, false, false);
        check(&old, |pod| pod.labels = [("a", "b")].into_iter().collect(), false, true);
        check(&old, |pod| pod.hostname = Some("h".into()), false, true);
        check(&old, |pod| pod.subdomain = Some("h".into()), false, true);
        check(&old, |pod| pod.deletion_timestamp = Some(crate::Timestamp::UNIX_EPOCH), true, false);
        check(
            &old,
            |pod| pod.ready = Some(ReadyCondition { is_true: true, last_transition: None }),
            true,
            false,
        );
        check(
            &old,
            |pod| pod.ready = Some(ReadyCondition { is_true: false, last_transition: None }),
            false,
            false,
        );
        check(&old, |pod| pod.pod_ips = Box::new([[10, 0, 0, 1].into()]), true, false);
        check(&old, |pod| pod.phase = PodPhase::Failed, true, false);
        check(&old, |pod| pod.phase = PodPhase::Pending, false, false);
        check(&old, |pod| pod.node_name = Some("n".into()), true, false);
        check(&old, |pod| pod.uid = "v".into(), true, false);
        check(&old, |pod| (pod.has_pod_ip, pod.pod_ips) = (false, Box::default()), true, false);

        check(&bound, |pod| pod.node_name = Some("n".into()), false, false);
        check(&bound, |pod| pod.phase = PodPhase::Failed, false, false);
        check(&bound, |pod| pod.uid = "v".into(), false, false);
        check(&bound, |pod| pod.deletion_timestamp = Some(crate::Timestamp::UNIX_EPOCH), true, false);
        check(&bound, |pod| pod.labels = [("a", "b")].into_iter().collect(), false, true);
        check(&bound, |pod| pod.pod_ips = Box::new([[10, 0, 0, 1].into()]), true, false);
        check(&bound, |pod| pod.has_pod_ip = true, true, false);
    }

    #[test]
    fn a_change_that_clients_may_feel_removes() {
        let ready = |is_true| Some(ReadyCondition { is_true, last_transition: None });
        let address = Box::new([[10, 0, 0, 9].into()]);
        let unready = Pod { phase: PodPhase::Running, has_pod_ip: true, pod_ips: address, ..Pod::default() };
        let old = Pod { ready: ready(true), ..unready.clone() };
        let removes = |old: &Pod, change: fn(&mut Pod)| {
            let mut new = old.clone();
            change(&mut new);
            PodChange::of(Some(old), Some(&new)).removes
        };
        assert!(removes(&old, |pod| pod.ready = None));
        assert!(removes(&old, |pod| pod.deletion_timestamp = Some(crate::Timestamp::UNIX_EPOCH)));
        assert!(removes(&old, |pod| pod.phase = PodPhase::Succeeded));
        assert!(removes(&old, |pod| pod.pod_ips = Box::new([[10, 0, 0, 1].into()])));
        assert!(removes(&old, |pod| pod.uid = "v".into()));
        assert!(removes(&old, |pod| pod.node_name = Some("n".into())));
        assert!(removes(&old, |pod| pod.labels = [("a", "b")].into_iter().collect()));
        // Services with publishNotReadyAddresses publish it.
        assert!(removes(&unready, |pod| pod.phase = PodPhase::Failed));
        assert!(PodChange::of(Some(&old), None).removes);

        assert!(!removes(&old, |pod| pod.resource_version.0 = 9));
        assert!(!removes(&unready, |pod| pod.ready =
            Some(ReadyCondition { is_true: true, last_transition: None })));
        assert!(!PodChange::of(None, Some(&old)).removes);
        let bound = Pod { has_pod_ip: false, pod_ips: Box::default(), ..unready.clone() };
        assert!(!removes(&bound, |pod| pod.pod_ips = Box::new([[10, 0, 0, 1].into()])));
        assert!(!PodChange::of(Some(&bound), None).removes);
        let ended = Pod { phase: PodPhase::Failed, ..unready };
        assert!(!PodChange::of(Some(&ended), None).removes);
        assert!(!removes(&ended, |pod| pod.deletion_timestamp = Some(crate::Timestamp::UNIX_EPOCH)));
    }

    #[test]
    fn a_condition_with_a_prefix_is_a_change_of_the_choice() {
        let pod = |status: &str, time: &str| -> Pod {
            let condition = serde_json::json!({"type": "shop.example/leader", "status": status, "lastTransitionTime": time});
            let status = serde_json::json!({"podIPs": [{"ip": "x"}], "conditions": [condition]});
            serde_json::from_value(serde_json::json!({"metadata": {"name": "p"}, "status": status})).unwrap()
        };
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
        let of_choice = PodChange { endpoint: false, membership: false, choice: true, removes: true };
        assert_eq!(PodChange::between(&pod("True", early), &pod("False", early)), of_choice);
        // The latest one may be picked.
        assert_eq!(PodChange::between(&pod("True", early), &pod("True", late)), of_choice);
        assert!(PodChange::between(&pod("True", early), &pod("True", early)).is_none());
        assert!(!of_choice.is_none());
    }

    #[test]
    fn a_restart_of_a_ready_pod_is_a_change_of_the_choice() {
        let pod = |started: i64, is_true| Pod {
            phase: PodPhase::Running,
            pod_ips: Box::new([[10, 0, 0, 9].into()]),
            ready: Some(ReadyCondition { is_true, last_transition: None }),
            rare: RareFields {
                started: crate::Timestamp::from_second(started).ok(),
                ..RareFields::default()
            }
            .boxed(),
            ..Pod::default()
        };
        let change = PodChange::between(&pod(0, true), &pod(1, true));
        assert_eq!(change, PodChange { endpoint: false, membership: false, choice: true, removes: true });
        assert!(PodChange::between(&pod(1, true), &pod(1, true)).is_none());
        assert!(PodChange::between(&pod(1, false), &pod(2, false)).is_none(), "it crashes again and again");
    }

    /// A view does not contain the statuses of init containers, so only the version differs.
    #[test]
    fn an_init_container_that_restarts_changes_no_endpoint() {
        let pod = |version: &str, restarts: u32, status: serde_json::Value| -> Pod {
            let mut object = serde_json::json!({
                "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": version},
                "status": status
            });
            object["status"]["initContainerStatuses"] =
                serde_json::json!([{"name": "init", "restartCount": restarts, "ready": restarts == 0}]);
            serde_json::from_value(object).unwrap()
        };
        let unready = serde_json::json!({"type": "Ready", "status": "False"});
        for status in [
            serde_json::json!({"phase": "Pending"}),
            serde_json::json!({"phase": "Pending", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [unready]}),
        ] {
            let (before, after) = (pod("1", 0, status.clone()), pod("2", 1, status));
            assert_ne!(before, after);
            assert!(PodChange::between(&before, &after).is_none());
        }
    }
}

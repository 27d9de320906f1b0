//! The readiness of an EndpointSelector: which of the pods that it selects are ready endpoints.
//!
//! | base | chosen | being deleted | ready | serving | terminating |
//! |---|---|---|---|---|---|
//! | yes | yes | no | **true** | true | false |
//! | yes | yes | yes | false | true | true |
//! | no | yes | no / yes | false | false | false / true |
//! | any | no | no / yes | false | false | absent / true |
//!
//! Base is the pod's condition `Ready`. A pod is chosen if its named condition is `True`, and with
//! [`Pick::Newest`] if it is also picked; or if it leads by the Lease, or, with [`Role::Follower`],
//! if it does not. With `publishNotReadyAddresses` every endpoint is ready, and serving is as in
//! the table.
//!
//! Serving follows the choice too. Otherwise kube-proxy, which falls back to serving endpoints that
//! terminate when none is ready, would send traffic to a former leader.
//!
//! Clients take an absent `terminating` for false. It tells [`conditions_without_selector`] that
//! the pod was not chosen: a pod that is only not ready becomes ready again, and this one does not.

mod nobody_leads;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use serde::Deserialize;

pub use self::nobody_leads::NobodyLeads;
use crate::slice::EndpointConditions;
use crate::{EndpointSlice, ObjectReference, Pod, Text, text};

/// `spec.readiness` of an EndpointSelector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The pods whose condition of this type is `True`.
    Condition { kind: Text, pick: Pick },
    /// The pod that the holder of a Lease in the selector's namespace names, or all others.
    Lease { name: Text, role: Role },
}

/// Which pods are ready endpoints, of the one that leads by a Lease and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The one that leads.
    #[default]
    Leader,
    /// All others, and all while nobody leads.
    Follower,
}

impl Role {
    /// Returns the pods that may be ready while this pod leads, or nobody.
    pub fn beside(self, leader: Option<Text>) -> ReadyPods {
        match self {
            Self::Leader => ReadyPods::Leader(leader),
            Self::Follower => ReadyPods::Followers(leader),
        }
    }
}

/// How many of the pods with a true condition are ready endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// All of them.
    #[default]
    All,
    /// The one whose condition changed last.
    Newest,
}

/// The pods of a Service that may be ready endpoints: an input of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadyPods {
    /// Those that a condition chooses.
    Condition { kind: Text, pick: Pick },
    /// The pod with this name, which leads; or none.
    Leader(Option<Text>),
    /// All but the pod with this name, which leads; or all.
    Followers(Option<Text>),
    /// The pods with these names, which are sorted and which were [chosen](chosen_pods_in) before:
    /// nobody knows yet who leads.
    Kept(Box<[Text]>),
}

/// The pods that [`ReadyPods`] chooses among those of one Service.
#[derive(Clone, Copy, Debug)]
pub enum Chosen<'a> {
    /// Each pod with a true condition of this type.
    WithCondition(&'a str),
    /// The pods with these names, which are sorted.
    Named(&'a [Text]),
    /// All but the pod with this name, if there is one.
    AllBut(Option<&'a str>),
}

impl ReadyPods {
    /// Returns true if at most one pod is ready.
    pub fn is_exclusive(&self) -> bool {
        matches!(self, Self::Condition { pick: Pick::Newest, .. } | Self::Leader(_))
    }

    /// Returns the type of the condition on which the readiness of pods depends, if any.
    pub fn condition(&self) -> Option<&str> {
        match self {
            Self::Condition { kind, .. } => Some(kind),
            Self::Leader(_) | Self::Followers(_) | Self::Kept(_) => None,
        }
    }

    /// Returns the pods that may be ready, among those that are published. `slices` are those that
    /// the controller maintains for the Service.
    ///
    /// [`Pick::Newest`] picks among the ready pods with a true condition. Those that are not being
    /// deleted come first, then those whose condition changed last, then the one that the slices
    /// show serving, then the one with the lowest name.
    pub fn among<'a>(&'a self, pods: &[&'a Pod], slices: &[Arc<EndpointSlice>]) -> Chosen<'a> {
        match self {
            Self::Condition { kind, pick: Pick::All } => Chosen::WithCondition(kind),
            Self::Leader(pod) => Chosen::Named(pod.as_slice()),
            Self::Followers(leader) => Chosen::AllBut(leader.as_deref()),
            Self::Kept(pods) => Chosen::Named(pods),
            Self::Condition { kind, pick: Pick::Newest } => {
                let candidates = pods.iter().filter(|pod| pod.is_ready());
                let candidates = candidates.filter_map(|pod| {
                    let condition = pod.condition(kind).filter(|condition| condition.is_true)?;
                    Some((*pod, condition.last_transition))
                });
                let newest = candidates.min_by_key(|(pod, since)| {
                    let name = &pod.key.name;
                    (pod.is_terminating(), Reverse(*since), !is_serving_in(slices, pod), name)
                });
                Chosen::Named(newest.map(|(pod, _)| slice::from_ref(&pod.key.name)).unwrap_or_default())
            }
        }
    }
}

impl Chosen<'_> {
    /// Returns true if a pod is chosen.
    pub fn has(&self, pod: &Pod) -> bool {
        match self {
            Self::WithCondition(kind) => pod.condition(kind).is_some_and(|condition| condition.is_true),
            Self::Named(names) => names.binary_search(&pod.key.name).is_ok(),
            Self::AllBut(leader) => *leader != Some(&*pod.key.name),
        }
    }
}

/// Returns the conditions of a pod's endpoint. `chosen` is `None` if every pod may be ready, as for
/// any Service.
pub fn endpoint_conditions(
    pod: &Pod,
    chosen: Option<&Chosen<'_>>,
    publish_not_ready: bool,
) -> EndpointConditions {
    let is_chosen = chosen.is_none_or(|chosen| chosen.has(pod));
    conditions(pod, is_chosen, publish_not_ready)
}

/// Returns the conditions of a pod's endpoint while nobody knows which pods are chosen: its
/// selector does not exist or is invalid. A pod that was not chosen when the endpoint was written
/// stays so.
pub fn conditions_without_selector(
    pod: &Pod,
    written: EndpointConditions,
    publish_not_ready: bool,
) -> EndpointConditions {
    conditions(pod, was_chosen(written), publish_not_ready)
}

/// Returns true if a pod was chosen when these conditions of its endpoint were written.
fn was_chosen(written: EndpointConditions) -> bool {
    match written.terminating {
        None => false,
        // A pod that is being deleted does not come back.
        Some(true) => written.serving != Some(false),
        Some(false) => true,
    }
}

fn conditions(pod: &Pod, is_chosen: bool, publish_not_ready: bool) -> EndpointConditions {
    let serving = pod.is_ready() && is_chosen;
    let terminating = pod.is_terminating();
    EndpointConditions {
        ready: Some(publish_not_ready || (serving && !terminating)),
        serving: Some(serving),
        terminating: (is_chosen || terminating).then_some(terminating),
    }
}

/// Returns the pods that were chosen when their endpoints were written, sorted by name: the leader,
/// or all pods of a Service that has not followed one.
///
/// If only the slices of one family show a pod as chosen, although those of the other list it,
/// somebody was interrupted between two writes, and nobody knows if the pod came or left.
pub fn chosen_pods_in(slices: &[Arc<EndpointSlice>]) -> Vec<&ObjectReference> {
    let mut pods = BTreeMap::new();
    for endpoint in slices.iter().flat_map(|slice| &slice.endpoints) {
        let Some(target) = &endpoint.target_ref else { continue };
        let (_, is_chosen) = pods.entry((&target.name, &target.uid)).or_insert((target, true));
        *is_chosen &= was_chosen(endpoint.conditions);
    }
    pods.into_values().filter_map(|(target, is_chosen)| is_chosen.then_some(target)).collect()
}

/// Returns the pod that was not chosen when its endpoint was written, if it is the only one: where
/// the followers of a leader are chosen, it is the leader. A pod that is being deleted may be it if
/// no other pod is.
pub fn left_out_in(slices: &[Arc<EndpointSlice>]) -> Option<&ObjectReference> {
    let of = |terminating: Option<bool>| {
        let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
        let left_out = endpoints.filter(move |it| {
            it.conditions.serving == Some(false) && it.conditions.terminating == terminating
        });
        let pods = left_out.filter_map(|endpoint| endpoint.target_ref.as_ref());
        pods.map(|pod| ((&pod.name, &pod.uid), pod)).collect::<BTreeMap<_, _>>()
    };
    let pods = of(None);
    only(if pods.is_empty() { of(Some(true)) } else { pods }.into_values())
}

/// Returns the only item.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    match (items.next(), items.next()) {
        (only, None) => only,
        _ => None,
    }
}

/// Returns true if the slices show a pod as the one that is picked. With `publishNotReadyAddresses`
/// they show all pods ready.
fn is_serving_in(slices: &[Arc<EndpointSlice>], pod: &Pod) -> bool {
    slices.iter().flat_map(|slice| &slice.endpoints).any(|endpoint| {
        endpoint.conditions.serving == Some(true)
            && endpoint
                .target_ref
                .as_ref()
                .is_some_and(|target| target.uid == pod.uid && target.name == pod.key.name)
    })
}

/// The reason why `spec.readiness` cannot be used. The schema of the API lets no such object in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReadiness {
    /// It has both, or neither.
    #[error("give it exactly one of lease and condition")]
    NotOne,
    /// The type of the condition has no prefix.
    #[error("condition is no type with a prefix, such as shop.example/leader")]
    Condition,
    /// The Lease has no name.
    #[error("lease has no name")]
    LeaseName,
    /// The value of `role` is unknown.
    #[error("lease.role is neither Leader nor Follower")]
    Role,
    /// The value of `pick` is unknown.
    #[error("pick is neither All nor Newest")]
    Pick,
    /// A Lease names one holder.
    #[error("pick goes with a condition, not with a lease")]
    PickWithLease,
}

/// The field as an object has it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawReadiness {
    condition: Option<Text>,
    pick: Option<Text>,
    lease: Option<RawLease>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawLease {
    #[serde(deserialize_with = "text::or_empty")]
    name: Text,
    role: Option<Text>,
}

impl TryFrom<RawReadiness> for Readiness {
    type Error = InvalidReadiness;

    fn try_from(RawReadiness { condition, pick, lease }: RawReadiness) -> Result<Self, InvalidReadiness> {
        match (condition, lease) {
            (Some(kind), None) => {
                let pick = match pick.as_deref() {
                    None | Some("All") => Pick::All,
                    Some("Newest") => Pick::Newest,
                    Some(_) => return Err(InvalidReadiness::Pick),
                };
                if !kind.contains('/') {
                    return Err(InvalidReadiness::Condition);
                }
                Ok(Self::Condition { kind, pick })
            }
            (None, Some(_)) if pick.is_some() => Err(InvalidReadiness::PickWithLease),
            (None, Some(RawLease { name, .. })) if name.is_empty() => Err(InvalidReadiness::LeaseName),
            (None, Some(RawLease { name, role })) => match role.as_deref() {
                None | Some("Leader") => Ok(Self::Lease { name, role: Role::Leader }),
                Some("Follower") => Ok(Self::Lease { name, role: Role::Follower }),
                Some(_) => Err(InvalidReadiness::Role),
            },
            _ => Err(InvalidReadiness::NotOne),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::{PrefixedCondition, RareFields, ReadyCondition};
    use crate::{AddressType, Endpoint, ObjectKey, Timestamp};

    const LEADER: &str = "shop.example/leader";

    fn pod(name: &str, ready: bool, condition: Option<(bool, Option<i64>)>, deleted: bool) -> Pod {
        let conditions = condition.map(|(is_true, second)| PrefixedCondition {
            kind: LEADER.into(),
            is_true,
            last_transition: second.map(|second| Timestamp::from_second(second).unwrap()),
        });
        Pod {
            key: ObjectKey::new("shop", name),
            uid: name.into(),
            deletion_timestamp: deleted.then_some(Timestamp::UNIX_EPOCH),
            ready: Some(ReadyCondition { is_true: ready, last_transition: None }),
            rare: RareFields { conditions: conditions.into_iter().collect(), ..RareFields::default() }
                .boxed(),
            ..Pod::default()
        }
    }

    fn slice(ready: &[&str]) -> Arc<EndpointSlice> {
        let endpoint = |name: &&str| Endpoint {
            conditions: EndpointConditions {
                ready: Some(true),
                serving: Some(true),
                terminating: Some(false),
            },
            target_ref: Some(ObjectReference {
                name: (*name).into(),
                uid: (*name).into(),
                ..Default::default()
            }),
            ..Endpoint::default()
        };
        Arc::new(EndpointSlice { endpoints: ready.iter().map(endpoint).collect(), ..Default::default() })
    }

    /// The table of the module, row by row, for each way to choose a pod.
    #[test]
    fn an_endpoint_is_ready_if_its_pod_is_ready_chosen_and_stays() {
        let of = |kind: &str| ReadyPods::Condition { kind: kind.into(), pick: Pick::All };
        let by_condition = of(LEADER);
        let [leader, of_another] = ["a", "b"].map(|name| ReadyPods::Leader(Some(name.into())));
        let [followers, of_it] = ["b", "a"].map(|name| ReadyPods::Followers(Some(name.into())));
        for publish in [false, true] {
            for ready in [false, true] {
                for deleted in [false, true] {
                    for chosen in [false, true] {
                        let pod = pod("a", ready, Some((chosen, None)), deleted);
                        let by_lease = if chosen { &leader } else { &of_another };
                        let follows = if chosen { &followers } else { &of_it };
                        let serving = ready && chosen;
                        let want = EndpointConditions {
                            ready: Some(publish || serving && !deleted),
                            serving: Some(serving),
                            terminating: (chosen || deleted).then_some(deleted),
                        };
                        for pods in [&by_condition, by_lease, follows] {
                            let chosen = pods.among(&[&pod], &[]);
                            assert_eq!(
                                endpoint_conditions(&pod, Some(&chosen), publish),
                                want,
                                "{pods:?} {pod:?}"
                            );
                        }
                    }
                    let plain = endpoint_conditions(&pod("a", ready, None, deleted), None, publish);
                    assert_eq!(plain.ready, Some(publish || ready && !deleted));
                    assert_eq!(plain.serving, Some(ready));
                }
            }
        }
    }

    #[test]
    fn with_nobody_who_leads_each_pod_follows_and_none_leads() {
        let a = pod("a", true, None, false);
        let has = |role: Role| role.beside(None).among(&[&a], &[]).has(&a);
        assert_eq!((has(Role::Leader), has(Role::Follower)), (false, true));
        assert!(Role::Leader.beside(None).is_exclusive() && !Role::Follower.beside(None).is_exclusive());
    }

    #[test]
    fn the_only_pod_that_slices_leave_out_leads_the_others() {
        let out = |names: &[&str]| {
            let mut slice = (*slice(names)).clone();
            for endpoint in &mut slice.endpoints {
                endpoint.conditions = EndpointConditions { serving: Some(false), ..Default::default() };
            }
            Arc::new(slice)
        };
        let check = |slices: &[Arc<EndpointSlice>], want: Option<&str>| {
            assert_eq!(left_out_in(slices).map(|pod| &*pod.name), want, "{slices:?}");
        };
        check(&[], None);
        check(&[slice(&["b"])], None);
        check(&[out(&["a"]), slice(&["b"])], Some("a"));
        check(&[out(&["a"]), out(&["a"])], Some("a"));
        check(&[out(&["a", "b"])], None);
        // It follows, and is not ready.
        let mut unready = (*out(&["b"])).clone();
        unready.endpoints[0].conditions.terminating = Some(false);
        check(&[out(&["a"]), Arc::new(unready.clone())], Some("a"));
        check(&[Arc::new(unready.clone())], None);
        // It is being deleted, and may have led.
        unready.endpoints[0].conditions.terminating = Some(true);
        check(&[Arc::new(unready.clone())], Some("b"));
        check(&[out(&["a"]), Arc::new(unready)], Some("a"));
    }

    #[test]
    fn an_absent_condition_is_not_true() {
        let of = |kind: &str| ReadyPods::Condition { kind: kind.into(), pick: Pick::All };
        let ready = pod("a", true, Some((true, None)), false);
        assert!(!of("shop.example/other").among(&[], &[]).has(&ready));
        assert!(!of(LEADER).among(&[], &[]).has(&pod("a", true, None, false)));
    }

    #[test]
    fn the_newest_is_picked() {
        let newest = ReadyPods::Condition { kind: LEADER.into(), pick: Pick::Newest };
        let check = |pods: &[Pod], slices: &[&str], want: Option<&str>| {
            let pods: Vec<&Pod> = pods.iter().collect();
            let slices = [slice(slices)];
            let chosen = newest.among(&pods, &slices);
            let names = pods.iter().filter(|pod| chosen.has(pod)).map(|pod| &*pod.key.name);
            assert_eq!(names.collect::<Vec<_>>(), want.into_iter().collect::<Vec<_>>(), "{pods:?}");
        };
        let leads = |name: &str, at: i64| pod(name, true, Some((true, Some(at))), false);
        let without_time = |name: &str| pod(name, true, Some((true, None)), false);
        check(&[], &[], None);
        check(&[leads("a", 1), leads("b", 2), leads("c", 1)], &["a"], Some("b"));
        check(&[leads("a", 1), pod("b", true, Some((false, Some(2))), false)], &[], Some("a"));
        // One that is not ready is not picked.
        check(&[leads("a", 1), pod("b", false, Some((true, Some(2))), false)], &[], Some("a"));
        // One that is being deleted is picked last.
        check(&[leads("a", 1), pod("b", true, Some((true, Some(2))), true)], &[], Some("a"));
        check(&[pod("b", true, Some((true, Some(2))), true)], &[], Some("b"));
        // Equal and absent times: what is published stays.
        check(&[leads("a", 1), leads("b", 1)], &["b"], Some("b"));
        check(&[leads("a", 1), leads("b", 1)], &[], Some("a"));
        check(&[without_time("a"), without_time("b")], &["b"], Some("b"));
        check(&[without_time("a"), leads("b", 1)], &["a"], Some("b"));
    }

    #[test]
    fn slices_show_which_pods_were_chosen() {
        let of_v6 = |names: &[&str]| {
            Arc::new(EndpointSlice { address_type: AddressType::IPv6, ..(*slice(names)).clone() })
        };
        let with = |names: &[&str], serving, terminating| {
            let mut slice = (*slice(names)).clone();
            for endpoint in &mut slice.endpoints {
                endpoint.conditions =
                    EndpointConditions { ready: Some(false), serving: Some(serving), terminating };
            }
            Arc::new(slice)
        };
        let check = |slices: &[Arc<EndpointSlice>], want: &[&str]| {
            let found: Vec<&str> = chosen_pods_in(slices).iter().map(|pod| &*pod.name).collect();
            assert_eq!(found, want, "{slices:?}");
        };
        check(&[], &[]);
        check(&[slice(&["a"]), slice(&["a"])], &["a"]);
        check(&[slice(&["b", "a"]), slice(&["c"]), of_v6(&["a", "b"])], &["a", "b", "c"]);
        // The pod has no IPv6 address.
        check(&[slice(&["a"]), of_v6(&[])], &["a"]);
        // Somebody was interrupted between the two families.
        let mut left = (*of_v6(&["a"])).clone();
        left.endpoints[0].conditions = EndpointConditions { serving: Some(false), ..Default::default() };
        check(&[slice(&["a", "b"]), Arc::new(left)], &["b"]);
        // All were not ready for a moment.
        check(&[with(&["a", "b"], false, Some(false))], &["a", "b"]);
        // The leader is not ready, and the others were not chosen.
        check(&[with(&["a"], false, None), with(&["b"], false, Some(false))], &["b"]);
        // It is being deleted, and serves, or does not come back.
        check(&[with(&["a"], true, Some(true))], &["a"]);
        check(&[with(&["a"], false, Some(true))], &[]);
    }

    #[test]
    fn pods_can_be_kept() {
        let kept = ReadyPods::Kept(["a", "b", "c"].map(Text::from).into());
        let pod = |name: &str| pod(name, true, None, false);
        let (a, c, d) = (pod("a"), pod("c"), pod("d"));
        let chosen = kept.among(&[&a, &c, &d], &[]);
        assert_eq!([&a, &c, &d].map(|pod| chosen.has(pod)), [true, true, false]);
        assert!(!kept.is_exclusive());
    }
}

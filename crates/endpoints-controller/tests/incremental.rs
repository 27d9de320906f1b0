//! A plan from the changed pods equals the plan from all pods, at every step of random histories.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{apply, headless, pod, service, terminating, unready, with_ports};
use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::endpoints::AddressList;
use kube_endpoint_core_model::pod::PodPhase;
use kube_endpoint_core_model::well_known::ANNOTATION_OVER_CAPACITY;
use kube_endpoint_core_model::{
    Endpoints, IpFamily, LeftOut, Pod, PodVerdict, ResourceVersion, Service, Text, Timestamp, Verdict,
};
use kube_endpoint_endpoints_controller::plan::{
    Plan, PlanInputs, PlanOptions, PlanState, plan, plan_and_keep,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{TestCaseResult, TestRunner};

/// Edits of the object by another client.
#[derive(Clone, Copy, Debug)]
enum Edit {
    Version,
    Annotation,
    Label,
    Address,
    TargetVersion,
    Delete,
}

/// One sync, and the changes before it.
#[derive(Clone, Debug)]
struct Step {
    /// Pods, by number, with their new state, or `None` if the pod is deleted. One number may come
    /// twice.
    pods: Vec<(usize, Option<Pod>)>,
    edit: Option<Edit>,
    service: Option<Service>,
    trigger_time: bool,
    fails: bool,
}

#[derive(Clone, Debug)]
struct History {
    service: Service,
    pods: Vec<Option<Pod>>,
    options: PlanOptions,
    /// True if the store holds a summary of the object.
    summarized: bool,
    steps: Vec<Step>,
}

fn a_pod() -> impl Strategy<Value = Option<Pod>> {
    let odd = prop::sample::select(vec!["gone", "node", "done", "uid", "host", "ports", "none"]);
    let odd = prop::option::weighted(0.15, odd);
    (1..12u8, any::<bool>(), 0..8u8, odd).prop_map(|(address, ready, state, odd)| {
        let addresses = [format!("10.0.0.{address}"), format!("fd00::{address:x}:ffff:ffff:ffff:ffff")];
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let mut pod =
            with_ports(pod("p", if state == 0 { &addresses[..1] } else { &addresses }), &[("web", 8080)]);
        pod = if ready { pod } else { unready(pod) };
        pod = if state == 1 { terminating(pod) } else { pod };
        match odd {
            Some("gone") => return None,
            Some("node") => pod.node_name = None,
            Some("done") => pod.phase = PodPhase::Failed,
            Some("uid") => pod.uid = "".into(),
            Some("host") => (pod.hostname, pod.subdomain) = (Some("h".into()), Some("web".into())),
            Some("ports") => pod = with_ports(pod, &[("web", 8081)]),
            Some("none") => (pod.pod_ip, pod.pod_ips, pod.has_pod_ip) = (None, Box::new([]), false),
            _ => {}
        }
        Some(pod)
    })
}

fn a_service() -> impl Strategy<Value = Service> {
    let ports = prop::sample::select(vec![vec![("http", "web")], vec![("http", "web"), ("fixed", "9000")]]);
    let families = prop::sample::select(vec![
        vec![IpFamily::IPv4],
        vec![IpFamily::IPv4],
        vec![IpFamily::IPv6, IpFamily::IPv4],
        vec![],
    ]);
    (ports, families, 0..8u8, 0..4u8).prop_map(|(ports, families, publish, ip)| {
        let service = service(&ports);
        let service = if ip == 0 { headless(service) } else { service };
        Service { ip_families: families, publish_not_ready_addresses: publish == 0, ..service }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let edits =
        vec![Edit::Version, Edit::Annotation, Edit::Label, Edit::Address, Edit::TargetVersion, Edit::Delete];
    let edit = prop::option::weighted(0.06, prop::sample::select(edits));
    let service = prop::option::weighted(0.03, a_service());
    let fails = prop::bool::weighted(0.05);
    (vec((0..16usize, a_pod()), 0..4), edit, service, any::<bool>(), fails).prop_map(
        |(pods, edit, service, trigger_time, fails)| Step { pods, edit, service, trigger_time, fails },
    )
}

fn history() -> impl Strategy<Value = History> {
    (a_service(), vec(a_pod(), 16), 1..20usize, 0..16u8, any::<bool>(), vec(step(), 1..12)).prop_map(
        |(service, pods, capacity, options, summarized, steps)| {
            let of = if options == 0 { PlanOptions::upstream() } else { PlanOptions::default() };
            History { service, pods, options: of.with_capacity(capacity), summarized, steps }
        },
    )
}

fn named(number: usize, mut pod: Pod) -> Pod {
    pod.key.name = format!("p{number}").into();
    if !pod.uid.is_empty() {
        // A pod that another one replaces under its name has another uid.
        pod.uid = format!("uid-{number}-{}", pod.phase == PodPhase::Failed).into();
    }
    pod
}

fn edited(endpoints: Option<Arc<Endpoints>>, edit: Edit) -> Option<Arc<Endpoints>> {
    let mut endpoints = Endpoints::clone(&*endpoints?);
    endpoints.metadata.resource_version.0 += 1;
    let first = endpoints.subsets.listed_mut().and_then(|subsets| subsets.first_mut()?.addresses.get_mut(0));
    match (edit, first) {
        (Edit::Annotation, _) => {
            endpoints.metadata.annotations =
                endpoints.metadata.annotations.with(ANNOTATION_OVER_CAPACITY, "x");
        }
        (Edit::Label, _) => endpoints.metadata.labels = endpoints.metadata.labels.with("a", "b"),
        (Edit::Address, Some(first)) => first.ip = "10.9.9.9".into(),
        (Edit::TargetVersion, Some(first)) => {
            first.target_ref.iter_mut().for_each(|target| target.resource_version = "7".into());
        }
        (Edit::Delete, _) => return None,
        _ => {}
    }
    Some(Arc::new(endpoints))
}

/// The numbers of plans from all pods and from the changed ones.
#[derive(Debug, Default)]
struct Planned {
    all: usize,
    changed: usize,
    /// Verdicts of the latter on changed pods that are beyond the capacity.
    beyond: usize,
    /// Verdicts on other pods that were moved beyond the capacity.
    moved_beyond: usize,
    /// Verdicts on other pods that were moved back.
    moved_back: usize,
}

fn play(history: &History, planned: &mut Planned) -> TestCaseResult {
    let mut pods: BTreeMap<Text, Arc<Pod>> = BTreeMap::new();
    for (number, pod) in history.pods.iter().enumerate() {
        pods.extend(
            pod.clone().map(|pod| named(number, pod)).map(|pod| (pod.key.name.clone(), Arc::new(pod))),
        );
    }
    let mut service = history.service.clone();
    let mut existing: Option<Arc<Endpoints>> = None;
    let mut state: Option<PlanState> = None;
    let mut verdicts: Vec<PodVerdict> = Vec::new();
    for step in &history.steps {
        let mut changed: BTreeMap<Text, ChangedPod> = BTreeMap::new();
        for (number, new) in &step.pods {
            let name: Text = format!("p{number}").into();
            let now = new.clone().map(|pod| Arc::new(named(*number, pod)));
            let before = match &now {
                Some(now) => pods.insert(name.clone(), Arc::clone(now)),
                None => pods.remove(&name),
            };
            let entry = changed.entry(name.clone()).or_default();
            let same = |before: &Arc<Pod>| {
                now.as_ref().is_some_and(|now| {
                    (&now.uid, &now.pod_ips, now.pod_ip) == (&before.uid, &before.pod_ips, before.pod_ip)
                })
            };
            entry.replaced.extend(before.filter(|before| !same(before)));
            (entry.name, entry.now) = (name, now);
        }
        let changed: Vec<ChangedPod> = changed.into_values().collect();
        service = step.service.clone().unwrap_or(service);
        if let Some(edit) = step.edit {
            existing = edited(existing, edit);
        }

        let stored = existing.as_deref().cloned();
        if history.summarized {
            existing = stored.map(|mut endpoints| {
                endpoints.summarize();
                Arc::new(endpoints)
            });
        }
        let all: Vec<Arc<Pod>> = pods.values().cloned().collect();
        let inputs = PlanInputs::new(&service, &all)
            .with_trigger_time(step.trigger_time.then_some(Timestamp::UNIX_EPOCH))
            .with_options(&history.options);
        let (want, after_all) = plan_and_keep(&inputs, existing.as_ref());
        prop_assert_eq!(&want, &plan(&inputs.with_existing(existing.as_deref())));
        let from_changed = state.take().and_then(|state| {
            state.plan(&inputs.with_pods(&[]), existing.as_ref(), &changed, |name| pods.get(name).cloned())
        });
        state = match from_changed {
            Some((got, after)) => {
                // Those on other pods follow from those of the last plan.
                let mut of_changes = want.clone();
                of_changes.verdicts.retain(|one| {
                    changed.iter().any(|changed| changed.name == one.pod.name) || !verdicts.contains(one)
                });
                for one in &of_changes.verdicts {
                    let is_beyond = one.verdict == Verdict::LeftOut(LeftOut::OverCapacity);
                    let count = match (is_beyond, changed.iter().any(|changed| changed.name == one.pod.name))
                    {
                        (true, true) => &mut planned.beyond,
                        (true, false) => &mut planned.moved_beyond,
                        (false, false) => &mut planned.moved_back,
                        (false, true) => continue,
                    };
                    *count += 1;
                }
                prop_assert_eq!(&got, &of_changes, "want\n{}", want);
                planned.changed += 1;
                Some(after)
            }
            None => {
                planned.all += 1;
                after_all
            }
        };
        verdicts.clone_from(&want.verdicts);
        if step.fails {
            state = None;
        } else if !want.is_empty() {
            existing = apply(existing.as_deref().cloned(), &want).map(Arc::new);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_plan_from_the_changed_pods_is_the_plan_from_all_pods(history in history()) {
        play(&history, &mut Planned::default())?;
    }
}

/// The histories above would prove nothing if all of them were planned from all pods.
#[test]
fn many_plans_of_a_history_are_made_from_the_changed_pods() {
    let mut planned = Planned::default();
    let mut runner = TestRunner::deterministic();
    for _ in 0..150 {
        let history = history().new_tree(&mut runner).unwrap().current();
        play(&history, &mut planned).unwrap();
    }
    assert!(planned.changed * 4 > planned.all, "{planned:?}");
    assert!(planned.beyond.min(planned.moved_beyond).min(planned.moved_back) > 5, "{planned:?}");
}

/// Returns five pods `p0` to `p4` with the addresses 10.0.0.10 to 14, where only `p3` is not ready;
/// their Endpoints after two syncs, and the state.
fn settled(capacity: usize) -> (Service, PlanOptions, Vec<Arc<Pod>>, Arc<Endpoints>, PlanState) {
    let service = service(&[("http", "8080")]);
    let options = PlanOptions::default().with_capacity(capacity);
    let pods: Vec<Arc<Pod>> = (0..5).map(|number| Arc::new(at(number, number, number != 3))).collect();
    let inputs = PlanInputs::new(&service, &pods).with_options(&options);
    let (first, state) = plan_and_keep(&inputs, None);
    assert!(state.is_none(), "the object was created");
    let existing = Arc::new(apply(None, &first).unwrap());
    let (second, state) = plan_and_keep(&inputs, Some(&existing));
    assert!(second.is_empty());
    (service.clone(), options.clone(), pods, existing, state.unwrap())
}

fn at(number: u8, address: u8, ready: bool) -> Pod {
    let pod = pod(&format!("p{number}"), &[&format!("10.0.0.1{address}")]);
    if ready { pod } else { unready(pod) }
}

/// Returns the plan when these pods change, or `None` if it needs all pods. `later` are other pods
/// as the cache has them.
fn planned(capacity: usize, changes: &[(u8, Option<Pod>)], later: &[Pod]) -> Option<Plan> {
    let (service, options, pods, existing, state) = settled(capacity);
    let changed: Vec<ChangedPod> = changes
        .iter()
        .map(|(number, now)| {
            let before = pods.get(usize::from(*number)).cloned();
            let replaced =
                before.filter(|before| now.as_ref().is_none_or(|now| now.pod_ips != before.pod_ips));
            ChangedPod {
                name: format!("p{number}").into(),
                replaced: replaced.into_iter().collect(),
                now: now.clone().map(Arc::new),
            }
        })
        .collect();
    let inputs = PlanInputs::new(&service, &[]).with_options(&options);
    let later: Vec<Arc<Pod>> = later.iter().cloned().map(Arc::new).collect();
    let find = |name: &Text| later.iter().chain(&pods).find(|pod| pod.key.name == *name).cloned();
    state.plan(&inputs, Some(&existing), &changed, find).map(|(plan, _)| plan)
}

/// Returns the addresses that the controller writes when these pods change, or `None` if it writes
/// nothing.
fn written(capacity: usize, changes: &[(u8, Option<Pod>)]) -> Option<String> {
    let plan = planned(capacity, changes, &[]).unwrap();
    let written = plan.writes.update.first()?;
    let ends = |list: &AddressList| -> String {
        list.iter().map(|one| one.ip.trim_start_matches("10.0.0.1")).collect()
    };
    let Some([subset]) = written.subsets.listed() else { panic!("{plan}") };
    Some(format!("{} {}", ends(&subset.addresses), ends(&subset.not_ready_addresses)))
}

#[test]
fn one_change_is_merged_into_the_object() {
    let check = |capacity: usize, changes: &[(u8, Option<Pod>)], want: Option<&str>| {
        assert_eq!(written(capacity, changes).as_deref(), want, "{capacity} {changes:?}");
    };
    check(9, &[], None);
    check(9, &[(1, Some(at(1, 1, true)))], None);
    check(9, &[(1, Some(at(1, 1, false)))], Some("024 13"));
    check(9, &[(3, Some(at(3, 3, true)))], Some("01234 "));
    check(9, &[(1, None)], Some("024 3"));
    check(9, &[(1, Some(at(1, 9, true)))], Some("0249 3"));
    check(9, &[(7, Some(at(7, 7, true)))], Some("01247 3"));
    // The pod is beyond the capacity.
    check(3, &[(1, Some(at(1, 1, false)))], Some("024 "));
    check(3, &[(4, None)], None);
    check(3, &[(1, None), (4, None)], Some("02 3"));
    check(5, &[(7, Some(at(7, 7, false)))], Some("0124 3"));
    check(4, &[(3, Some(at(3, 3, true)))], Some("0123 "));
}

#[test]
fn verdicts_are_on_changed_pods_and_on_those_that_were_moved() {
    let check = |capacity: usize, changes: &[(u8, Option<Pod>)], want: &str| {
        let plan = planned(capacity, changes, &[]).unwrap();
        let verdicts = plan.verdicts.iter().map(|one| match &one.verdict {
            Verdict::Published { ready, .. } => format!("{} {ready}", one.pod.name),
            Verdict::LeftOut(reason) => format!("{} {reason:?}", one.pod.name),
        });
        assert_eq!(verdicts.collect::<Vec<_>>().join(", "), want, "{capacity} {changes:?}");
    };
    check(9, &[], "");
    check(9, &[(1, Some(at(1, 1, false)))], "p1 false");
    check(9, &[(1, None)], "");
    check(9, &[(1, Some(terminating(at(1, 1, true))))], "p1 Terminating");
    // Four are ready, and three of them fit.
    check(3, &[(1, Some(at(1, 1, false)))], "p1 OverCapacity, p4 true");
    check(3, &[(4, Some(at(4, 4, true)))], "p4 OverCapacity");
    check(3, &[(1, None), (4, None)], "p3 false");
    check(4, &[(3, Some(at(3, 3, true)))], "p3 true, p4 OverCapacity");
    check(5, &[(7, Some(at(7, 7, false)))], "p7 OverCapacity");
    check(5, &[(7, Some(at(7, 7, true)))], "p3 OverCapacity, p7 true");
    check(4, &[(0, None), (7, Some(at(7, 0, true)))], "p7 true");
}

/// The next sync plans with the changed pods.
#[test]
fn a_pod_that_is_moved_back_must_be_as_it_was() {
    let check = |later: &[Pod], want: Option<&str>| {
        let plan = planned(3, &[(1, None)], later);
        let names: Option<Vec<String>> =
            plan.map(|plan| plan.verdicts.iter().map(|one| one.pod.name.to_string()).collect());
        assert_eq!(names.map(|names| names.join(" ")).as_deref(), want, "{later:?}");
    };
    check(&[], Some("p4"));
    check(&[at(4, 4, true)], Some("p4"));
    check(&[at(4, 4, false)], None);
    check(&[at(4, 9, true)], None);
    check(&[terminating(at(4, 4, true))], None);
    check(&[with_ports(at(4, 4, true), &[("other", 8080)])], Some("p4"));
}

#[test]
fn a_state_counts_only_for_what_it_was_made_from() {
    let check = |edit: fn(&mut Service, &mut PlanOptions, &mut Endpoints), kept: bool| {
        let (mut service, mut options, _, existing, state) = settled(9);
        let mut existing = Endpoints::clone(&existing);
        edit(&mut service, &mut options, &mut existing);
        let inputs = PlanInputs::new(&service, &[]).with_options(&options);
        assert_eq!(state.plan(&inputs, Some(&Arc::new(existing)), &[], |_| None).is_some(), kept);
    };
    check(|_, _, _| (), true);
    check(|service, _, _| service.resource_version.0 += 1, true);
    check(|service, _, _| service.labels = [("a", "b")].into_iter().collect(), false);
    check(|_, options, _| options.capacity = 8, false);
    check(|_, _, object| object.metadata.resource_version = ResourceVersion(99), true);
    check(|_, _, object| object.metadata.annotations = [("a", "b")].into_iter().collect(), true);
    check(|_, _, object| object.metadata.labels = [("a", "b")].into_iter().collect(), false);
    check(|_, _, object| object.subsets = Vec::new().into(), false);
    check(|_, _, object| drop(object.subsets[0].addresses.pop()), false);
    check(|_, _, object| object.subsets[0].addresses[0].node_name = None, false);
    check(|_, _, object| object.subsets[0].ports[0].port = 1, false);
}

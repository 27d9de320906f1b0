//! Compares the index of pods, Services and EndpointSelectors with a model that scans all objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::change::PodChange;
use kube_endpoint_core_model::endpoint_selector::InvalidSelector;
use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use kube_endpoint_core_model::{EndpointSelector, ObjectKey, Pod, ResourceVersion, Service, StringMap};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::{Change, Cluster, Handler, Kind, PodEvent, StreamEvent};

#[derive(Clone, Debug)]
enum Step {
    Pod(Pod),
    DeletePod(ObjectKey),
    Service(Service),
    DeleteService(ObjectKey),
    /// A complete list: new pods, the stored pods whose flag is set, and keys that cannot be
    /// decoded.
    Pods(Vec<Pod>, Vec<bool>, Vec<ObjectKey>),
    Services(Vec<Service>, Vec<bool>, Vec<ObjectKey>),
    Selector(EndpointSelector),
    DeleteSelector(ObjectKey),
    Selectors(Vec<EndpointSelector>, Vec<bool>, Vec<ObjectKey>),
}

fn key() -> impl Strategy<Value = ObjectKey> {
    (0..2u8, 0..8u8).prop_map(|(space, name)| ObjectKey::new(format!("n{space}"), format!("o{name}")))
}

fn labels() -> impl Strategy<Value = StringMap> {
    prop::collection::btree_map(0..3u8, 0..3u8, 0..4).prop_map(|pairs| {
        pairs.into_iter().map(|(key, value)| (format!("k{key}"), format!("v{value}"))).collect()
    })
}

fn pod() -> impl Strategy<Value = Pod> {
    let fields = (key(), labels(), prop::option::of(0..3u8), any::<bool>(), 0..3u8, 0..3u8);
    fields.prop_map(|(key, labels, node, has_pod_ip, hostname, phase)| Pod {
        key,
        labels,
        node_name: node.map(|node| format!("node{node}").into()),
        has_pod_ip,
        hostname: (hostname == 0).then(|| "h".into()),
        // A change of the phase notifies handlers, but endpoints do not depend on it.
        phase: if phase == 0 { kube_endpoint_core_model::pod::PodPhase::Pending } else { Default::default() },
        ..Pod::default()
    })
}

fn service() -> impl Strategy<Value = Service> {
    let fields = (key(), prop::option::weighted(0.6, labels()), 0..6u8, 0..6u8);
    fields.prop_map(|(key, selector, what, named)| Service {
        key,
        selector,
        annotations: (named < 4)
            .then(|| (ANNOTATION_ENDPOINT_SELECTOR, format!("o{named}")))
            .into_iter()
            .collect(),
        service_type: if what == 0 { ServiceType::ExternalName } else { ServiceType::WithEndpoints },
        cluster_ip: if what == 1 { "None".into() } else { "".into() },
        ..Service::default()
    })
}

/// Returns a selector with up to two requirements; without any it is invalid.
fn selector() -> impl Strategy<Value = EndpointSelector> {
    let requirement = (0..3u8, 0..6u8).prop_map(|(key, form)| match form {
        0 => format!("k{key}"),
        1 => format!("!k{key}"),
        2 => format!("k{key} notin (v0,v1)"),
        3 => format!("k{key} in (v0,v2)"),
        _ => format!("k{key}=v{form}", form = form - 4),
    });
    (key(), prop::collection::vec(requirement, 0..3)).prop_map(|(key, requirements)| EndpointSelector {
        key,
        selector: match requirements.as_slice() {
            [] => Err(InvalidSelector::Empty),
            requirements => Ok(requirements.join(",").parse().unwrap()),
        },
        ..EndpointSelector::default()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let keep = || prop::collection::vec(any::<bool>(), 16);
    let undecodable_keys = || prop::collection::vec(key(), 0..4);
    prop_oneof![
        8 => pod().prop_map(Step::Pod),
        4 => key().prop_map(Step::DeletePod),
        4 => service().prop_map(Step::Service),
        2 => key().prop_map(Step::DeleteService),
        1 => (prop::collection::vec(pod(), 0..6), keep(), undecodable_keys()).prop_map(|(pods, keep, undecodable_keys)| Step::Pods(pods, keep, undecodable_keys)),
        1 => (prop::collection::vec(service(), 0..4), keep(), undecodable_keys())
            .prop_map(|(services, keep, undecodable_keys)| Step::Services(services, keep, undecodable_keys)),
        4 => selector().prop_map(Step::Selector),
        2 => key().prop_map(Step::DeleteSelector),
        1 => (prop::collection::vec(selector(), 0..4), keep(), undecodable_keys())
            .prop_map(|(selectors, keep, undecodable_keys)| Step::Selectors(selectors, keep, undecodable_keys)),
    ]
}

#[derive(Default)]
struct RecordingHandler {
    pods: Mutex<Vec<PodEvent>>,
    services: Mutex<Vec<Change<Service>>>,
    selectors: Mutex<Vec<(Change<EndpointSelector>, Vec<ObjectKey>)>>,
}

impl Handler for RecordingHandler {
    fn on_pod(&self, event: &PodEvent) {
        self.pods.lock().push(event.clone());
    }

    fn on_service(&self, change: &Change<Service>) {
        self.services.lock().push(change.clone());
    }

    fn on_endpoint_selector(&self, change: &Change<EndpointSelector>, services: &[ObjectKey]) {
        self.selectors.lock().push((change.clone(), services.to_vec()));
    }
}

type Pods = BTreeMap<ObjectKey, Pod>;
type Services = BTreeMap<ObjectKey, Service>;
type Selectors = BTreeMap<ObjectKey, EndpointSelector>;

/// Returns the EndpointSelector that a Service names, which need not exist.
fn named(service: &Service) -> Option<ObjectKey> {
    let name = service.annotations.get(ANNOTATION_ENDPOINT_SELECTOR)?;
    let is_attached = service.selector.is_none() && service.service_type != ServiceType::ExternalName;
    is_attached.then(|| ObjectKey { namespace: service.key.namespace.clone(), name: name.clone() })
}

fn selects(service: &Service, pod: &Pod, selectors: &Selectors) -> bool {
    if service.key.namespace != pod.key.namespace || service.service_type == ServiceType::ExternalName {
        return false;
    }
    match &service.selector {
        Some(selector) => selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value)),
        None => named(service)
            .and_then(|key| selectors.get(&key))
            .is_some_and(|selector| selector.selects(&pod.labels)),
    }
}

fn services_of(services: &Services, pod: Option<&Pod>, selectors: &Selectors) -> BTreeSet<ObjectKey> {
    let selecting =
        services.values().filter(|service| pod.is_some_and(|pod| selects(service, pod, selectors)));
    selecting.map(|service| service.key.clone()).collect()
}

fn check_reads(cluster: &Cluster, pods: &Pods, services: &Services, selectors: &Selectors) {
    assert_eq!(cluster.count(Kind::EndpointSelectors), selectors.len());
    let stored: Vec<_> = cluster.endpoint_selectors().iter().map(|it| (**it).clone()).collect();
    assert_eq!(stored, selectors.values().cloned().collect::<Vec<_>>());
    assert_eq!(cluster.services(), services.keys().cloned().collect::<Vec<_>>());
    assert_eq!(cluster.count(Kind::Pods), pods.len());
    assert_eq!(cluster.count(Kind::Services), services.len());
    for service in services.values() {
        assert_eq!(cluster.service(&service.key).as_deref(), Some(service));
        let selected: Vec<&Pod> = pods.values().filter(|pod| selects(service, pod, selectors)).collect();
        let got = cluster.pods_of(&service.key);
        assert_eq!(got.iter().map(|pod| &**pod).collect::<Vec<_>>(), selected, "{service:?}");
        let has_selector = match named(service) {
            Some(key) => selectors.get(&key).is_some_and(|selector| selector.selector.is_ok()),
            None => service.selects_pods(),
        };
        assert_eq!(cluster.pods_and_cursor(&service.key).is_some(), has_selector, "{service:?}");
        if let Some(key) = named(service) {
            assert!(cluster.services_of_selector(&key).contains(&service.key), "{service:?}");
        }
    }
    for pod in pods.values() {
        assert_eq!(cluster.pod(&pod.key).as_deref(), Some(pod));
        let want: Vec<_> = services_of(services, Some(pod), selectors).into_iter().collect();
        assert_eq!(cluster.services_of_pod(&pod.key), want);
    }
    for node in ["node0", "node1", "node2"] {
        let on_node = pods.values().filter(|pod| pod.node_name.as_deref() == Some(node));
        let want: BTreeSet<_> = on_node.flat_map(|pod| services_of(services, Some(pod), selectors)).collect();
        assert_eq!(cluster.services_on_node(node), want.into_iter().collect::<Vec<_>>());
    }
    assert!(cluster.inner.index.read().is_clean());
}

fn same_but_version(one: &Pod, other: &Pod) -> bool {
    Pod { resource_version: ResourceVersion(0), ..one.clone() }
        == Pod { resource_version: ResourceVersion(0), ..other.clone() }
}

/// Asserts one call for every changed pod, with the Services concerned.
fn check_pod_events(
    events: &[PodEvent],
    before: &Pods,
    after: &Pods,
    services: &Services,
    selectors: &Selectors,
) {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed_keys = keys.into_iter().filter(|key| match (before.get(key), after.get(key)) {
        (Some(old), Some(new)) => !same_but_version(old, new),
        _ => true,
    });
    let mut events: BTreeMap<_, _> =
        events.iter().map(|event| (event.change.latest().unwrap().key.clone(), event)).collect();
    for key in changed_keys {
        let event = events.remove(key).unwrap_or_else(|| panic!("no event for {key}"));
        let (old, new) = (before.get(key), after.get(key));
        assert_eq!((event.change.old.as_deref(), event.change.new.as_deref()), (old, new));
        let changed = PodChange::of(old, new);
        assert_eq!(event.changed, changed);
        let nothing = BTreeSet::new();
        let (was, is) = if changed.is_none() {
            (nothing.clone(), nothing)
        } else {
            (services_of(services, old, selectors), services_of(services, new, selectors))
        };
        assert_eq!(event.left, was.difference(&is).cloned().collect::<Vec<_>>());
        assert_eq!(event.joined, is.difference(&was).cloned().collect::<Vec<_>>());
        assert_eq!(event.stayed, is.intersection(&was).cloned().collect::<Vec<_>>());
    }
    assert!(events.is_empty(), "{events:?}");
}

/// Asserts one call for every version of a Service.
fn check_service_events(events: &[Change<Service>], before: &Services, after: &Services) {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let want: Vec<_> = keys
        .into_iter()
        .map(|key| (before.get(key), after.get(key)))
        .filter(|(old, new)| old != new)
        .collect();
    let mut events: Vec<_> =
        events.iter().map(|change| (change.old.as_deref(), change.new.as_deref())).collect();
    events.sort_by_key(|(old, new)| old.or(*new).map(|service| &service.key));
    assert_eq!(events, want);
}

/// Asserts one call for every version of a selector, with the Services that name it.
fn check_selector_events(
    events: Vec<(Change<EndpointSelector>, Vec<ObjectKey>)>,
    before: &Selectors,
    after: &Selectors,
    services: &Services,
) {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(key) != after.get(key));
    let mut events: BTreeMap<_, _> = events
        .into_iter()
        .map(|(change, services)| (change.latest().unwrap().key.clone(), (change, services)))
        .collect();
    for key in changed {
        let (change, attached) = events.remove(key).unwrap_or_else(|| panic!("no event for {key}"));
        assert_eq!((change.old.as_deref(), change.new.as_deref()), (before.get(key), after.get(key)));
        let naming = services.values().filter(|service| named(service).as_ref() == Some(key));
        assert_eq!(attached, naming.map(|service| service.key.clone()).collect::<Vec<_>>());
    }
    assert!(events.is_empty(), "{events:?}");
}

/// Returns the content of a complete list, and the state after the store has applied it.
fn relisted<T: Clone>(
    before: &BTreeMap<ObjectKey, T>,
    new: Vec<(ObjectKey, T)>,
    keep: &[bool],
    undecodable_keys: &[ObjectKey],
) -> (BTreeMap<ObjectKey, T>, BTreeMap<ObjectKey, T>) {
    let keep = before.iter().zip(keep.iter().chain(std::iter::repeat(&true))).filter(|(_, keep)| **keep);
    let mut listed: BTreeMap<_, _> = keep.map(|((key, item), _)| (key.clone(), item.clone())).collect();
    listed.retain(|key, _| !undecodable_keys.contains(key));
    listed.extend(new.into_iter().filter(|(key, _)| !undecodable_keys.contains(key)));
    let mut after = listed.clone();
    after.extend(undecodable_keys.iter().filter_map(|key| Some((key.clone(), before.get(key)?.clone()))));
    (listed, after)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn the_index_agrees_with_a_scan(steps in prop::collection::vec(step(), 1..60)) {
        let cluster = Cluster::new([Kind::Pods, Kind::Services, Kind::EndpointSelectors]);
        let events = Arc::new(RecordingHandler::default());
        cluster.add_handler(events.clone());
        let (mut pods, mut services, mut selectors) = (Pods::new(), Services::new(), Selectors::new());
        for (number, step) in steps.into_iter().enumerate() {
            let version = ResourceVersion(number as u64 + 1);
            let (pods_before, services_before) = (pods.clone(), services.clone());
            let selectors_before = selectors.clone();
            let kind = match step {
                Step::Pod(pod) => {
                    let pod = Pod { resource_version: version, ..pod };
                    pods.insert(pod.key.clone(), pod.clone());
                    cluster.apply(StreamEvent::Applied(pod));
                    Kind::Pods
                }
                Step::DeletePod(key) => {
                    pods.remove(&key);
                    match number % 2 {
                        0 => cluster.apply::<Pod>(StreamEvent::DeletedFinalStateUnknown { key, resource_version: version }),
                        _ => cluster.apply(StreamEvent::Deleted(Pod { key, resource_version: version, ..Pod::default() })),
                    }
                    Kind::Pods
                }
                Step::Service(service) => {
                    let service = Service { resource_version: version, ..service };
                    services.insert(service.key.clone(), service.clone());
                    cluster.apply(StreamEvent::Applied(service));
                    Kind::Services
                }
                Step::DeleteService(key) => {
                    services.remove(&key);
                    cluster.apply::<Service>(StreamEvent::DeletedFinalStateUnknown { key, resource_version: version });
                    Kind::Services
                }
                Step::Pods(new, keep, undecodable) => {
                    let new = new.into_iter().map(|pod| Pod { resource_version: version, ..pod });
                    let (listed, after) =
                        relisted(&pods, new.map(|pod| (pod.key.clone(), pod)).collect(), &keep, &undecodable);
                    pods = after;
                    let mut items: Vec<Pod> = listed.into_values().collect();
                    // Servers sort their lists, but nothing depends on it.
                    if number % 2 == 1 {
                        let middle = items.len() / 2;
                        items.rotate_left(middle);
                    }
                    cluster.apply(StreamEvent::Restarted { items, undecodable, resource_version: version });
                    Kind::Pods
                }
                Step::Services(new, keep, undecodable) => {
                    let new = new.into_iter().map(|service| Service { resource_version: version, ..service });
                    let (listed, after) =
                        relisted(&services, new.map(|s| (s.key.clone(), s)).collect(), &keep, &undecodable);
                    services = after;
                    let items = listed.into_values().collect();
                    cluster.apply(StreamEvent::Restarted { items, undecodable, resource_version: version });
                    Kind::Services
                }
                Step::Selector(selector) => {
                    let selector = EndpointSelector { resource_version: version, ..selector };
                    selectors.insert(selector.key.clone(), selector.clone());
                    cluster.apply(StreamEvent::Applied(selector));
                    Kind::EndpointSelectors
                }
                Step::DeleteSelector(key) => {
                    selectors.remove(&key);
                    cluster.apply::<EndpointSelector>(StreamEvent::DeletedFinalStateUnknown { key, resource_version: version });
                    Kind::EndpointSelectors
                }
                Step::Selectors(new, keep, undecodable) => {
                    let new = new.into_iter().map(|it| EndpointSelector { resource_version: version, ..it });
                    let (listed, after) =
                        relisted(&selectors, new.map(|it| (it.key.clone(), it)).collect(), &keep, &undecodable);
                    selectors = after;
                    let items = listed.into_values().collect();
                    cluster.apply(StreamEvent::Restarted { items, undecodable, resource_version: version });
                    Kind::EndpointSelectors
                }
            };
            prop_assert_eq!(cluster.position(kind), version);
            check_reads(&cluster, &pods, &services, &selectors);
            let (pod_events, service_events) =
                (std::mem::take(&mut *events.pods.lock()), std::mem::take(&mut *events.services.lock()));
            check_pod_events(&pod_events, &pods_before, &pods, &services_before, &selectors_before);
            let selector_events = std::mem::take(&mut *events.selectors.lock());
            check_selector_events(selector_events, &selectors_before, &selectors, &services_before);
            check_service_events(&service_events, &services_before, &services);
        }
    }
}

#[test]
fn labels_that_no_selector_has_make_no_label_sets() {
    let cluster = Cluster::new([Kind::Pods, Kind::Services]);
    let map = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<StringMap>();
    let pod = |number: usize| Pod {
        key: ObjectKey::new("n", format!("p{number}")),
        labels: map(&[("app", "web"), ("name", &format!("p{number}")), ("zone", ["a", "b"][number % 2])]),
        ..Pod::default()
    };
    (0..20).for_each(|number| cluster.apply(StreamEvent::Applied(pod(number))));
    let check = |name: &str, selector: &[(&str, &str)], selected: usize, sets: usize| {
        let key = ObjectKey::new("n", name);
        let service = Service { key: key.clone(), selector: Some(map(selector)), ..Service::default() };
        cluster.apply(StreamEvent::Applied(service));
        let got = (cluster.pods_of(&key).len(), cluster.inner.index.read().set_count());
        assert_eq!(got, (selected, sets), "{name}");
    };
    check("none", &[("other", "x")], 0, 1);
    check("web", &[("app", "web")], 20, 1);
    check("zone", &[("app", "web"), ("zone", "a")], 10, 2);
    check("one", &[("name", "p3")], 1, 20);
    assert_eq!(cluster.pods_of(&ObjectKey::new("n", "web")).len(), 20);
    assert!(cluster.inner.index.read().is_clean());
}

#[test]
fn a_selector_keeps_keys_that_a_selector_before_it_had() {
    let cluster = Cluster::new([Kind::Pods, Kind::Services]);
    let map = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<StringMap>();
    let key = ObjectKey::new("n", "web");
    let labels = map(&[("app", "web"), ("zone", "a")]);
    cluster.apply(StreamEvent::Applied(Pod { key: key.clone(), labels, ..Pod::default() }));
    let put = |selector: Option<&[(&str, &str)]>| {
        let selector = selector.map(map);
        cluster.apply(StreamEvent::Applied(Service { key: key.clone(), selector, ..Service::default() }));
        cluster.pods_of(&key).len()
    };
    assert_eq!(put(Some(&[("app", "web")])), 1);
    assert_eq!(put(None), 0);
    // The index groups the pods anew because of the zone.
    assert_eq!(put(Some(&[("app", "web"), ("zone", "a")])), 1);
}

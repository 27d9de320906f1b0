use super::*;
use crate::{EndpointPort, ObjectMeta};
use proptest::prelude::*;

/// Parses a slice from `"a: 1 !2 @80"`: name, endpoints, port. An exclamation mark stands for not
/// ready.
fn slice(text: &str) -> EndpointSlice {
    let (name, rest) = text.split_once(':').unwrap();
    let (endpoints, port) = rest.split_once('@').unwrap();
    let endpoint = |word: &str| Endpoint {
        addresses: vec![word.trim_start_matches('!').into()],
        conditions: EndpointConditions { ready: Some(!word.starts_with('!')), ..Default::default() },
        ..Endpoint::default()
    };
    EndpointSlice {
        metadata: ObjectMeta { name: name.into(), ..ObjectMeta::default() },
        endpoints: endpoints.split_whitespace().map(endpoint).collect(),
        ports: vec![EndpointPort { port: Some(port.parse().unwrap()), ..EndpointPort::default() }],
        ..EndpointSlice::default()
    }
}

fn text(slice: &EndpointSlice) -> String {
    let mark = |it: &Endpoint| if is_ready(it.conditions) { "" } else { "!" };
    let endpoints: Vec<String> =
        slice.endpoints.iter().map(|it| format!("{}{}", mark(it), it.addresses[0])).collect();
    let port = slice.ports[0].port.unwrap_or_default();
    format!("{}: {} @{port}", slice.metadata.name, endpoints.join(" "))
}

fn slices(texts: &[&str]) -> Vec<EndpointSlice> {
    texts.iter().map(|text| slice(text)).collect()
}

/// Checks the remaining writes. The arguments are existing slices, planned updates, names of
/// planned deletes, missing slices, and the expected writes.
fn check(existing: &[&str], update: &[&str], delete: &[&str], missing: &[&str], want: &[&str]) {
    let existing: Vec<_> = slices(existing).into_iter().map(Arc::new).collect();
    let delete = existing.iter().filter(|it| delete.contains(&&*it.metadata.name)).cloned().collect();
    let rest = Writes { create: Vec::new(), update: slices(update), delete };
    let left = writes_without(&existing, rest, &slices(missing));
    assert!(left.create.is_empty());
    let deletes = left.delete.iter().map(|it| format!("delete {}", it.metadata.name));
    let got: Vec<String> = left.update.iter().map(text).chain(deletes).collect();
    assert_eq!(got, want);
}

#[test]
fn writes_that_take_nothing_from_missing_slices_stay_as_they_are() {
    check(&["a: 1 2 @80"], &["a: 1 @80"], &[], &["n: 3 @80"], &["a: 1 @80"]);
    check(&["a: 1 2 @80"], &["a: 1 !2 @80"], &[], &["n: 3 @80"], &["a: 1 !2 @80"]);
    check(&["a: 1 @80", "b: 2 @80"], &[], &["b"], &["n: 3 @80"], &["delete b"]);
    check(&["a: 1 @80"], &["a: 1 4 @80"], &[], &["n: 3 @80"], &["a: 1 4 @80"]);
}

#[test]
fn a_slice_whose_endpoints_move_to_a_missing_one_only_loses_the_dead() {
    // The Service got another port: all its endpoints move.
    check(&["a: 1 2 3 @80"], &[], &["a"], &["n: 1 !3 @81"], &["a: 1 !3 @80"]);
    check(&["a: 1 2 @80"], &[], &["a"], &["n: 1 2 @81"], &[]);
    check(&["a: 1 2 @80"], &["a: 5 @81"], &[], &["n: 1 @82"], &["a: 1 @80"]);
    check(&["a: 1 2 @80"], &["a: 1 @80"], &[], &["n: 2 @81"], &[]);
}

#[test]
fn an_endpoint_that_cannot_move_keeps_what_depends_on_it() {
    // 1 moves from a to b because b's own endpoint moves to the missing slice.
    check(&["a: 1 9 @80", "b: 2 @80"], &["b: 1 @80"], &["a"], &["n: 2 @81"], &["a: 1 @80"]);
}

#[test]
fn reduced_updates_come_after_those_that_add_endpoints() {
    check(&["a: 1 2 @80", "b: 3 @80"], &["b: 3 2 @80"], &["a"], &["n: 1 @81"], &["b: 3 2 @80", "a: 1 @80"]);
}

#[test]
fn an_update_of_an_unknown_version_is_left_out() {
    check(&["a: 1 @80", "b: 2 @80"], &["gone: 1 @80"], &["a"], &["n: 5 @80"], &[]);
}

#[test]
fn reduced_updates_get_the_trigger_time_of_the_plan() {
    let old = Arc::new(slice("a: 1 2 @80"));
    let mut missing = slice("n: 1 @81");
    missing.metadata.annotations = [(ANNOTATION_TRIGGER_TIME, "then")].into_iter().collect();
    let rest = Writes { delete: vec![Arc::clone(&old)], ..Writes::default() };
    let left = writes_without(&[old], rest, &[missing]);
    assert_eq!(
        left.update[0].metadata.annotations.get(ANNOTATION_TRIGGER_TIME).map(|it| &**it),
        Some("then")
    );
}

const EXISTING: usize = 4;
const CREATED: usize = 3;
const ENDPOINTS: usize = 8;

/// For each endpoint: the existing slices that hold it, with readiness, and the place and readiness
/// that the plan gives it. Places from `EXISTING` on are new slices. For each existing slice: true
/// if the plan gives it other ports.
#[derive(Clone, Debug)]
struct Case {
    held: Vec<Vec<(usize, bool)>>,
    planned: Vec<Option<(usize, bool)>>,
    other_ports: Vec<bool>,
    created: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let held = proptest::collection::vec((0..EXISTING, any::<bool>()), 0..3);
    let planned = proptest::option::of((0..EXISTING + CREATED, any::<bool>()));
    (
        proptest::collection::vec(held, ENDPOINTS),
        proptest::collection::vec(planned, ENDPOINTS),
        proptest::collection::vec(any::<bool>(), EXISTING),
        0..CREATED,
    )
        .prop_map(|(held, planned, other_ports, created)| Case { held, planned, other_ports, created })
}

fn build(name: usize, port: u8, endpoints: impl Iterator<Item = (usize, bool)>) -> EndpointSlice {
    let mut unique: BTreeMap<usize, bool> = BTreeMap::new();
    unique.extend(endpoints);
    let words: Vec<String> =
        unique.iter().map(|(it, ready)| format!("{}{it}", if *ready { "" } else { "!" })).collect();
    slice(&format!("{name}: {} @{port}", words.join(" ")))
}

fn ready(slices: &BTreeMap<String, EndpointSlice>) -> BTreeSet<EndpointIdentity> {
    entries(slices.values()).filter(|(_, conditions)| is_ready(*conditions)).map(|(it, _)| it).collect()
}

fn named(slices: impl IntoIterator<Item = EndpointSlice>) -> BTreeMap<String, EndpointSlice> {
    slices.into_iter().map(|it| (it.metadata.name.to_string(), it)).collect()
}

proptest! {
    #[test]
    fn no_ready_endpoint_is_lost_and_no_dead_one_stays_ready(case in cases()) {
        let held = |place: usize| {
            let of = move |(endpoint, held): (usize, &Vec<(usize, bool)>)| {
                held.iter().rev().find(|(at, _)| *at == place).map(|(_, ready)| (endpoint, *ready))
            };
            case.held.iter().enumerate().filter_map(of)
        };
        let planned = |place: usize| {
            let of = move |(endpoint, planned): (usize, &Option<(usize, bool)>)| {
                planned.filter(|(at, _)| *at == place).map(|(_, ready)| (endpoint, ready))
            };
            case.planned.iter().enumerate().filter_map(of)
        };
        let existing: Vec<_> = (0..EXISTING).map(|it| Arc::new(build(it, 80, held(it)))).collect();
        let mut rest = Writes::default();
        for (place, old) in existing.iter().enumerate() {
            let new = build(place, if case.other_ports[place] { 81 } else { 80 }, planned(place));
            if new.endpoints.is_empty() {
                rest.delete.push(Arc::clone(old));
            } else if new != **old {
                rest.update.push(new);
            }
        }
        let new: Vec<_> = (0..CREATED).map(|it| build(EXISTING + it, 81, planned(EXISTING + it))).collect();
        let (created, missing) = new.split_at(case.created);

        let mut now = named(existing.iter().map(|it| EndpointSlice::clone(it)).chain(created.to_vec()));
        let mut goal = now.clone();
        goal.extend(named(missing.to_vec()));
        let before = ready(&now);
        let left = writes_without(&existing, rest.clone(), missing);
        for (state, writes) in [(&mut goal, rest), (&mut now, left)] {
            state.extend(named(writes.update));
            for deleted in writes.delete {
                state.remove(&*deleted.metadata.name);
            }
        }
        let (after, goal) = (ready(&now), ready(&goal));
        for endpoint in before.intersection(&goal) {
            prop_assert!(after.contains(endpoint), "{endpoint:?} has lost its entry");
        }
        for endpoint in &after {
            prop_assert!(goal.contains(endpoint), "{endpoint:?} is still ready");
        }
    }
}

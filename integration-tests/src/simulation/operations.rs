//! The random operations: changes of inputs and outputs, faults, restarts and time.

#![expect(missing_docs, reason = "the variants and their fields say what they change")]

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// An operation. Objects are identified by numbers; an operation on a missing object has no effect.
#[derive(Clone, Debug)]
pub enum Op {
    CreateService {
        name: u8,
        selects: Option<u8>,
        headless: bool,
        publish: bool,
        families: u8,
    },
    Select {
        name: u8,
        selects: Option<u8>,
    },
    LabelService {
        name: u8,
        value: u8,
    },
    Publish {
        name: u8,
        publish: bool,
    },
    Distribute {
        name: u8,
        close: bool,
    },
    DeleteService {
        name: u8,
    },
    Pod {
        name: u8,
        app: u8,
        ready: bool,
        node: u8,
        life: u8,
        terminating: bool,
    },
    DeletePod {
        name: u8,
    },
    Node {
        name: u8,
        zone: u8,
    },
    DeleteNode {
        name: u8,
    },
    Endpoints {
        name: u8,
        ips: Vec<u8>,
        families: u8,
    },
    LabelEndpoints {
        name: u8,
        skip: bool,
    },
    DeleteEndpoints {
        name: u8,
    },
    EditEndpoints {
        name: u8,
    },
    DeleteSlice {
        nth: u8,
    },
    EmptySlice {
        nth: u8,
    },
    LabelSlice {
        nth: u8,
    },
    /// A fault for the next writes of one kind.
    BadWrites {
        verb: &'static str,
        plural: &'static str,
        fault: Fault,
        times: usize,
    },
    /// Closes all watches, with a fault for the next watches of one kind.
    BadWatch {
        plural: &'static str,
        fault: Fault,
        times: usize,
    },
    Compact,
    Pass {
        milliseconds: u64,
    },
    /// Aborts the controllers and starts new ones.
    Restart,
}

/// How many objects of each kind changes choose from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) services: u8,
    pub(super) pods: u8,
    pub(super) nodes: u8,
}

/// A change of an input or an output.
pub(super) fn change(size: Size) -> impl Strategy<Value = Op> {
    let Size { services, pods, nodes } = size;
    let (name, app) = (0..services, 0..2u8);
    let selects = || prop::option::weighted(0.7, 0..2u8);
    prop_oneof![
        4 => (name.clone(), selects(), any::<[bool; 2]>(), 0..3u8).prop_map(
            |(name, selects, [headless, publish], families)| Op::CreateService {
                name, selects, headless, publish, families,
            }
        ),
        4 => (name.clone(), selects()).prop_map(|(name, selects)| Op::Select { name, selects }),
        1 => (name.clone(), 0..3u8).prop_map(|(name, value)| Op::LabelService { name, value }),
        1 => (name.clone(), any::<bool>()).prop_map(|(name, publish)| Op::Publish { name, publish }),
        1 => (name.clone(), any::<bool>()).prop_map(|(name, close)| Op::Distribute { name, close }),
        2 => name.clone().prop_map(|name| Op::DeleteService { name }),
        12 => (0..pods, app, any::<bool>(), 0..nodes, 0..2u8, prop::bool::weighted(0.1)).prop_map(
            |(name, app, ready, node, life, terminating)| Op::Pod { name, app, ready, node, life, terminating }
        ),
        3 => (0..pods).prop_map(|name| Op::DeletePod { name }),
        2 => (0..nodes, 0..3u8).prop_map(|(name, zone)| Op::Node { name, zone }),
        1 => (0..nodes).prop_map(|name| Op::DeleteNode { name }),
        4 => (name.clone(), vec(0..9u8, 0..4), 0..3u8)
            .prop_map(|(name, ips, families)| Op::Endpoints { name, ips, families }),
        1 => (name.clone(), any::<bool>()).prop_map(|(name, skip)| Op::LabelEndpoints { name, skip }),
        2 => name.clone().prop_map(|name| Op::DeleteEndpoints { name }),
        1 => name.prop_map(|name| Op::EditEndpoints { name }),
        2 => any::<u8>().prop_map(|nth| Op::DeleteSlice { nth }),
        2 => any::<u8>().prop_map(|nth| Op::EmptySlice { nth }),
        1 => any::<u8>().prop_map(|nth| Op::LabelSlice { nth }),
    ]
}

fn fault() -> impl Strategy<Value = Op> {
    let refusal = (select(vec![409, 429, 500, 503]), prop::option::of(1..6u32))
        .prop_map(|(status, retry_after)| Fault::Refuse { status, retry_after });
    let delay = (1..3000u64).prop_map(|milliseconds| Fault::Delay(Duration::from_millis(milliseconds)));
    let bad_write = prop_oneof![
        2 => refusal.clone(),
        2 => Just(Fault::ApplyAndLoseAnswer),
        1 => Just(Fault::LoseRequest),
        1 => delay.clone(),
        2 => (1..6000u64).prop_map(|milliseconds| Fault::DelayAnswer(Duration::from_millis(milliseconds))),
    ];
    let bad_watch = prop_oneof![
        4 => (1..20u64).prop_map(|seconds| Fault::StallWatch(Duration::from_secs(seconds))),
        2 => Just(Fault::ExpireWatch),
        1 => (0..4usize).prop_map(|after| Fault::CutWatch { after }),
        1 => (0..4usize).prop_map(|after| Fault::BreakWatch { after }),
        1 => refusal,
        1 => delay,
    ];
    let written = select(vec!["endpoints", "endpointslices"]);
    let watched = select(vec!["pods", "services", "nodes", "endpoints", "endpointslices"]);
    let verb = select(vec!["create", "update", "delete"]);
    prop_oneof![
        4 => (verb, written, bad_write, 1..4usize)
            .prop_map(|(verb, plural, fault, times)| Op::BadWrites { verb, plural, fault, times }),
        4 => (watched, bad_watch, 1..3usize)
            .prop_map(|(plural, fault, times)| Op::BadWatch { plural, fault, times }),
        1 => Just(Op::Compact),
        1 => Just(Op::Restart),
    ]
}

/// A sequence of changes, faults and pauses.
pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let time = select(vec![0, 1, 5, 50, 500, 1500, 4000]);
    let op = prop_oneof![
        8 => change(Size { services: 3, pods: 8, nodes: 3 }),
        3 => fault(),
        4 => time.prop_map(|milliseconds| Op::Pass { milliseconds }),
    ];
    vec(op, 1..70)
}

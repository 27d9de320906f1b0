//! Seeded histories: two days of changes, outages, restores of an older state and restarts of the controllers.

use std::fmt;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::operations::{Op, Size, change};
use super::outages::{Outage, outage};

/// How long a history lasts.
pub const HISTORY: Duration = Duration::from_secs(48 * 3600);
const LONGEST_OUTAGE: f64 = 24.0 * 3600.0;
const SIZE: Size = Size { services: 7, pods: 30, nodes: 4 };

/// What happens at one time. The numbers are those of outages and of restores.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A change, or a restart of the controllers.
    Change(Op),
    /// An outage begins.
    Begin(usize, Outage),
    /// It ends.
    End(usize),
    /// The state is saved.
    Save(usize),
    /// It is restored.
    Restore(usize),
}

/// What happens, in the order of time.
#[derive(Clone, Debug)]
pub struct History {
    /// Changes made at once at the beginning.
    pub initial: Vec<Op>,
    /// What happens, with the time since the beginning. The last one is before [`HISTORY`].
    pub events: Vec<(Duration, Happening)>,
}

impl History {
    /// The history of a seed.
    pub fn of(seed: u64) -> Self {
        let mut bytes = [9; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner =
            TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
        history().new_tree(&mut runner).unwrap().current()
    }
}

/// A length of 1 s to 24 h: short ones are as frequent as long ones, on a logarithmic scale.
fn length() -> impl Strategy<Value = Duration> {
    (0.0..1.0).prop_map(|part: f64| Duration::from_secs_f64(LONGEST_OUTAGE.powf(part)))
}

fn moment() -> impl Strategy<Value = Duration> {
    (0..HISTORY.as_millis() as u64).prop_map(Duration::from_millis)
}

/// Several changes in short succession.
fn burst() -> impl Strategy<Value = Vec<(Duration, Op)>> {
    vec(((0..3000u64).prop_map(Duration::from_millis), change(SIZE)), 1..6)
}

fn initial() -> impl Strategy<Value = Vec<Op>> {
    let service = |name, selects, headless, publish, families| Op::CreateService {
        name,
        selects,
        headless,
        publish,
        families,
    };
    let services = vec![
        service(0, Some(0), false, false, 0),
        service(1, Some(1), true, false, 2),
        service(2, Some(0), false, true, 2),
        service(3, None, false, false, 0),
        service(4, Some(1), false, false, 1),
        service(5, None, true, false, 2),
        service(6, Some(0), true, false, 0),
        Op::Endpoints { name: 3, ips: vec![1, 2, 3, 4], families: 0 },
        Op::Endpoints { name: 5, ips: vec![5, 6], families: 2 },
    ];
    vec((0..2u8, prop::bool::weighted(0.8), 0..SIZE.nodes), 12..usize::from(SIZE.pods)).prop_map(
        move |pods| {
            let nodes = (0..SIZE.nodes).map(|name| Op::Node { name, zone: 1 + name % 2 });
            let pods = pods.into_iter().enumerate().map(|(name, (app, ready, node))| Op::Pod {
                name: name as u8,
                app,
                ready,
                node,
                life: 0,
                terminating: false,
            });
            nodes.chain(pods).chain(services.clone()).collect()
        },
    )
}

fn history() -> impl Strategy<Value = History> {
    // Half of the outages begin shortly after a burst or see one.
    let outages = vec((moment(), length(), outage(), prop::option::of((0.0..1.0, burst()))), 2..7);
    let restores = prop::option::weighted(0.4, (moment(), length(), prop::option::of(burst())));
    let restarts = vec(moment(), 0..2);
    (initial(), vec((moment(), burst()), 8..20), outages, restores, restarts).prop_map(
        |(initial, bursts, outages, restores, restarts)| {
            let mut events = Vec::new();
            let mut add = |at: Duration, what| events.push((at.min(HISTORY), what));
            for (at, changes) in bursts {
                changes.into_iter().for_each(|(delay, op)| add(at + delay, Happening::Change(op)));
            }
            for (number, (at, length, outage, burst)) in outages.into_iter().enumerate() {
                add(at, Happening::Begin(number, outage));
                if let Some((part, changes)) = burst {
                    let at = at + length.mul_f64(part);
                    changes.into_iter().for_each(|(delay, op)| add(at + delay, Happening::Change(op)));
                }
                add(at + length, Happening::End(number));
            }
            for (number, (at, age, burst)) in restores.into_iter().enumerate() {
                add(at, Happening::Save(number));
                let changes = burst.into_iter().flatten();
                changes.for_each(|(delay, op)| add(at + age / 2 + delay, Happening::Change(op)));
                add(at + age, Happening::Restore(number));
            }
            restarts.into_iter().for_each(|at| add(at, Happening::Change(Op::Restart)));
            events.sort_by_key(|(at, _)| *at);
            History { initial, events }
        },
    )
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(op) => write!(f, "    {op:?}"),
            Self::Begin(number, outage) => write!(f, "outage {number} begins: {outage}"),
            Self::End(number) => write!(f, "outage {number} ends"),
            Self::Save(number) => write!(f, "state {number} is saved"),
            Self::Restore(number) => write!(f, "state {number} is restored"),
        }
    }
}

/// A time as days, hours, minutes and seconds.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:06.3}", time.as_secs_f64() - (seconds - seconds % 60) as f64)
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|(at, what)| writeln!(f, "{} {what}", clock(*at)))
    }
}

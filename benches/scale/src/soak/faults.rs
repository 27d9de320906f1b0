//! Draws the faults from a seed.

use std::fmt;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// All connections are cut.
    Cut,
    /// Connections are cut, and new ones are closed at once.
    Refuse,
    /// Connections stay open and no byte comes through.
    Stall,
    /// Each piece comes late.
    Delay,
    /// The replica gets SIGTERM.
    Terminate,
    /// The replica gets SIGKILL.
    Kill,
    /// The API server restarts.
    RestartServer,
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Cut => "connections cut",
            Self::Refuse => "connections refused",
            Self::Stall => "bytes stalled",
            Self::Delay => "bytes delayed",
            Self::Terminate => "replica terminated",
            Self::Kill => "replica killed",
            Self::RestartServer => "API server restarted",
        })
    }
}

/// The replicas that a fault hits, by their numbers.
pub(crate) type Targets = &'static [usize];

/// A fault, and the time before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) pause: Duration,
    pub(crate) kind: Kind,
    pub(crate) targets: Targets,
    pub(crate) lasts: Duration,
    /// The delay of each piece.
    pub(crate) delay: Duration,
}

/// The kinds, and true if the fault is long enough that a leader loses its Lease.
type Deck = &'static [(Kind, bool)];

const ALL: Deck = &[
    (Kind::Cut, false),
    (Kind::Refuse, false),
    (Kind::Refuse, true),
    (Kind::Stall, false),
    (Kind::Stall, true),
    (Kind::Delay, true),
    (Kind::Terminate, false),
    (Kind::Kill, false),
    (Kind::RestartServer, false),
];

/// The faults that a leader outlives.
const SHORT: Deck = &[(Kind::Cut, false), (Kind::Refuse, false), (Kind::Stall, false), (Kind::Delay, false)];

/// Draws faults without end. Each kind comes once before one comes twice.
pub(crate) struct Faults {
    random: ChaCha8Rng,
    every: Duration,
    restarts_server: bool,
    all: Vec<(Kind, bool)>,
    short: Vec<(Kind, bool)>,
}

impl Faults {
    pub(crate) fn new(seed: u64, every: Duration, restarts_server: bool) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { random, every, restarts_server, all: Vec::new(), short: Vec::new() }
    }

    /// Returns the next fault.
    pub(crate) fn next(&mut self, only_short: bool) -> Fault {
        let deck = if only_short { &mut self.short } else { &mut self.all };
        if deck.is_empty() {
            let cards = if only_short { SHORT } else { ALL };
            let possible = |kind: Kind| kind != Kind::RestartServer || self.restarts_server;
            deck.extend(cards.iter().filter(|(kind, _)| possible(*kind)));
        }
        let (kind, long) = deck.remove((self.random.next_u64() % deck.len() as u64) as usize);
        let targets: Targets = [&[0][..], &[1], &[0, 1]][(self.random.next_u64() % 3) as usize];
        let lasts = match kind {
            Kind::Refuse | Kind::Stall | Kind::Delay if long => self.part(1.0 / 6.0, 0.5),
            Kind::Refuse | Kind::Stall | Kind::Delay => self.part(1.0 / 90.0, 1.0 / 15.0),
            _ => Duration::ZERO,
        };
        let delay = Duration::from_millis(20 + self.random.next_u64() % 280);
        Fault { pause: self.part(0.5, 1.5), kind, targets, lasts, delay }
    }

    /// Returns a part of the time between two faults.
    fn part(&mut self, from: f64, to: f64) -> Duration {
        let fraction = self.random.next_u32() as f64 / f64::from(u32::MAX);
        self.every.mul_f64(from + (to - from) * fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn drawn(restarts_server: bool, only_short: bool) -> Vec<Fault> {
        let mut faults = Faults::new(7, Duration::from_secs(90), restarts_server);
        (0..36).map(|_| faults.next(only_short)).collect()
    }

    #[test]
    fn all_kinds_come_before_one_comes_twice() {
        let kinds = |faults: &[Fault]| faults.iter().map(|fault| fault.kind).collect::<BTreeSet<_>>();
        assert_eq!(kinds(&drawn(true, false)[..ALL.len()]).len(), 7);
        assert!(!kinds(&drawn(false, false)).contains(&Kind::RestartServer));
        assert_eq!(kinds(&drawn(true, true)[..SHORT.len()]).len(), 4);
        assert_eq!(drawn(true, false), drawn(true, false), "the seed decides");
    }

    #[test]
    fn a_leader_outlives_short_faults() {
        // --leader-elect-renew-deadline is 10 s by default.
        assert!(drawn(true, true).iter().all(|fault| fault.lasts <= Duration::from_secs(6)));
        assert!(drawn(true, false).iter().any(|fault| fault.lasts > Duration::from_secs(15)));
    }
}

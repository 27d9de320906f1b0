//! The kinds of histories that seeds make.

mod beside;
mod leading;
mod retired;
mod servers;
mod steps;

use kube_endpoint_controllers::Gate;

use super::pieces::Pieces;
use super::{History, Manager, Setup};
use crate::random::Random;
use crate::text::word_enum;
use servers::SERVERS;

word_enum! {
    /// A kind of histories.
    pub enum Profile {
        /// Minutes of changes of all kinds, with short faults.
        "churn" Churn
        /// Rolling updates, with faults of watches and writes.
        "rollout" Rollout
        /// Hundreds to thousands of pods, and back.
        "scale" Scale
        /// Two days with outages of up to a day.
        "outages" Outages
        /// Managers end, hang and overlap.
        "leaders" Leaders
        /// Users delete namespaces and make them anew, and replace Services.
        "namespaces" Namespaces
        /// Services become dual-stack and single-stack.
        "dual-stack" DualStack
        /// Another controller, and users, write the outputs.
        "foreign" Foreign
        /// Stale state: a manager works on, or restarts on, a view of the past.
        "stale" Stale
        /// Unobserved state: objects change and change back while no watch sees it.
        "unobserved" Unobserved
        /// Intermediate state: the process ends between two writes of a plan.
        "intermediate" Intermediate
        /// The server goes back to an older state.
        "restores" Restores
        /// The server refuses to create slices for half an hour, as with a quota.
        "refusals" Refusals
        /// The pods of a Service move between its slices, because its ports lead elsewhere.
        "moves" Moves
        /// Other changes undo changes before the cache shows the writes in between, and answers are
        /// lost.
        "lagging" Lagging
        /// Three API servers before one store lag by different times; one hangs, refuses or
        /// restarts.
        "servers" Servers
        /// Services change hands between kube-controller-manager and the endpoint selector
        /// controller beside it. No number of a seed alone leads here.
        "beside" Beside
        /// Services send traffic to the pod that leads, by a Lease or by a condition. The endpoint
        /// selector controller has one. No number of a seed alone leads here.
        "leading" Leading
        /// Services lose their Endpoints and get them back. No number of a seed alone leads here.
        "retired" Retired
    }
}

/// The profiles of 50 seeds in a row. Churn has two parts, so that `Servers` gets seeds that catch
/// no mutant.
const SHARES: [(Profile, u64); 17] = [
    (Profile::Churn, 1),
    (Profile::Servers, 3),
    (Profile::Churn, 3),
    (Profile::Rollout, 4),
    (Profile::Scale, 1),
    (Profile::Outages, 4),
    (Profile::Leaders, 5),
    (Profile::Namespaces, 3),
    (Profile::DualStack, 3),
    (Profile::Foreign, 3),
    (Profile::Stale, 3),
    (Profile::Unobserved, 3),
    (Profile::Intermediate, 4),
    (Profile::Restores, 2),
    (Profile::Refusals, 2),
    (Profile::Moves, 3),
    (Profile::Lagging, 3),
];

impl Profile {
    /// Returns the profile of a seed.
    pub fn of(seed: u64) -> Self {
        let all: u64 = SHARES.iter().map(|(_, share)| share).sum();
        // 7 has no divisor in common with the sum, so that neighbours differ.
        let mut number = seed.wrapping_mul(7) % all;
        for (profile, share) in SHARES {
            if number < share {
                return profile;
            }
            number -= share;
        }
        Self::Churn
    }
}

fn setup(profile: Profile, seed: u64, random: &mut Random) -> Setup {
    let long = profile == Profile::Outages;
    let lease = match profile {
        // Requests for the Lease take most of the time of a short one.
        Profile::Leaders => Some(random.pick(&[15, 30, 60, 60, 60])),
        _ if long => random.chance(20).then_some(3600),
        _ => random.chance(60).then(|| random.pick(&[60, 120, 240])),
    };
    Setup {
        seed,
        profile,
        lease,
        slice_limit: if profile == Profile::Scale {
            random.pick(&[100, 100, 17])
        } else {
            random.pick(&[3, 5, 8])
        },
        workers: random.pick(&[1, 5, 5]),
        batch: random.pick(&[0, 0, 500, 700]),
        qps: if profile == Profile::Scale { 0 } else { random.pick(&[0, 20]) },
        slowness: if random.chance(5) {
            1
        } else if long {
            10
        } else {
            2
        },
        streaming: random.chance(80),
        page: random.pick(&[7, 500]),
        resync: long && random.chance(25),
        compaction: random.chance(50),
        latency: if long { 0 } else { random.pick(&[0, 3, 20]) },
        // Without it only the answer of the server shows that it has carried out an update.
        without: if profile == Profile::Lagging && random.chance(50) {
            vec![Gate::EndpointsRepair]
        } else {
            Vec::new()
        },
        collected_after: 100,
        most_refused: None,
        // This does not use `random`, so that the rest of each history stays as it was.
        json: seed % 5 == 4,
        servers: if profile == Profile::Servers { SERVERS } else { 1 },
        most_lists: None,
        least_writes: None,
        most_lost: None,
        beside: matches!(profile, Profile::Beside | Profile::Leading),
        retired: profile == Profile::Retired && seed.is_multiple_of(3),
        namespaces: false,
        takes_back: lease.is_some() && seed % 3 == 1,
    }
}

/// Returns the history of a seed in a profile.
pub(super) fn history(profile: Profile, seed: u64) -> History {
    let mut random = Random::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ profile as u64);
    let setup = setup(profile, seed, &mut random);
    let mut managers = vec![Manager::A];
    if setup.lease.is_some() {
        managers.push(Manager::B);
    }
    if setup.beside {
        managers.push(Manager::K);
    }
    let (services, pods) = match profile {
        Profile::Outages => (8, 30),
        _ => (random.between(2, 9) as u8, random.between(4, 24) as u8),
    };
    let mut pieces = Pieces { random, steps: Vec::new(), services, pods, nodes: 4, managers };
    match profile {
        Profile::Beside => pieces.initial_beside(),
        Profile::Leading => pieces.initial_leading(),
        _ => pieces.initial(),
    }
    match profile {
        Profile::Churn => pieces.churn(),
        Profile::Rollout => pieces.rollouts(),
        Profile::Scale => pieces.scale(),
        Profile::Outages => pieces.outages(),
        Profile::Leaders => pieces.leaders(),
        Profile::Namespaces => pieces.namespaces(),
        Profile::DualStack => pieces.dual_stack(),
        Profile::Foreign => pieces.foreign(),
        Profile::Stale => pieces.stale(),
        Profile::Unobserved => pieces.unobserved(),
        Profile::Intermediate => pieces.intermediate(),
        Profile::Restores => pieces.restores(),
        Profile::Refusals => pieces.refusals(),
        Profile::Moves => pieces.moves(),
        Profile::Lagging => pieces.lagging(&setup),
        Profile::Servers => pieces.servers(),
        Profile::Beside => pieces.beside(),
        Profile::Leading => pieces.leading(),
        Profile::Retired => pieces.retired(),
    }
    if !setup.beside {
        pieces.restored_backup(Random::new(!seed));
    }
    let mut steps = pieces.steps;
    steps.sort_by_key(|step| step.at);
    History { setup, steps }
}

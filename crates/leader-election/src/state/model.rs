//! A model test: several candidates on one simulated Lease, with clocks that differ, lost and late answers, watches that
//! lose events, and processes that are suspended, stopped and killed.
//!
//! The laws:
//!
//! - At no time do two candidates have an [`until`](Leadership::Leading) that has not passed.
//! - What a new leader is told about last writes includes all writes of all leaders before.
//! - No candidate sends more than three requests a second on average.
//! - When faults stop, somebody leads within a lease duration and a retry period, and stays the leader.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;

use kube_endpoint_core_model::ResourceVersion;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Real time, in microseconds since the beginning.
type Micros = u64;

const SECOND: Micros = 1_000_000;
const FAULTS_END: Micros = 120 * SECOND;
const END: Micros = 200 * SECOND;

/// Local clocks count from an instant that is far enough from the beginning of tokio's clock.
static ORIGIN: LazyLock<Instant> = LazyLock::new(|| Instant::now() + Duration::from_secs(1_000_000));

/// What a case is made of.
#[derive(Clone, Copy, Debug)]
struct Setup {
    seed: u64,
    candidates: usize,
    /// The share of requests and events that go wrong, in percent.
    faults: u32,
    /// The mean time between two suspensions, stops and kills of a process, in seconds.
    disturbances: u64,
    has_watch: bool,
}

fn setups() -> impl Strategy<Value = Setup> {
    (any::<u64>(), 2..5_usize, 0..70_u32, 2..40_u64, any::<bool>()).prop_map(
        |(seed, candidates, faults, disturbances, has_watch)| Setup {
            seed,
            candidates,
            faults,
            disturbances,
            has_watch,
        },
    )
}

#[derive(Debug)]
enum Happening {
    /// A request arrives at the server, which carries it out or not. Its answer has this delay, or is lost.
    Arrival {
        candidate: usize,
        request: u64,
        content: Request,
        delay: Option<Micros>,
    },
    /// An answer, a timeout or a reset connection.
    Answer {
        candidate: usize,
        request: u64,
        answer: Answer,
    },
    Event {
        candidate: usize,
        process: u64,
        event: Event,
    },
    Wake {
        candidate: usize,
    },
    Disturbance,
    Restart {
        candidate: usize,
    },
    /// The leader writes something.
    Write,
    FaultsEnd,
}

struct Candidate {
    election: Election,
    /// Counts the processes that this candidate has been.
    process: u64,
    /// Local time is `offset + real time * rate / 1000`.
    rate: u64,
    offset: Micros,
    wall_offset: i64,
    suspended_until: Micros,
    is_running: bool,
    /// The request that is under way.
    request: Option<u64>,
    /// Real time until which this candidate may write.
    until: Option<Micros>,
}

impl Candidate {
    fn local(&self, now: Micros) -> Instant {
        *ORIGIN + Duration::from_micros(self.offset + now * self.rate / 1000)
    }

    fn real(&self, local: Instant) -> Micros {
        let micros = u64::try_from((local - *ORIGIN).as_micros()).unwrap();
        (micros - self.offset) * 1000 / self.rate
    }

    fn wall_clock(&self, now: Micros) -> Timestamp {
        let micros = 1_700_000_000_000_000 + self.wall_offset * 1_000_000 + i64::try_from(now).unwrap();
        Timestamp::from_microsecond(micros).unwrap()
    }

    fn leads(&self, now: Micros) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}

struct World {
    setup: Setup,
    random: ChaCha8Rng,
    now: Micros,
    queue: BinaryHeap<(Reverse<Micros>, Reverse<u64>, usize)>,
    happenings: Vec<Option<Happening>>,
    candidates: Vec<Candidate>,
    lease: Option<Lease>,
    version: u64,
    /// The version of the last write of a leader.
    last_write: u64,
    /// Counts requests.
    requests: u64,
    /// How many there were when the faults ended.
    faulty_requests: u64,
    faults_stopped: bool,
    leaders: Vec<(Micros, usize)>,
    /// How many leaders were told about last writes.
    told: usize,
}

impl World {
    fn new(setup: Setup) -> Self {
        let mut world = Self {
            setup,
            random: ChaCha8Rng::seed_from_u64(setup.seed),
            now: 0,
            queue: BinaryHeap::new(),
            happenings: Vec::new(),
            candidates: Vec::new(),
            lease: None,
            version: 1,
            last_write: 0,
            requests: 0,
            faulty_requests: 0,
            faults_stopped: false,
            leaders: Vec::new(),
            told: 0,
        };
        for index in 0..setup.candidates {
            let (rate, offset) =
                (world.random.random_range(900..=1100), world.random.random_range(0..1_000_000_000));
            let wall_offset = world.random.random_range(-7200..7200);
            let candidate = Candidate {
                election: Election::new(options(index, 0), 0, *ORIGIN),
                process: 0,
                rate,
                offset,
                wall_offset,
                suspended_until: 0,
                is_running: false,
                request: None,
                until: None,
            };
            world.candidates.push(candidate);
            world.later(0, Happening::Restart { candidate: index });
        }
        world.later(SECOND, Happening::Disturbance);
        world.later(SECOND, Happening::Write);
        world.later(FAULTS_END, Happening::FaultsEnd);
        world
    }

    fn later(&mut self, delay: Micros, happening: Happening) {
        let index = self.happenings.len();
        self.happenings.push(Some(happening));
        self.queue.push((Reverse(self.now + delay), Reverse(index as u64), index));
    }

    fn run(&mut self) {
        while let Some((Reverse(at), _, index)) = self.queue.pop() {
            if at > END {
                return;
            }
            self.now = at;
            if let Some(happening) = self.happenings[index].take() {
                self.happen(happening);
                self.check();
            }
        }
    }

    /// Whether something goes wrong.
    fn goes_wrong(&mut self) -> bool {
        !self.faults_stopped && self.random.random_range(0..100) < self.setup.faults
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            // What was late arrives before the faults end, or never.
            Happening::Arrival { request, .. } if request <= self.faulty_requests => {}
            Happening::Arrival { candidate, request, content, delay } => {
                let answer = self.carry_out(content);
                if let Some(delay) = delay {
                    self.later(delay, Happening::Answer { candidate, request, answer });
                }
            }
            Happening::Answer { candidate, request, answer } => {
                if let Some(resumed) = self.suspended(candidate) {
                    return self.later(resumed, Happening::Answer { candidate, request, answer });
                }
                if self.candidates[candidate].request == Some(request) {
                    let local = self.candidates[candidate].local(self.now);
                    self.candidates[candidate].request = None;
                    self.candidates[candidate].election.answered(answer, local);
                    self.step(candidate);
                }
            }
            Happening::Event { candidate, process, event } => {
                if let Some(resumed) = self.suspended(candidate) {
                    return self.later(resumed, Happening::Event { candidate, process, event });
                }
                if self.candidates[candidate].is_running && self.candidates[candidate].process == process {
                    let local = self.candidates[candidate].local(self.now);
                    self.candidates[candidate].election.event(event, local);
                    self.step(candidate);
                }
            }
            Happening::Wake { candidate } => {
                if let Some(resumed) = self.suspended(candidate) {
                    return self.later(resumed, Happening::Wake { candidate });
                }
                if self.candidates[candidate].is_running {
                    self.step(candidate);
                }
            }
            Happening::Disturbance => self.disturb(),
            Happening::Restart { candidate } => self.restart(candidate),
            Happening::Write => {
                if self.candidates.iter().any(|candidate| candidate.leads(self.now)) {
                    self.version += 1;
                    self.last_write = self.version;
                }
                let next = self.random.random_range(1..SECOND);
                self.later(next, Happening::Write);
            }
            Happening::FaultsEnd => {
                self.faults_stopped = true;
                self.faulty_requests = self.requests;
                for index in 0..self.candidates.len() {
                    self.candidates[index].suspended_until = self.now;
                    // Requests that are stuck get an answer now, and watches begin anew.
                    if let Some(request) = self.candidates[index].request {
                        let answer = Answer::Failed { why: "reset".into(), may_be_applied: true };
                        self.later(1000, Happening::Answer { candidate: index, request, answer });
                    }
                    self.later(2000, Happening::Wake { candidate: index });
                }
                if let Some(lease) = self.lease.clone() {
                    self.show(Event::Applied(lease));
                }
            }
        }
    }

    /// How long a candidate stays suspended.
    fn suspended(&self, candidate: usize) -> Option<Micros> {
        let until = self.candidates[candidate].suspended_until;
        (until > self.now).then(|| until - self.now)
    }

    /// What the API server does.
    fn carry_out(&mut self, request: Request) -> Answer {
        let refused = |why: &str| Answer::Failed { why: why.into(), may_be_applied: false };
        let lease = match (request, &self.lease) {
            (Request::Get, Some(lease)) => return Answer::Lease(lease.clone()),
            (Request::Get | Request::Update(_), None) => return Answer::NotFound("no lease".into()),
            (Request::Create(_), Some(_)) => return refused("it exists"),
            (Request::Update(new), Some(old)) if new.version() != old.version() => {
                return refused("conflict");
            }
            (Request::Create(new) | Request::Update(new), _) => new,
        };
        self.version += 1;
        let mut json: Value = lease.as_json().clone();
        json["metadata"]["resourceVersion"] = self.version.to_string().into();
        let lease = Lease::from_json(json).unwrap();
        self.lease = Some(lease.clone());
        self.show(Event::Applied(lease.clone()));
        Answer::Lease(lease)
    }

    /// Sends an event to all watches.
    fn show(&mut self, event: Event) {
        for index in 0..self.candidates.len() {
            let is_lost = !self.setup.has_watch && !self.faults_stopped || self.goes_wrong();
            let most = if self.goes_wrong() { 20 * SECOND } else { 50_000 };
            let delay = self.random.random_range(100..most);
            if !is_lost {
                let process = self.candidates[index].process;
                self.later(delay, Happening::Event { candidate: index, process, event: event.clone() });
            }
        }
    }

    /// Lets the state machine go on, as the loop of an elector does.
    fn step(&mut self, index: usize) {
        loop {
            let candidate = &mut self.candidates[index];
            let action = candidate.election.next(candidate.local(self.now), candidate.wall_clock(self.now));
            self.publish(index);
            match action {
                Action::Send { request, timeout, .. } => self.send(index, request, timeout),
                Action::Wait(wake) => {
                    if let Some(wake) = wake {
                        let wake = self.candidates[index].real(wake) + 1;
                        self.later(
                            wake.saturating_sub(self.now).max(1),
                            Happening::Wake { candidate: index },
                        );
                    }
                    return;
                }
                Action::End(_) => return self.die(index),
            }
        }
    }

    fn send(&mut self, index: usize, content: Request, timeout: Duration) {
        self.requests += 1;
        let request = self.requests;
        self.candidates[index].request = Some(request);
        let timeout = u64::try_from(timeout.as_micros()).unwrap() * 1000 / self.candidates[index].rate;
        let is_write = content != Request::Get;
        let failed = |why: &str, may_be_applied| Answer::Failed { why: why.into(), may_be_applied };
        let timed_out = Happening::Answer { candidate: index, request, answer: failed("timeout", is_write) };
        self.later(timeout, timed_out);
        let latency = self.random.random_range(100..50_000);
        let arrival =
            |delay| Happening::Arrival { candidate: index, request, content: content.clone(), delay };
        if !self.goes_wrong() {
            let back = self.random.random_range(100..50_000);
            return self.later(latency, arrival(Some(back)));
        }
        let long = self.random.random_range(1..30 * SECOND);
        let answer = match self.random.random_range(0..8) {
            // The request is lost.
            0 => return,
            // The request is carried out and its answer lost: at once, or late.
            1 => return self.later(latency, arrival(None)),
            2 => return self.later(long, arrival(None)),
            // The request arrives late, or its answer does.
            3 => return self.later(long, arrival(Some(latency))),
            4 => return self.later(latency, arrival(Some(long))),
            // The server fails, before or after it carries the request out.
            5 => {
                let arrival = arrival(None);
                self.later(latency, arrival);
                failed("500", is_write)
            }
            6 => failed("409", false),
            _ => Answer::NotFound("404".into()),
        };
        self.later(latency * 2, Happening::Answer { candidate: index, request, answer });
    }

    fn disturb(&mut self) {
        if self.faults_stopped {
            return;
        }
        let index = self.random.random_range(0..self.candidates.len());
        match self.random.random_range(0..4) {
            0 | 1 => {
                let pause = self.random.random_range(1..40 * SECOND);
                self.candidates[index].suspended_until = self.now + pause;
            }
            2 => self.die(index),
            _ if self.suspended(index).is_none() && self.candidates[index].is_running => {
                // The manager writes nothing any more, and tells what it has written.
                self.candidates[index].until = None;
                self.candidates[index].request = None;
                let last_writes = [("pods", ResourceVersion(self.last_write))].into_iter().collect();
                let local = self.candidates[index].local(self.now);
                let candidate = &mut self.candidates[index];
                candidate.election.stop(Some(last_writes), local);
                self.step(index);
            }
            _ => {}
        }
        let wait = self.random.random_range(1..2 * self.setup.disturbances * SECOND);
        self.later(wait, Happening::Disturbance);
    }

    /// The process ends, and another one is started in its place.
    fn die(&mut self, index: usize) {
        let candidate = &mut self.candidates[index];
        if std::mem::take(&mut candidate.is_running) {
            (candidate.until, candidate.request, candidate.suspended_until) = (None, None, 0);
            candidate.process += 1;
            self.later(SECOND / 2, Happening::Restart { candidate: index });
        }
    }

    fn restart(&mut self, index: usize) {
        let seed = self.random.random();
        let local = self.candidates[index].local(self.now);
        let candidate = &mut self.candidates[index];
        candidate.is_running = true;
        candidate.election = Election::new(options(index, candidate.process), seed, local);
        self.step(index);
    }

    /// Takes over what an elector publishes.
    fn publish(&mut self, index: usize) {
        let candidate = &mut self.candidates[index];
        let before = candidate.until;
        candidate.until = None;
        if let Leadership::Leading { until, last_writes } = candidate.election.leadership() {
            candidate.until = Some(candidate.real(until));
            if before.is_none() {
                self.leaders.push((self.now, index));
                if let Some(last_writes) = last_writes {
                    self.told += 1;
                    let told = last_writes.get("pods").unwrap().0;
                    assert!(told >= self.last_write, "told {told}, last write {}", self.last_write);
                }
            }
        }
    }

    fn check(&self) {
        let most = 100 + 3 * self.candidates.len() as u64 * (1 + self.now / SECOND);
        assert!(self.requests <= most, "{} requests in {} us", self.requests, self.now);
        assert!(self.happenings.len() < 1_000_000, "something happens without end at {} us", self.now);
        let leaders = self.candidates.iter().filter(|candidate| candidate.leads(self.now)).count();
        assert!(leaders <= 1, "{leaders} leaders at {} us: {:?}", self.now, self.leaders);
    }
}

fn options(index: usize, process: u64) -> ElectorOptions {
    ElectorOptions::new("kube-system", "l", format!("candidate-{index}-{process}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn there_is_one_leader_at_a_time_and_one_soon_after_faults(setup in setups()) {
        let mut world = World::new(setup);
        world.run();
        let at_end: Vec<usize> = (0..setup.candidates).filter(|index| world.candidates[*index].leads(END)).collect();
        prop_assert_eq!(at_end.len(), 1, "{:?}", world.leaders);
        let after: Vec<&(Micros, usize)> = world.leaders.iter().filter(|(at, _)| *at > FAULTS_END).collect();
        prop_assert!(after.len() <= 1, "leadership changes without a fault: {:?}", world.leaders);
        if let [(at, _)] = after[..] {
            // The slowest clock runs at nine tenths.
            let bound = (15 + 2) * SECOND * 10 / 9 + SECOND / 2;
            prop_assert!(at - FAULTS_END <= bound, "{} us without a leader", at - FAULTS_END);
        }
    }
}

#[test]
fn the_model_reaches_what_it_is_about() {
    let mut changes = 0;
    let mut told = 0;
    for seed in 0..20 {
        let setup = Setup { seed, candidates: 3, faults: 30, disturbances: 10, has_watch: seed % 2 == 0 };
        let mut world = World::new(setup);
        world.run();
        changes += world.leaders.len();
        told += world.told;
    }
    assert!(changes > 60, "{changes} leaders in 20 runs");
    assert!(told > 5, "{told} leaders were told about last writes");
}

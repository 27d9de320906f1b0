//! The simulated API server and network, and the suspensions, stops and kills of the processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kube_endpoint_core_model::ResourceVersion;
use serde_json::Value;

use super::candidate::{Candidate, ORIGIN};
use super::*;

#[derive(Debug)]
enum WorldEvent {
    /// A request arrives at the server, which carries it out or not. Its answer has this delay, or
    /// the network loses it.
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

pub(super) struct World {
    setup: Setup,
    random: ChaCha8Rng,
    now: Micros,
    queue: BinaryHeap<(Reverse<Micros>, Reverse<u64>, usize)>,
    events: Vec<Option<WorldEvent>>,
    pub(super) candidates: Vec<Candidate>,
    lease: Option<Lease>,
    version: u64,
    /// The version of the last write of a leader.
    last_write: u64,
    /// Counts requests.
    requests: u64,
    /// The number of the last request before the faults ended.
    faulty_requests: u64,
    faults_stopped: bool,
    pub(super) leaders: Vec<(Micros, usize)>,
    /// How many leaders learned the last writes of the one before.
    pub(super) told: usize,
    /// How many took the Lease back from their former process.
    pub(super) took_back: usize,
}

impl World {
    pub(super) fn new(setup: Setup) -> Self {
        let mut world = Self {
            setup,
            random: ChaCha8Rng::seed_from_u64(setup.seed),
            now: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            candidates: Vec::new(),
            lease: None,
            version: 1,
            last_write: 0,
            requests: 0,
            faulty_requests: 0,
            faults_stopped: false,
            leaders: Vec::new(),
            told: 0,
            took_back: 0,
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
            world.later(0, WorldEvent::Restart { candidate: index });
        }
        world.later(SECOND, WorldEvent::Disturbance);
        world.later(SECOND, WorldEvent::Write);
        world.later(FAULTS_END, WorldEvent::FaultsEnd);
        world
    }

    fn later(&mut self, delay: Micros, event: WorldEvent) {
        let index = self.events.len();
        self.events.push(Some(event));
        self.queue.push((Reverse(self.now + delay), Reverse(index as u64), index));
    }

    pub(super) fn run(&mut self) {
        while let Some((Reverse(at), _, index)) = self.queue.pop() {
            if at > END {
                return;
            }
            self.now = at;
            if let Some(event) = self.events[index].take() {
                self.happen(event);
                self.check();
            }
        }
    }

    /// Returns true if something goes wrong.
    fn goes_wrong(&mut self) -> bool {
        !self.faults_stopped && self.random.random_range(0..100) < self.setup.faults
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            // A late request arrives before the faults end, or never.
            WorldEvent::Arrival { request, .. } if request <= self.faulty_requests => {}
            WorldEvent::Arrival { candidate, request, content, delay } => {
                let answer = self.carry_out(content);
                if let Some(delay) = delay {
                    self.later(delay, WorldEvent::Answer { candidate, request, answer });
                }
            }
            WorldEvent::Answer { candidate, request, answer } => {
                if let Some(resumed) = self.suspended(candidate) {
                    return self.later(resumed, WorldEvent::Answer { candidate, request, answer });
                }
                if self.candidates[candidate].request == Some(request) {
                    let local = self.candidates[candidate].local(self.now);
                    self.candidates[candidate].request = None;
                    self.candidates[candidate].election.answered(answer, local);
                    self.step(candidate);
                }
            }
            WorldEvent::Event { candidate, process, event } => {
                if let Some(resumed) = self.suspended(candidate) {
                    return self.later(resumed, WorldEvent::Event { candidate, process, event });
                }
                if self.candidates[candidate].is_running && self.candidates[candidate].process == process {
                    let local = self.candidates[candidate].local(self.now);
                    self.candidates[candidate].election.event(event, local);
                    self.step(candidate);
                }
            }
            WorldEvent::Wake { candidate } => {
                if let Some(resumed) = self.suspended(candidate) {
                    return self.later(resumed, WorldEvent::Wake { candidate });
                }
                if self.candidates[candidate].is_running {
                    self.step(candidate);
                }
            }
            WorldEvent::Disturbance => self.disturb(),
            WorldEvent::Restart { candidate } => self.restart(candidate),
            WorldEvent::Write => {
                if self.candidates.iter().any(|candidate| candidate.leads(self.now)) {
                    self.version += 1;
                    self.last_write = self.version;
                }
                let next = self.random.random_range(1..SECOND);
                self.later(next, WorldEvent::Write);
            }
            WorldEvent::FaultsEnd => {
                self.faults_stopped = true;
                self.faulty_requests = self.requests;
                for index in 0..self.candidates.len() {
                    self.candidates[index].suspended_until = self.now;
                    // Stuck requests get an answer now, and watches begin anew.
                    if let Some(request) = self.candidates[index].request {
                        let answer = Answer::Failed { why: "reset".into(), may_be_applied: true };
                        self.later(1000, WorldEvent::Answer { candidate: index, request, answer });
                    }
                    self.later(2000, WorldEvent::Wake { candidate: index });
                }
                if let Some(lease) = self.lease.clone() {
                    self.show(Event::Applied(lease));
                }
            }
        }
    }

    /// Returns for how long a candidate stays suspended.
    fn suspended(&self, candidate: usize) -> Option<Micros> {
        let until = self.candidates[candidate].suspended_until;
        (until > self.now).then(|| until - self.now)
    }

    /// Carries out a request as the API server does, and returns its answer.
    fn carry_out(&mut self, request: Request) -> Answer {
        let refused = |why: &str| Answer::Conflict(why.into());
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
                self.later(delay, WorldEvent::Event { candidate: index, process, event: event.clone() });
            }
        }
    }

    /// Does what the loop of an elector does: asks the state machine what to do next, and does it.
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
                            WorldEvent::Wake { candidate: index },
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
        let timed_out = WorldEvent::Answer { candidate: index, request, answer: failed("timeout", is_write) };
        self.later(timeout, timed_out);
        let latency = self.random.random_range(100..50_000);
        let arrival =
            |delay| WorldEvent::Arrival { candidate: index, request, content: content.clone(), delay };
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
            6 if is_write => Answer::Conflict("409".into()),
            6 => failed("403", false),
            _ => Answer::NotFound("404".into()),
        };
        self.later(latency * 2, WorldEvent::Answer { candidate: index, request, answer });
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
                // The manager writes nothing any more, and tells the elector its last write.
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
        self.later(wait, WorldEvent::Disturbance);
    }

    /// The process ends, and another one is started in its place.
    fn die(&mut self, index: usize) {
        let candidate = &mut self.candidates[index];
        if std::mem::take(&mut candidate.is_running) {
            (candidate.until, candidate.request, candidate.suspended_until) = (None, None, 0);
            candidate.process += 1;
            self.later(SECOND / 2, WorldEvent::Restart { candidate: index });
        }
    }

    fn restart(&mut self, index: usize) {
        let seed = self.random.random();
        let has_proof = self.random.random_bool(0.5);
        let local = self.candidates[index].local(self.now);
        let candidate = &mut self.candidates[index];
        candidate.is_running = true;
        candidate.election = Election::new(options(index, candidate.process), seed, local);
        if let Some(former) = candidate.process.checked_sub(1).filter(|_| has_proof) {
            candidate.election.take_back_from(options(index, former).identity);
        }
        self.step(index);
    }

    /// Notes what an elector would publish, and checks the laws.
    fn publish(&mut self, index: usize) {
        let candidate = &mut self.candidates[index];
        let before = candidate.until;
        candidate.until = None;
        if let Leadership::Leading { until, predecessor } = candidate.election.leadership() {
            candidate.until = Some(candidate.real(until));
            if before.is_none() {
                assert!(predecessor.is_some() || self.leaders.is_empty(), "leaders: {:?}", self.leaders);
                self.leaders.push((self.now, index));
                self.took_back += usize::from(predecessor.as_ref().is_some_and(|it| it.was_killed));
                if let Some(told) = predecessor.and_then(|it| it.last_writes.get("pods")) {
                    self.told += 1;
                    assert!(told.0 >= self.last_write, "told {told}, last write {}", self.last_write);
                }
            }
        }
    }

    fn check(&self) {
        let most = 100 + 3 * self.candidates.len() as u64 * (1 + self.now / SECOND);
        assert!(self.requests <= most, "{} requests in {} us", self.requests, self.now);
        assert!(self.events.len() < 1_000_000, "something happens without end at {} us", self.now);
        let leaders = self.candidates.iter().filter(|candidate| candidate.leads(self.now)).count();
        assert!(leaders <= 1, "{leaders} leaders at {} us: {:?}", self.now, self.leaders);
    }
}

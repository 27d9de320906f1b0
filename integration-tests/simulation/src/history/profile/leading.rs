//! The steps of histories in which Services send traffic to the pod that leads.

use std::time::Duration;

use super::super::pieces::{Pieces, milliseconds, seconds};
use super::super::{Change, Fault, Identity, Kind, Manager, Process, Readiness, Rule, Verb};

/// The EndpointSelectors and the Leases. 3 is in another namespace than the others.
const SELECTORS: [u8; 4] = [0, 1, 2, 3];
/// The first of these seconds of a history have no trouble.
const CALM: u64 = 170;

impl Pieces {
    /// Adds nodes, pods, EndpointSelectors with all kinds of readiness, and Services that name
    /// them.
    pub(super) fn initial_leading(&mut self) {
        let begin = Duration::ZERO;
        for node in 0..self.nodes {
            self.change_at(begin, Change::Node { node, zone: 1 + node % 2 });
        }
        for pod in 0..self.pods {
            let node = pod % self.nodes;
            self.change_at(
                begin,
                Change::Pod { pod, app: 0, ready: true, node, life: 0, terminating: false },
            );
        }
        for selector in SELECTORS {
            let change = self.selector_with_readiness(selector);
            self.change_at(begin, change);
        }
        self.services = SELECTORS.len() as u8;
        for service in SELECTORS {
            let unready = self.random.chance(10);
            let families = self.random.pick(&[0, 0, 1, 2]);
            let create = Change::CreateService { service, app: None, headless: false, unready, families };
            self.change_at(begin, create);
            self.change_at(begin, Change::Annotate { service, selector: Some(service) });
        }
    }

    /// Adds changes of leaders, first without trouble, then with faults.
    pub(super) fn leading(&mut self) {
        let calm = seconds(CALM);
        let span = calm + seconds(self.random.between(60, 240));
        for lease in SELECTORS {
            let mut at = milliseconds(self.random.between(1, 8000));
            while at < span {
                let change = self.change_of_leader(lease);
                self.change_at(at, change);
                at += milliseconds(500 + self.random.logarithmic(80_000));
            }
        }
        for _ in 0..self.random.between(10, 30) {
            let (at, change) = (self.moment(span), self.change_of_candidates());
            self.change_at(at, change);
        }
        for _ in 0..self.random.between(1, 6) {
            let (at, fault) = (calm + self.moment(span - calm), self.fault_leading());
            let lasts = milliseconds(50 + self.random.logarithmic(60_000));
            self.fault_at(at, lasts, fault);
            let within = at + self.moment(lasts);
            for _ in 0..3 {
                let lease = self.random.pick(&SELECTORS);
                let change = self.change_of_leader(lease);
                self.change_at(within, change);
            }
        }
        for _ in 0..self.random.between(1, 4) {
            let (at, ending) = (calm + self.moment(span - calm), self.ending());
            self.process_at(at, ending);
            let lease = self.random.pick(&SELECTORS);
            let (at, change) = (at + self.moment(seconds(3)), self.change_of_leader(lease));
            self.change_at(at, change);
        }
        if self.random.chance(15) {
            let (at, seconds) = (calm + self.moment(span - calm), self.random.between(5, 60) as u32);
            self.process_at(at, Process::SecondLeader { seconds });
        }
        if self.random.chance(30) {
            let selector = self.random.pick(&SELECTORS);
            let (at, change) = (calm + self.moment(span - calm), self.selector_with_readiness(selector));
            self.change_at(at, change);
        }
    }

    fn selector_with_readiness(&mut self, selector: u8) -> Change {
        let all = [
            Readiness::Lease,
            Readiness::Lease,
            Readiness::Lease,
            Readiness::Newest,
            Readiness::Newest,
            Readiness::Condition,
        ];
        // Of four selectors, one at least has each kind that matters.
        let readiness = match selector {
            0 => Readiness::Lease,
            1 => Readiness::Newest,
            2 => self.random.pick(&[Readiness::Followers, Readiness::Followers, Readiness::Lease]),
            _ => self.random.pick(&all),
        };
        Change::EndpointSelector { selector, rule: Rule::App, app: 0, readiness }
    }

    fn pod_in_namespace_of(&mut self, number: u8) -> u8 {
        let pods: Vec<u8> = (0..self.pods).filter(|pod| (pod % 4 == 3) == (number % 4 == 3)).collect();
        if pods.is_empty() { number } else { self.random.pick(&pods) }
    }

    fn change_of_leader(&mut self, lease: u8) -> Change {
        match self.random.below(12) {
            0..=6 => {
                let pod = self.pod_in_namespace_of(lease);
                let identity = self.random.pick(&[
                    Identity::Name,
                    Identity::Name,
                    Identity::Name,
                    Identity::Uid,
                    Identity::Address,
                    Identity::Nobody,
                    Identity::TwoPods,
                ]);
                let duration = self.random.pick(&[10, 15, 15, 30]);
                let skew = self.random.pick(&[0, 0, 3, -3, -600, 600]);
                Change::Lead { lease, pod, identity, duration, skew }
            }
            7 | 8 => Change::Die { lease, restarts: self.random.chance(50) },
            9 | 10 => Change::Release { lease },
            _ => Change::DeleteLease { lease },
        }
    }

    fn change_of_candidates(&mut self) -> Change {
        let pod = self.random.below(self.pods.into()) as u8;
        match self.random.below(10) {
            0..=5 => Change::Condition {
                pod,
                is_true: self.random.chance(75),
                skew: self.random.pick(&[0, 0, 2, -2, 4]),
            },
            6 => Change::Terminate { pod },
            7 => Change::DeletePod { pod },
            8 => Change::Flap { pod },
            _ => Change::Pod {
                pod,
                app: 0,
                ready: self.random.chance(70),
                node: pod % self.nodes,
                life: self.random.below(2) as u8,
                terminating: false,
            },
        }
    }

    fn fault_leading(&mut self) -> Fault {
        if self.random.chance(30) {
            return match self.fault() {
                // A Lease that is not found is one that somebody has deleted.
                Fault::Refused { verb, kind, by, status: 404, retry_after, server } => {
                    Fault::Refused { verb, kind, by, status: 500, retry_after, server }
                }
                fault => fault,
            };
        }
        let by = Some(self.random.pick(&[Manager::A, Manager::A, Manager::B]));
        let by = by.filter(|by| self.managers.contains(by));
        let kind = Some(Kind::Leases);
        let milliseconds = self.random.between(500, 30_000) as u32;
        let status = self.random.pick(&[403, 429, 500, 503]);
        match self.random.below(7) {
            0 => Fault::WatchesStall { kind, by, seconds: self.random.between(10, 100) as u32 },
            1 => Fault::WatchesExpire { kind, by },
            2 => {
                Fault::Refused { verb: Some(Verb::Watch), kind, by, status, retry_after: None, server: None }
            }
            3 => Fault::Refused { verb: Some(Verb::Get), kind, by, status, retry_after: None, server: None },
            4 => Fault::AnswersLate { verb: Some(Verb::Get), kind, by, milliseconds },
            _ => Fault::WatchesLag { kind, by, milliseconds, bunched: self.random.chance(50), server: None },
        }
    }
}

//! The steps of a history of each kind.

use std::time::Duration;

use kube_endpoint_controllers::Gate;

use super::super::pieces::{Pieces, milliseconds, seconds};
use super::super::{Action, Change, Fault, Kind, Manager, Process, Setup, Step, TargetPort, Verb};

const TWO_DAYS: Duration = Duration::from_secs(48 * 3600);
const DAY: u64 = 24 * 3600;
const MANY_PODS: u16 = 2500;

impl Pieces {
    pub(super) fn bursts(&mut self, span: Duration, number: u64, longest_gap: u64) {
        for _ in 0..number {
            let at = self.moment(span);
            self.burst(at, longest_gap, 8);
        }
    }

    /// Adds short faults with changes during each of them.
    fn short_faults(&mut self, span: Duration, number: u64) {
        for _ in 0..number {
            let (at, fault) = (self.moment(span), self.fault());
            let lasts = milliseconds(50 + self.random.logarithmic(60_000));
            self.fault_at(at, lasts, fault);
            // Many faults concern only the first writes.
            self.burst(at + milliseconds(1), 40, 5);
            let within = at + self.moment(lasts);
            self.burst(within, 300, 4);
        }
    }

    pub(super) fn churn(&mut self) {
        let span = seconds(self.random.between(20, 240));
        let number = self.random.between(2, 8);
        self.bursts(span, number, 1000);
        let number = self.random.below(5);
        self.short_faults(span, number);
        if self.random.chance(30) {
            let (at, ending) = (self.moment(span), self.ending());
            self.process_at(at, ending);
        }
        if self.random.chance(10) {
            let at = self.moment(span);
            self.process_at(at, Process::Compact {});
        }
    }

    pub(super) fn rollouts(&mut self) {
        let span = seconds(60);
        let (app, pods) = (self.random.below(2) as u8, self.random.between(3, 12) as u8);
        // The first one has no predecessor.
        for life in 1..self.random.between(3, 5) as u8 {
            self.rollout(seconds(u64::from(life) * 30 - 25), app, pods, life);
        }
        let number = self.random.below(4);
        self.short_faults(span, number);
        if self.random.chance(30) {
            let (at, ending) = (self.moment(span), self.ending());
            self.process_at(at, ending);
        }
    }

    pub(super) fn scale(&mut self) {
        let most = if self.random.chance(4) { 2500 } else { self.random.pick(&[60, 120, 300]) };
        let mut at = seconds(5);
        for pods in [most, most / 3, most, 0] {
            self.change_at(at, Change::Scale { app: 0, pods });
            at += milliseconds(self.random.between(200, 8000));
            self.change_at(at, Change::Ready { app: 0, pods: pods / 2, ready: false });
            at += milliseconds(self.random.between(200, 8000));
            self.change_at(at, Change::Ready { app: 0, pods: pods / 2, ready: true });
            at += milliseconds(self.random.between(200, 20_000));
        }
        let number = self.random.below(3);
        self.short_faults(at, number);
        if self.random.chance(40) {
            self.change_at(at, Change::Scale { app: 0, pods: MANY_PODS });
            self.change_at(at + seconds(2), Change::Ready { app: 0, pods: 900, ready: false });
            self.change_at(at + seconds(9), Change::Ready { app: 0, pods: 900, ready: true });
            self.change_at(at + seconds(20), Change::Scale { app: 0, pods: 40 });
        }
    }

    pub(super) fn outages(&mut self) {
        let number = self.random.between(8, 20);
        self.bursts(TWO_DAYS, number, 3000);
        for _ in 0..self.random.between(2, 7) {
            let at = self.moment(TWO_DAYS);
            let lasts = seconds(self.random.logarithmic(DAY));
            let fault = self.fault();
            self.fault_at(at, lasts, fault);
            if self.random.chance(50) {
                let within = at + self.moment(lasts);
                self.burst(within, 3000, 5);
            }
        }
        if self.random.chance(40) {
            let age = self.random.logarithmic(DAY);
            let at = seconds(age) + self.moment(TWO_DAYS.saturating_sub(seconds(age)));
            let within = at - seconds(age / 2);
            self.burst(within, 3000, 5);
            self.process_at(at, Process::Restore { seconds: age as u32 });
        }
        if self.random.chance(50) {
            let (at, ending) = (self.moment(TWO_DAYS), self.ending());
            self.process_at(at, ending);
        }
        if self.random.chance(30) {
            let (at, jump) = (self.moment(TWO_DAYS), self.random.between(1, 100_000) as i64 - 50_000);
            self.process_at(at, Process::ServerClock { seconds: jump });
        }
        if self.random.chance(10) {
            let (at, applied) = (self.moment(seconds(DAY)), self.random.chance(50));
            let faults = [
                Fault::Unreachable { by: None, server: None },
                Fault::HalfOpen { by: None, applied, server: None },
            ];
            let fault = self.random.pick(&faults);
            self.fault_at(at, seconds(DAY), fault);
            for _ in 0..2 {
                let within = at + self.moment(seconds(DAY));
                self.burst(within, 3000, 5);
            }
        }
    }

    pub(super) fn leaders(&mut self) {
        let span = seconds(self.random.between(60, 200));
        let number = self.random.between(3, 8);
        self.bursts(span, number, 700);
        for _ in 0..self.random.between(1, 5) {
            let at = self.moment(span);
            match self.random.below(10) {
                0..=4 => {
                    let ending = self.ending();
                    self.process_at(at, ending);
                }
                5 => {
                    let seconds = self.random.between(1, 60) as u32;
                    // Work under way then goes on afterwards.
                    self.burst(at.saturating_sub(milliseconds(40)), 10, 8);
                    let suspend = if self.random.chance(30) {
                        Process::Suspend { seconds }
                    } else {
                        Process::SuspendPastLease { seconds: 60 + seconds }
                    };
                    self.process_at(at, suspend);
                }
                6 => {
                    let seconds = self.random.between(5, 60) as u32;
                    self.process_at(at, Process::SecondLeader { seconds });
                }
                7 => {
                    let delete = self.random.chance(50);
                    self.process_at(at, Process::EditLease { delete });
                }
                8 => {
                    let manager = self.random.pick(&self.managers.clone());
                    let seconds = self.random.between(0, 20_000) as i64 - 10_000;
                    self.process_at(at, Process::ManagerClock { manager, seconds });
                    self.process_at(at, Process::Stop { manager, away: 100 });
                }
                _ => {
                    let by = Some(self.random.pick(&self.managers.clone()));
                    let (verb, kind) = (None, Some(Kind::Leases));
                    let lasts = seconds(self.random.between(5, 60));
                    self.fault_at(at, lasts, Fault::RequestsLost { verb, kind, by });
                }
            }
            self.burst(at + milliseconds(100), 1500, 5);
        }
        let number = self.random.below(3);
        self.short_faults(span, number);
        if self.random.chance(40) {
            let manager = self.random.pick(&self.managers.clone());
            let (nth, applied) = (self.random.between(1, 4) as u8, self.random.chance(50));
            let at = self.moment(span);
            self.process_at(at, Process::KillAtLeaseWrite { manager, nth, applied });
        }
    }

    pub(super) fn namespaces(&mut self) {
        let span = seconds(120);
        let number = self.random.between(2, 6);
        self.bursts(span, number, 1000);
        for _ in 0..self.random.between(1, 4) {
            let at = self.moment(span);
            self.change_at(at, Change::DeleteNamespace { namespace: 1 });
            self.burst(at + milliseconds(20), 60, 6);
            let again = at + milliseconds(self.random.between(50, 8000));
            self.change_at(again, Change::CreateNamespace { namespace: 1 });
            for pod in [3, 7, 11] {
                let change = Change::Pod { pod, app: 1, ready: true, node: 0, life: 2, terminating: false };
                self.change_at(again + milliseconds(10), change);
            }
            let service = Change::CreateService {
                service: 3,
                app: Some(1),
                headless: false,
                unready: false,
                families: 0,
            };
            self.change_at(again + milliseconds(15), service);
        }
        let number = self.random.below(3);
        self.short_faults(span, number);
    }

    pub(super) fn dual_stack(&mut self) {
        let span = seconds(90);
        for _ in 0..self.random.between(3, 10) {
            let (at, dual) = (self.moment(span), self.random.chance(60));
            let service = self.random.below(self.services.into()) as u8;
            self.change_at(at, Change::ConvertFamilies { service, dual });
            self.burst(at + milliseconds(50), 100, 3);
        }
        let number = self.random.below(4);
        self.short_faults(span, number);
    }

    pub(super) fn foreign(&mut self) {
        let span = seconds(120);
        for _ in 0..self.random.between(1, 3) {
            let at = self.moment(span);
            let lasts = seconds(self.random.between(5, 300));
            let (service, milliseconds) =
                (self.random.below(self.services.into()) as u8, self.random.between(50, 3000) as u32);
            self.fault_at(at, lasts, Fault::ForeignWriter { service, milliseconds });
        }
        // It is short, because repetitions wait longer and longer.
        let (at, lasts) = (self.moment(span), seconds(self.random.between(5, 60)));
        self.fault_at(at, lasts, Fault::UpdatesUndone { kind: None, by: None });
        self.burst(at + milliseconds(1), 300, 5);
        for _ in 0..self.random.between(3, 12) {
            let at = self.moment(span);
            let nth = self.random.below(256) as u8;
            let edits = [
                Change::DeleteSlice { nth },
                Change::EmptySlice { nth },
                Change::LabelSlice { nth },
                Change::TakeSlice { nth },
                Change::ForeignSlice { service: nth % self.services, number: nth % 3 },
                Change::EditEndpoints { service: nth % self.services },
                Change::DeleteEndpoints { service: nth % self.services },
            ];
            let edit = self.random.pick(&edits);
            self.change_at(at, edit);
        }
        let number = self.random.between(1, 4);
        self.bursts(span, number, 1000);
        for _ in 0..self.random.between(2, 8) {
            let at = self.moment(span);
            let nth = self.random.below(256) as u8;
            let edits =
                [Change::AddEndpoint { nth }, Change::CopyEndpoint { nth }, Change::CopySlice { nth }];
            let edit = self.random.pick(&edits);
            self.change_at(at, edit);
        }
    }

    /// Adds steps in which a manager lists an older state when it starts, or its watches lag while
    /// the other one, or it itself, writes.
    pub(super) fn stale(&mut self) {
        let span = seconds(60);
        let number = self.random.between(2, 6);
        self.bursts(span, number, 500);
        for _ in 0..self.random.between(1, 4) {
            let (at, lasts) = (self.moment(span), seconds(self.random.between(3, 90)));
            let by = Some(self.random.pick(&self.managers.clone()));
            if self.random.chance(50) {
                let versions = self.random.between(1, 60) as u32;
                self.fault_at(at, lasts, Fault::OlderLists { by, versions });
                if self.random.chance(50) {
                    // As the server of an older list, the watches are behind, too.
                    let milliseconds = self.random.between(500, 20_000) as u32;
                    let lag =
                        Fault::WatchesLag { kind: None, by, milliseconds, bunched: false, server: None };
                    self.fault_at(at, lasts, lag);
                }
                let away = self.random.between(1, 3000) as u32;
                self.process_at(at + milliseconds(10), Process::Kill { manager: Manager::A, away });
            } else {
                let kind = self.random.pick(&[
                    None,
                    Some(Kind::EndpointSlices),
                    Some(Kind::Pods),
                    Some(Kind::Services),
                ]);
                let milliseconds = self.random.between(2000, 40_000) as u32;
                self.fault_at(
                    at,
                    lasts,
                    Fault::WatchesLag { kind, by, milliseconds, bunched: false, server: None },
                );
            }
            self.burst(at + milliseconds(50), 800, 8);
            self.back_and_forth(at + seconds(1), 3000);
        }
    }

    /// Adds steps in which objects change and change back while watches are away and the server
    /// compacts their history.
    pub(super) fn unobserved(&mut self) {
        let span = seconds(60);
        self.bursts(span, 2, 500);
        for _ in 0..self.random.between(1, 4) {
            let (at, lasts) = (self.moment(span), seconds(self.random.between(1, 40)));
            let by = None;
            let kind =
                self.random.pick(&[None, Some(Kind::Pods), Some(Kind::Services), Some(Kind::EndpointSlices)]);
            self.fault_at(at, lasts, Fault::WatchesExpire { kind, by });
            self.fault_at(at, lasts, Fault::RequestsLost { verb: None, kind, by });
            self.coalesced(at + lasts + seconds(20));
            for _ in 0..self.random.between(1, 4) {
                let within = at + self.moment(lasts);
                let pod = self.random.below(self.pods.into()) as u8;
                let service = self.random.below(self.services.into()) as u8;
                match self.random.below(5) {
                    0 => self.change_at(within, Change::Flap { pod }),
                    4 => self.change_at(within, Change::ReplacePod { pod }),
                    1 => {
                        let app = Some(self.random.below(2) as u8);
                        self.change_at(within, Change::ReplaceService { service, app, families: 0 });
                    }
                    2 => {
                        self.change_at(within, Change::Select { service, app: None });
                        let app = Some(self.random.below(2) as u8);
                        self.change_at(within + milliseconds(200), Change::Select { service, app });
                    }
                    _ => {
                        let nth = self.random.below(256) as u8;
                        self.change_at(within, Change::DeleteSlice { nth });
                    }
                }
            }
            self.process_at(at + lasts, Process::Compact {});
        }
    }

    /// Adds steps in which the process ends at each of several writes in a row.
    pub(super) fn intermediate(&mut self) {
        let mut at = seconds(2);
        for _ in 0..self.random.between(2, 6) {
            let manager = self.random.pick(&self.managers.clone());
            let nth = self.random.between(1, 9) as u8;
            let applied = self.random.chance(50);
            self.process_at(at, Process::KillAtWrite { manager, nth, applied });
            self.burst(at + milliseconds(10), 200, 8);
            at += seconds(self.random.between(5, 60));
        }
    }

    /// Adds steps in which pods end and come while the server refuses creates: endpoints of ended
    /// pods must not stay.
    pub(super) fn refusals(&mut self) {
        let number = self.random.between(1, 4);
        self.bursts(seconds(20), number, 500);
        for round in 0..self.random.between(1, 3) {
            let begin = seconds(30 + round * 3600);
            let status = self.random.pick(&[403, 422]);
            let fault = Fault::Refused {
                verb: Some(Verb::Create),
                kind: Some(Kind::EndpointSlices),
                by: None,
                status,
                retry_after: None,
                server: None,
            };
            let lasts = seconds(self.random.between(40, 55) * 60);
            self.fault_at(begin, lasts, fault);
            let app = self.random.below(2) as u8;
            for number in 0..self.random.between(6, 14) as u8 {
                let at = begin + milliseconds(self.random.below(5000));
                let node = number % self.nodes;
                // These numbers are those of the first namespace.
                let pod = 60 + 4 * number + number % 3;
                self.change_at(
                    at,
                    Change::Pod { pod, app, ready: true, node, life: round as u8, terminating: false },
                );
            }
            for _ in 0..self.random.between(1, 6) {
                let at = begin + milliseconds(self.random.below(8000));
                let pod = self.random.below(self.pods.into()) as u8;
                self.change_at(at, Change::DeletePod { pod });
            }
        }
    }

    /// Adds steps in which the named ports of pods have different numbers, so that slices exchange
    /// their pods.
    pub(super) fn moves(&mut self) {
        let span = seconds(self.random.between(30, 120));
        for _ in 0..self.random.between(4, 16) {
            let (at, service) = (self.moment(span), self.random.below(self.services.into()) as u8);
            let port = if self.random.chance(30) {
                self.random.pick(TargetPort::ALL)
            } else {
                self.random.pick(&[TargetPort::Web, TargetPort::Alt])
            };
            self.change_at(at, Change::TargetPort { service, port });
            if self.random.chance(30) {
                self.burst(at + milliseconds(20), 50, 3);
            }
        }
        let number = self.random.below(3);
        self.short_faults(span, number);
    }

    /// Adds steps in which watches of outputs are away while a manager and a user write them, so
    /// that the next list shows both at once.
    fn coalesced(&mut self, at: Duration) {
        let kind = Some(self.random.pick(&[Kind::EndpointSlices, Kind::EndpointSlices, Kind::Endpoints]));
        let lasts = seconds(self.random.between(5, 20));
        self.fault_at(at, lasts, Fault::WatchesExpire { kind, by: None });
        for verb in [Verb::List, Verb::Watch] {
            self.fault_at(at, lasts, Fault::RequestsLost { verb: Some(verb), kind, by: None });
        }
        for number in 0..self.random.between(1, 4) {
            let at = at + milliseconds(500 + 1200 * number);
            let (pod, life) = (self.random.below(self.pods.into()) as u8, 3);
            let app = self.random.below(2) as u8;
            let pod = Change::Pod { pod, app, ready: true, node: 0, life, terminating: false };
            self.change_at(at, pod);
            for _ in 0..3 {
                let nth = self.random.below(256) as u8;
                let service = nth % self.services;
                let edits = [
                    Change::EmptySlice { nth },
                    Change::DeleteSlice { nth },
                    Change::EditEndpoints { service },
                ];
                let edit = self.random.pick(&edits);
                self.change_at(at + milliseconds(1100), edit);
            }
        }
    }

    /// Adds steps in which watches of outputs lag behind the manager's own writes.
    pub(super) fn lagging(&mut self, setup: &Setup) {
        let mut at = seconds(3);
        for _ in 0..self.random.between(2, 5) {
            let lasts = seconds(self.random.between(10, 40));
            let kind = Some(self.random.pick(&[Kind::EndpointSlices, Kind::EndpointSlices, Kind::Endpoints]));
            let milliseconds = self.random.between(4000, 20_000) as u32;
            let lag = Fault::WatchesLag {
                kind,
                by: None,
                milliseconds,
                bunched: self.random.chance(30),
                server: None,
            };
            self.fault_at(at, lasts, lag);
            if self.random.chance(60) {
                let verb = Some(self.random.pick(&[Verb::Create, Verb::Update]));
                self.fault_at(at, lasts / 4, Fault::AnswersLost { verb, kind, by: None });
            }
            self.burst(at + Duration::from_millis(50), 300, 6);
            for _ in 0..3 {
                let within = at + self.moment(lasts / 2);
                self.back_and_forth(within, 2500);
            }
            at += lasts + seconds(self.random.between(1, 60));
        }
        if setup.without.contains(&Gate::EndpointsRepair) {
            let edits_endpoints = |step: &Step| match &step.action {
                Action::Change(change) => change.writes_endpoints() && !step.at.is_zero(),
                Action::Fault(..) | Action::Process(_) => false,
            };
            self.steps.retain(|step| !edits_endpoints(step));
        }
    }

    pub(super) fn restores(&mut self) {
        let span = seconds(self.random.between(60, 600));
        let number = self.random.between(4, 10);
        self.bursts(span, number, 1000);
        for _ in 0..self.random.between(1, 3) {
            let at = seconds(2) + self.moment(span);
            let age = self.random.logarithmic(at.as_secs()) as u32;
            if self.random.chance(60) {
                // The restore undoes the last write before the manager sees it.
                let kind = Some(self.random.pick(&[Kind::EndpointSlices, Kind::Endpoints]));
                let milliseconds = self.random.between(2000, 20_000) as u32;
                let lag = Fault::WatchesLag { kind, by: None, milliseconds, bunched: false, server: None };
                self.fault_at(at.saturating_sub(seconds(2)), seconds(4), lag);
            }
            self.burst(at.saturating_sub(seconds(1)), 200, 6);
            self.process_at(at, Process::Restore { seconds: age });
            self.burst(at + milliseconds(50), 500, 3);
        }
        let number = self.random.below(3);
        self.short_faults(span, number);
    }
}

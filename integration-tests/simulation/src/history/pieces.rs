//! Makes the pieces of histories: initial objects, random changes, random faults, rollouts.

use std::time::Duration;

use super::{Action, Change, Fault, Kind, Manager, Process, Step, TargetPort, Verb};
use crate::random::Random;

const WATCHED: [Kind; 5] = [Kind::Pods, Kind::Services, Kind::Nodes, Kind::Endpoints, Kind::EndpointSlices];
const OUTPUTS: [Kind; 2] = [Kind::Endpoints, Kind::EndpointSlices];
const WRITES: [Verb; 3] = [Verb::Create, Verb::Update, Verb::Delete];
/// The Services without a selector at the beginning.
const WITHOUT_SELECTOR: [u8; 3] = [5, 6, 7];
/// A Service that does not exist.
const LEFT_OVER: u8 = 20;
/// A Service that does not exist until its Endpoints do.
const RESTORED: u8 = 21;

/// A history in the making.
pub(super) struct Pieces {
    pub(super) random: Random,
    pub(super) steps: Vec<Step>,
    /// The number of Services from which changes choose.
    pub(super) services: u8,
    pub(super) pods: u8,
    pub(super) nodes: u8,
    /// The managers from which faults and kills choose.
    pub(super) managers: Vec<Manager>,
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

impl Pieces {
    pub(super) fn change_at(&mut self, at: Duration, change: Change) {
        self.steps.push(Step { at, action: Action::Change(change) });
    }

    pub(super) fn fault_at(&mut self, at: Duration, lasts: Duration, fault: Fault) {
        self.steps.push(Step { at, action: Action::Fault(lasts, fault) });
    }

    pub(super) fn process_at(&mut self, at: Duration, process: Process) {
        self.steps.push(Step { at, action: Action::Process(process) });
    }

    /// Returns a time in the span, in milliseconds.
    pub(super) fn moment(&mut self, span: Duration) -> Duration {
        milliseconds(self.random.below(span.as_millis() as u64))
    }

    /// Adds nodes, Services of all kinds, Endpoints and pods, before the managers start.
    pub(super) fn initial(&mut self) {
        for node in 0..self.nodes {
            self.change_at(Duration::ZERO, Change::Node { node, zone: 1 + node % 2 });
        }
        for service in 0..self.services {
            let app = (!WITHOUT_SELECTOR.contains(&service)).then_some(service % 2);
            let (headless, unready) = (self.random.chance(30), self.random.chance(15));
            let families = self.random.pick(&[0, 0, 1, 2]);
            self.change_at(
                Duration::ZERO,
                Change::CreateService { service, app, headless, unready, families },
            );
            if app.is_none() {
                let addresses = (1..2 + self.random.below(6) as u8).collect();
                self.change_at(Duration::ZERO, Change::Endpoints { service, addresses, families });
            }
        }
        if self.random.chance(20) {
            self.change_at(Duration::ZERO, Change::LeftoverEndpoints { service: LEFT_OVER });
        }
        let first = self.random.between(u64::from(self.pods) / 2, u64::from(self.pods)) as u8;
        for pod in 0..first {
            let (app, ready) = (self.random.below(2) as u8, self.random.chance(80));
            let node = self.random.below(self.nodes.into()) as u8;
            self.change_at(
                Duration::ZERO,
                Change::Pod { pod, app, ready, node, life: 0, terminating: false },
            );
        }
    }

    /// Adds a restore from a backup, which creates Endpoints before their Service. It has a random
    /// source of its own, so that the choices of the rest of the history do not depend on it.
    pub(super) fn restored_backup(&mut self, mut random: Random) {
        if random.chance(10) {
            let service = RESTORED;
            let at = milliseconds(random.between(1000, 60_000));
            self.change_at(at, Change::CopiedEndpoints { service });
            let at = at + milliseconds(random.logarithmic(60_000));
            let (headless, unready, families) = (false, false, 0);
            self.change_at(at, Change::CreateService { service, app: None, headless, unready, families });
        }
    }

    fn app(&mut self) -> Option<u8> {
        self.random.chance(70).then(|| self.random.below(2) as u8)
    }

    /// Returns a change of an input or an output.
    pub(super) fn change(&mut self) -> Change {
        let service = self.random.below(self.services.into()) as u8;
        let pod = self.random.below(self.pods.into()) as u8;
        let node = self.random.below(self.nodes.into()) as u8;
        let nth = self.random.below(256) as u8;
        let (flag, small) = (self.random.chance(50), self.random.below(3) as u8);
        match self.random.below(72) {
            0..=3 => Change::CreateService {
                service,
                app: self.app(),
                headless: flag,
                unready: self.random.chance(20),
                families: small,
            },
            4..=7 => Change::Select { service, app: self.app() },
            8 => Change::LabelService { service, value: small },
            9 => Change::PublishUnready { service, unready: flag },
            10 => Change::Distribute { service, close: flag },
            11 | 12 => Change::ConvertFamilies { service, dual: flag },
            13 => Change::ServicePorts { service, ports: nth % 4 },
            14 | 15 => Change::DeleteService { service },
            16 | 17 => Change::ReplaceService { service, app: self.app(), families: small },
            18..=29 => Change::Pod {
                pod,
                app: self.random.below(2) as u8,
                ready: flag,
                node,
                life: self.random.below(2) as u8,
                terminating: self.random.chance(10),
            },
            30 | 31 => Change::Flap { pod },
            32 | 33 => Change::RelabelPod { pod, app: self.random.below(2) as u8 },
            34 if small == 0 => Change::EvictPod { pod },
            34 => Change::FinishPod { pod, failed: flag },
            35..=38 => Change::DeletePod { pod },
            39 | 40 => Change::Node { node, zone: small },
            41 => Change::DeleteNode { node },
            42..=45 => {
                let number = self.random.below(4);
                let addresses = (0..number).map(|_| self.random.below(9) as u8).collect();
                Change::Endpoints { service, addresses, families: small }
            }
            46 => Change::SkipMirror { service, skip: flag },
            47 | 48 => Change::DeleteEndpoints { service },
            49 => Change::EditEndpoints { service },
            50..=52 => Change::DeleteSlice { nth },
            53 | 54 => Change::EmptySlice { nth },
            55 => Change::LabelSlice { nth },
            56 => Change::TakeSlice { nth },
            57 => Change::ForeignSlice { service, number: small },
            58..=61 => Change::TargetPort { service, port: self.random.pick(TargetPort::ALL) },
            62 => Change::Topology { service, auto: self.random.chance(70) },
            63 => Change::ShareAddresses { pod, with: self.random.below(self.pods.into()) as u8 },
            64 => Change::PodPhase { pod, unknown: flag },
            65 => Change::PodOnNode { pod, node: self.random.below(u64::from(self.nodes) + 2) as u8 },
            66 => Change::RemoveNode { node },
            67 => Change::DisownSlice { nth },
            68 => Change::ReplacePod { pod },
            _ => self.random.pick(&[
                Change::Scale { app: 0, pods: 0 },
                Change::Scale { app: 1, pods: 12 },
                Change::Ready { app: 1, pods: 6, ready: flag },
            ]),
        }
    }

    /// Adds several changes in short succession.
    pub(super) fn burst(&mut self, at: Duration, longest_gap: u64, most: u64) {
        let mut at = at;
        for _ in 0..self.random.between(1, most + 1) {
            let change = self.change();
            self.change_at(at, change);
            at += milliseconds(self.random.below(longest_gap + 1));
        }
    }

    /// Adds changes that another change soon undoes: the second state equals the first one, and
    /// outputs of the state in between must not stay.
    pub(super) fn back_and_forth(&mut self, at: Duration, longest_gap: u64) {
        let mut at = at;
        let app = self.random.below(2) as u8;
        for _ in 0..self.random.between(1, 4) {
            let pod = self.random.below(self.pods.into()) as u8;
            let service = self.random.below(self.services.into()) as u8;
            let gap = milliseconds(self.random.between(50, longest_gap));
            let [there, back] = match self.random.below(4) {
                0 | 1 => [Change::RelabelPod { pod, app: 7 }, Change::RelabelPod { pod, app }],
                2 => [Change::Select { service, app: Some(7) }, Change::Select { service, app: Some(app) }],
                _ => {
                    let addresses = (1..4).collect();
                    [
                        Change::DeleteEndpoints { service },
                        Change::Endpoints { service, addresses, families: 0 },
                    ]
                }
            };
            self.change_at(at, there);
            self.change_at(at + gap, back);
            at += milliseconds(self.random.below(longest_gap));
        }
    }

    fn by(&mut self) -> Option<Manager> {
        let one = self.random.pick(&self.managers.clone());
        self.random.chance(40).then_some(one)
    }

    /// Returns a fault of lists, watches, requests or connections.
    pub(super) fn fault(&mut self) -> Fault {
        let (by, flag) = (self.by(), self.random.chance(50));
        let (verb, output) = (Some(self.random.pick(&WRITES)), Some(self.random.pick(&OUTPUTS)));
        let kind = Some(self.random.pick(&WATCHED));
        let kind_or_all = kind.filter(|_| self.random.chance(70));
        let late = self.random.logarithmic(30_000) as u32;
        match self.random.below(32) {
            0 => Fault::Unreachable { by, server: None },
            1 => Fault::HalfOpen { by, applied: flag, server: None },
            2..=8 => {
                let (verb, kind) = match self.random.below(6) {
                    0 => (None, None),
                    1 => (Some(Verb::List), kind),
                    2 => (Some(Verb::Watch), kind),
                    _ => (verb, output),
                };
                let status = self.random.pick(&[400, 401, 403, 404, 409, 422, 429, 500, 503]);
                let wait = self.random.pick(&[None, Some(0), Some(1), Some(5), Some(32), Some(86_400)]);
                let retry_after = if matches!(status, 429 | 503) { wait } else { None };
                Fault::Refused { verb, kind, by, status, retry_after, server: None }
            }
            9..=12 => Fault::AnswersLost { verb, kind: output, by },
            13 => Fault::RequestsLost { verb, kind: output, by },
            14 => Fault::RequestsLost { verb: None, kind, by },
            15 => Fault::RequestsLate { verb: None, kind: kind_or_all, by, milliseconds: late },
            16 => Fault::RequestsLate { verb, kind: output, by, milliseconds: late },
            17..=19 => Fault::AnswersLate { verb, kind: output, by, milliseconds: late },
            20 => Fault::AnswersLate { verb: None, kind: kind_or_all, by, milliseconds: late },
            21 | 22 => Fault::WatchesStall { kind, by, seconds: self.random.between(1, 120) as u32 },
            23..=25 => {
                Fault::WatchesLag { kind: kind_or_all, by, milliseconds: late, bunched: flag, server: None }
            }
            26 => Fault::WatchesBreak { kind, by, after: self.random.below(4) as u8 },
            27 => Fault::WatchesEnd { kind, by, after: self.random.below(4) as u8 },
            28 | 29 => Fault::WatchesExpire { kind: kind_or_all, by },
            30 => Fault::OlderLists { by, versions: self.random.between(1, 20) as u32 },
            _ => Fault::ContinueRefused { by, status: self.random.pick(&[400, 410, 500]) },
        }
    }

    /// Replaces the pods of an app one after another, each before its predecessor ends, as a
    /// Deployment does.
    pub(super) fn rollout(&mut self, at: Duration, app: u8, pods: u8, life: u8) {
        let mut at = at;
        for number in 0..pods {
            let (new, old) = (100 + 2 * number + life % 2, 100 + 2 * number + (life + 1) % 2);
            let node = number % self.nodes;
            let pod = |ready| Change::Pod { pod: new, app, ready, node, life, terminating: false };
            self.change_at(at, pod(false));
            at += milliseconds(self.random.between(10, 1500));
            self.change_at(at, pod(true));
            let soon = milliseconds(self.random.below(50));
            self.end_pod(at + soon, old);
        }
    }

    /// Deletes a pod as a kubelet shows it: it is being deleted and still ready, its containers
    /// have ended, and it is gone.
    fn end_pod(&mut self, at: Duration, pod: u8) {
        let ended = at + milliseconds(self.random.between(200, 3000));
        let gone = ended + milliseconds(self.random.between(50, 1000));
        let failed = self.random.chance(30);
        self.change_at(at, Change::Terminate { pod });
        self.change_at(ended, Change::FinishPod { pod, failed });
        self.change_at(gone, Change::DeletePod { pod });
    }

    /// Returns a kill, a stop, or a kill at a write.
    pub(super) fn ending(&mut self) -> Process {
        let manager = self.random.pick(&self.managers.clone());
        let away = self.random.logarithmic(20_000) as u32;
        match self.random.below(5) {
            0 => Process::Kill { manager, away },
            1 => Process::Stop { manager, away },
            _ => Process::KillAtWrite {
                manager,
                nth: self.random.between(1, 6) as u8,
                applied: self.random.chance(50),
            },
        }
    }
}

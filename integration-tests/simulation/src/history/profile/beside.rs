//! The steps of histories in which kube-controller-manager and the endpoint selector controller run
//! beside each other.

use std::time::Duration;

use super::super::pieces::{Pieces, milliseconds, seconds};
use super::super::{Change, Fault, Kind, Manager, Process, Readiness, Rule, Verb};

/// The EndpointSelectors. Each namespace has one at least.
const SELECTORS: [u8; 3] = [0, 1, 3];
/// A Service whose Endpoints a user has written.
const WITH_ENDPOINTS: u8 = 1;

impl Pieces {
    /// Adds nodes, Services with a selector, pods on several tracks, and EndpointSelectors.
    pub(super) fn initial_beside(&mut self) {
        let begin = Duration::ZERO;
        for node in 0..self.nodes {
            self.change_at(begin, Change::Node { node, zone: 1 + node % 2 });
        }
        for service in 0..self.services {
            let app = (service != WITH_ENDPOINTS).then_some(service % 2);
            let (headless, unready) = (self.random.chance(25), self.random.chance(10));
            let families = self.random.pick(&[0, 0, 1, 2]);
            self.change_at(begin, Change::CreateService { service, app, headless, unready, families });
            if app.is_none() {
                self.change_at(begin, Change::Endpoints { service, addresses: vec![1, 2], families });
            }
        }
        for pod in 0..self.pods {
            let (app, ready) = (self.random.below(2) as u8, self.random.chance(80));
            let node = self.random.below(self.nodes.into()) as u8;
            self.change_at(begin, Change::Pod { pod, app, ready, node, life: 0, terminating: false });
            let track = self.random.below(4) as u8;
            if track > 0 {
                self.change_at(begin, Change::TrackPod { pod, track });
            }
        }
        for selector in SELECTORS {
            let selector = self.endpoint_selector(selector);
            self.change_at(begin, selector);
        }
        self.change_at(begin, Change::AttachKubernetes { selector: 0 });
    }

    /// Adds hand-overs in both directions, and selectors that change and vanish, with faults of
    /// either side.
    pub(super) fn beside(&mut self) {
        let span = seconds(self.random.between(60, 240));
        for service in 0..self.services {
            let mut at = self.moment(seconds(30));
            while at < span {
                let change = self.hand_over(service);
                self.change_at(at, change);
                // The next one comes before the first is done, or long after.
                at += milliseconds(100 + self.random.logarithmic(90_000));
            }
        }
        for _ in 0..self.random.between(2, 8) {
            let at = self.moment(span);
            self.burst_beside(at, 1000, 8);
        }
        for life in 1..self.random.between(1, 3) as u8 {
            let (at, pods) = (self.moment(span), self.random.between(3, 8) as u8);
            let app = self.random.below(2) as u8;
            self.rollout(at, app, pods, life);
        }
        for _ in 0..self.random.between(0, 5) {
            let (at, fault) = (self.moment(span), self.fault_beside());
            let lasts = milliseconds(50 + self.random.logarithmic(60_000));
            self.fault_at(at, lasts, fault);
            self.burst_beside(at + milliseconds(1), 40, 5);
            let within = at + self.moment(lasts);
            self.burst_beside(within, 300, 4);
        }
        for _ in 0..self.random.below(3) {
            let (at, ending) = (self.moment(span), self.ending());
            self.process_at(at, ending);
            self.burst_beside(at + milliseconds(20), 200, 4);
        }
        if self.random.chance(15) {
            let (at, seconds) = (self.moment(span), self.random.between(5, 60) as u32);
            self.process_at(at, Process::SecondLeader { seconds });
            self.burst_beside(at + milliseconds(500), 1000, 6);
        }
        if self.random.chance(25) {
            let at = self.moment(span);
            self.change_at(at, Change::DeleteEndpointSelectors {});
            self.burst_beside(at + milliseconds(20), 2000, 8);
            for selector in SELECTORS {
                let again = at + milliseconds(self.random.between(2000, 40_000));
                let selector = self.endpoint_selector(selector);
                self.change_at(again, selector);
            }
        }
    }

    /// Returns the number of an EndpointSelector in the namespace of a Service.
    fn selector_for(&mut self, service: u8) -> u8 {
        if service % 4 == 3 { 3 } else { self.random.pick(&[0, 0, 1]) }
    }

    fn hand_over(&mut self, service: u8) -> Change {
        let selector = self.selector_for(service);
        match self.random.below(10) {
            0..=4 => Change::Attach { service, selector },
            5..=7 => Change::HandBack { service, app: service % 2 },
            8 => Change::Annotate { service, selector: Some(selector) },
            _ => Change::Annotate { service, selector: None },
        }
    }

    fn endpoint_selector(&mut self, selector: u8) -> Change {
        let rule = self.random.pick(&[
            Rule::App,
            Rule::App,
            Rule::AnyApp,
            Rule::AnyApp,
            Rule::Stable,
            Rule::Stable,
            Rule::Tracked,
            Rule::Untracked,
            Rule::Nobody,
            Rule::Invalid,
        ]);
        let (app, readiness) = (self.random.below(2) as u8, Readiness::AllReady);
        Change::EndpointSelector { selector, rule, app, readiness }
    }

    fn burst_beside(&mut self, at: Duration, longest_gap: u64, most: u64) {
        let mut at = at;
        for _ in 0..self.random.between(1, most + 1) {
            let change = self.change_beside();
            self.change_at(at, change);
            at += milliseconds(self.random.below(longest_gap + 1));
        }
    }

    fn change_beside(&mut self) -> Change {
        let service = self.random.below(self.services.into()) as u8;
        let pod = self.random.below(self.pods.into()) as u8;
        let selector = self.random.pick(&SELECTORS);
        match self.random.below(24) {
            0..=5 => Change::Pod {
                pod,
                app: self.random.below(2) as u8,
                ready: self.random.chance(60),
                node: self.random.below(self.nodes.into()) as u8,
                life: self.random.below(2) as u8,
                terminating: self.random.chance(10),
            },
            6 | 7 => Change::Flap { pod },
            8 | 9 => Change::DeletePod { pod },
            10 => Change::RelabelPod { pod, app: self.random.below(2) as u8 },
            11 | 12 => Change::TrackPod { pod, track: self.random.below(4) as u8 },
            13 => Change::LabelService { service, value: self.random.below(3) as u8 },
            14 | 15 => self.endpoint_selector(selector),
            16 => Change::DeleteEndpointSelector { selector },
            17..=19 => self.hand_over(service),
            20 => Change::Endpoints { service: WITH_ENDPOINTS, addresses: vec![3], families: 0 },
            21 => Change::DeleteSlice { nth: self.random.below(256) as u8 },
            22 => Change::FinishPod { pod, failed: self.random.chance(50) },
            _ => Change::ReplacePod { pod },
        }
    }

    fn fault_beside(&mut self) -> Fault {
        if self.random.chance(60) {
            return self.fault();
        }
        let by = Some(self.random.pick(&self.managers.clone()));
        let kind = self.random.pick(&[
            Some(Kind::EndpointSelectors),
            Some(Kind::EndpointSelectors),
            Some(Kind::Services),
            Some(Kind::EndpointSlices),
        ]);
        let milliseconds = self.random.between(500, 30_000) as u32;
        match self.random.below(6) {
            0 => Fault::WatchesStall { kind, by, seconds: self.random.between(1, 40) as u32 },
            1 => Fault::WatchesExpire { kind, by },
            2 => Fault::RequestsLost { verb: None, kind, by },
            3 => Fault::Refused {
                verb: Some(Verb::Delete),
                kind: None,
                by,
                status: self.random.pick(&[409, 429, 500]),
                retry_after: None,
                server: None,
            },
            4 => Fault::Unreachable { by: Some(Manager::K), server: None },
            _ => Fault::WatchesLag { kind, by, milliseconds, bunched: false, server: None },
        }
    }
}

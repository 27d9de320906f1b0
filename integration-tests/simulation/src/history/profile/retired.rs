//! The steps of histories in which Services lose their Endpoints and get them back.

use std::time::Duration;

use super::super::pieces::{Pieces, milliseconds, seconds};
use super::super::{Change, Fault, Kind, Process, Retirement, Verb};

impl Pieces {
    /// Adds retirements among changes of all kinds, with faults of the requests that a retirement
    /// needs, and processes that end during one.
    pub(super) fn retired(&mut self) {
        let span = seconds(self.random.between(60, 300));
        for service in 0..self.services {
            let mut at = self.moment(seconds(20));
            while at < span {
                let setting = self.random.pick(Retirement::ALL);
                self.change_at(at, Change::Retire { service, setting });
                // The next one comes before the first is done, or long after.
                at += milliseconds(20 + self.random.logarithmic(120_000));
            }
        }
        let number = self.random.between(3, 9);
        self.bursts(span, number, 1000);
        for _ in 0..self.random.between(1, 6) {
            let (at, fault) = (self.moment(span), self.fault_of_retirement());
            let lasts = milliseconds(50 + self.random.logarithmic(60_000));
            self.fault_at(at, lasts, fault);
            let within = at + self.moment(lasts);
            for _ in 0..3 {
                let service = self.random.below(self.services.into()) as u8;
                let setting = self.random.pick(Retirement::ALL);
                self.change_at(within, Change::Retire { service, setting });
            }
        }
        for _ in 0..self.random.between(1, 4) {
            let (at, ending) = (self.moment(span), self.ending());
            let service = self.random.below(self.services.into()) as u8;
            let before = at.saturating_sub(Duration::from_millis(self.random.below(30)));
            self.change_at(before, Change::Retire { service, setting: Retirement::Retired });
            self.process_at(at, ending);
        }
        if self.random.chance(20) {
            let (at, seconds) = (self.moment(span), self.random.between(5, 60) as u32);
            self.process_at(at, Process::SecondLeader { seconds });
        }
        if self.random.chance(20) {
            let (at, seconds) = (self.moment(span), self.random.between(1, 30) as u32);
            self.process_at(at, Process::Restore { seconds });
        }
    }

    /// Returns a fault of a request that a retirement needs, or any fault.
    fn fault_of_retirement(&mut self) -> Fault {
        let retry_after = self.random.chance(30).then_some(1);
        let status = self.random.pick(&[403, 409, 429, 500, 503]);
        let verb = Some(self.random.pick(&[Verb::Delete, Verb::Create, Verb::Get]));
        let (kind, by) = (Some(Kind::Endpoints), None);
        match self.random.below(6) {
            0 | 1 => Fault::Refused { verb, kind, by, status, retry_after, server: None },
            2 => Fault::AnswersLost { verb, kind, by },
            3 => Fault::RequestsLate { verb, kind, by, milliseconds: self.random.between(50, 5000) as u32 },
            _ => self.fault(),
        }
    }
}

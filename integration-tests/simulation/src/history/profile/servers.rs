//! The steps of histories with several API servers.

use super::super::pieces::{Pieces, milliseconds, seconds};
use super::super::{Fault, Kind};

/// The API servers of [`Profile::Servers`](super::Profile::Servers).
pub(super) const SERVERS: u8 = 3;

impl Pieces {
    /// Adds steps in which servers lag by different times, while one after another hangs, refuses,
    /// restarts or has a storage of its own.
    pub(super) fn servers(&mut self) {
        let span = seconds(self.random.between(60, 300));
        for server in (1..=SERVERS).map(Some) {
            if self.random.chance(70) {
                let kind = self.random.pick(&[None, None, Some(Kind::EndpointSlices), Some(Kind::Pods)]);
                let milliseconds = 200 + self.random.logarithmic(120_000) as u32;
                let bunched = self.random.chance(30);
                self.fault_at(
                    seconds(1),
                    span,
                    Fault::WatchesLag { kind, by: None, milliseconds, bunched, server },
                );
            }
        }
        let number = self.random.between(2, 6);
        self.bursts(span, number, 700);
        for _ in 0..self.random.between(1, 4) {
            let (at, lasts) = (self.moment(span), seconds(self.random.between(3, 90)));
            let number = self.random.between(1, 1 + u64::from(SERVERS)) as u8;
            let (applied, server) = (self.random.chance(50), Some(number));
            match self.random.below(5) {
                0 => self.fault_at(at, lasts, Fault::HalfOpen { by: None, applied, server }),
                1 => {
                    let (verb, kind, by, retry_after) = (None, None, None, Some(1));
                    let fault = Fault::Refused { verb, kind, by, status: 429, retry_after, server };
                    self.fault_at(at, lasts, fault);
                }
                2 => self.fault_at(at, lasts, Fault::OtherStorage { server: number }),
                _ => {
                    for server in 1..=SERVERS {
                        let at = at + seconds(10 * u64::from(server));
                        self.fault_at(at, seconds(8), Fault::Unreachable { by: None, server: Some(server) });
                    }
                }
            }
            self.burst(at + milliseconds(50), 800, 8);
            self.back_and_forth(at + seconds(1), 3000);
        }
        if self.random.chance(50) {
            let (at, ending) = (self.moment(span), self.ending());
            self.process_at(at, ending);
        }
    }
}

//! The shares of right answers, and the least that they may be.

use std::collections::BTreeMap;
use std::fmt;

use super::judged::Judged;
use crate::fault_manifests::Fault;

/// The answers to all cases, counted.
#[derive(Default)]
pub(crate) struct Shares {
    /// All cases, and those that are right in every part, by kind.
    pub(crate) kinds: BTreeMap<String, (usize, usize)>,
    pub(crate) faults: usize,
    /// Faults whose first code is right.
    pub(crate) first_codes: usize,
    pub(crate) false_ok: usize,
    pub(crate) healthy: usize,
    pub(crate) false_alarms: usize,
}

impl Shares {
    pub(crate) fn of<'c>(judged: impl IntoIterator<Item = &'c (Fault, Judged)>) -> Self {
        let mut shares = Self::default();
        for (case, judged) in judged {
            let (all, right) = shares.kinds.entry(case.kind.clone()).or_default();
            *all += 1;
            *right += usize::from(judged.wrong.is_empty());
            let is_first = judged.first.is_some_and(|first| first.id() == case.code);
            shares.faults += usize::from(!case.healthy);
            shares.healthy += usize::from(case.healthy);
            shares.first_codes += usize::from(!case.healthy && is_first);
            shares.false_ok += usize::from(judged.is_false_ok);
            shares.false_alarms += usize::from(judged.is_false_alarm);
        }
        shares
    }

    /// Returns the number of cases, and of those that are right in every part.
    pub(crate) fn right(&self) -> (usize, usize) {
        self.kinds.values().fold((0, 0), |(all, right), kind| (all + kind.0, right + kind.1))
    }
}

/// Rounds down: a share is reached only in full.
pub(crate) fn percent((all, right): (usize, usize)) -> usize {
    (100 * right).checked_div(all).unwrap_or(100)
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, right) = self.right();
        writeln!(f, "right in every part: {right} of {all} ({} %)", percent((all, right)))?;
        let codes = (self.faults, self.first_codes);
        writeln!(f, "right first code: {} of {} faults ({} %)", codes.1, codes.0, percent(codes))?;
        writeln!(f, "faults called OK: {} of {}", self.false_ok, self.faults)?;
        writeln!(f, "false alarms: {} of {} healthy clusters", self.false_alarms, self.healthy)?;
        let below = self.kinds.iter().filter(|(_, kind)| percent(**kind) < 95);
        for (name, (all, right)) in below {
            writeln!(f, "kind {name}: {right} of {all}")?;
        }
        Ok(())
    }
}

/// The least numbers of right answers. They only rise: cases that are not right yet may be added at
/// any time.
pub(crate) struct Floor {
    /// Cases that are right in every part.
    right: usize,
    first_codes: usize,
    /// Faults that are not called OK.
    faults_seen: usize,
    /// Healthy clusters without an alarm.
    no_alarms: usize,
    /// True once the aims are reached: 95 % of all cases and of each kind right in every part, 98 %
    /// of the first codes. From then on, they stay reached. A false OK can only be an open case.
    is_aim_reached: bool,
}

pub(crate) const FLOOR: Floor =
    Floor { right: 369, first_codes: 229, faults_seen: 229, no_alarms: 141, is_aim_reached: true };

impl Floor {
    /// Asserts that answers are not worse.
    pub(crate) fn check(&self, shares: &Shares) {
        assert!(shares.right().1 >= self.right, "{shares}");
        assert!(shares.first_codes >= self.first_codes, "{shares}");
        assert!(shares.faults - shares.false_ok >= self.faults_seen, "{shares}");
        assert!(shares.healthy - shares.false_alarms >= self.no_alarms, "{shares}");
        if self.is_aim_reached {
            // A kind may have one open case, that waits for its finding.
            let is_right = |(all, right): (usize, usize)| all <= right + 1 || percent((all, right)) >= 95;
            assert!(shares.kinds.values().copied().all(is_right), "{shares}");
            assert!(percent(shares.right()) >= 95, "{shares}");
            assert!(percent((shares.faults, shares.first_codes)) >= 98, "{shares}");
        }
    }
}

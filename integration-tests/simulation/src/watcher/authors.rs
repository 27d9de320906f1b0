//! Knows which process may write, from the Lease, and which process has created a slice.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::GIVEN_AWAY;
use crate::history::Manager;

/// The holder of the Lease, and the creators of slices.
#[derive(Debug, Default)]
pub(super) struct Authors {
    /// How long a Lease is valid, or `None` if managers have no Lease.
    lease: Option<Duration>,
    /// The holder of the Lease, or empty.
    holder: String,
    /// Since when it has been the holder.
    since: Duration,
    /// When the Lease was written last.
    renewed: Duration,
    /// The holder of a Lease before a user edited it, and the time until which that process may
    /// lead.
    displaced: Option<(String, Duration)>,
    /// The processes that created slices, and when, by slice.
    creators: BTreeMap<String, (String, Duration)>,
}

impl Authors {
    /// `lease` is the time for which a Lease is valid, or `None` if managers have no Lease.
    pub(super) fn new(lease: Option<Duration>) -> Self {
        Self { lease, ..Self::default() }
    }

    /// Notes a write of the Lease. Returns true if the next process in the place of the holder has
    /// taken a valid Lease back. Nobody else may take it before it expires.
    pub(super) fn holds(&mut self, at: Duration, holder: String) -> Result<bool, String> {
        let renewed = std::mem::replace(&mut self.renewed, at);
        if holder == self.holder {
            return Ok(false);
        }
        self.since = at;
        let before = std::mem::replace(&mut self.holder, holder);
        let is_valid = self.lease.is_some_and(|lease| at < renewed + lease);
        if !is_valid || before.is_empty() || self.holder.is_empty() || self.holder == GIVEN_AWAY {
            return Ok(false);
        }
        let number = |name: &str| name.get(1..).and_then(|number| number.parse::<u64>().ok());
        let is_next = self.holder.get(..1) == before.get(..1) && number(&self.holder) > number(&before);
        is_next.then_some(true).ok_or_else(|| format!("{} takes the Lease of {before}", self.holder))
    }

    /// Returns true if another process holds the Lease. A write of this one is late.
    pub(super) fn is_late(&self, process: &str) -> bool {
        self.lease.is_some() && !self.holder.is_empty() && self.holder != process
    }

    /// Notes that a user is about to delete the Lease or to remove its holder. A process that
    /// starts now knows of no holder, and leads at once. Until the holder reaches the Lease, it
    /// does not know, and leads until its renew deadline.
    pub(super) fn lease_is_edited(&mut self, at: Duration) {
        self.displaced = self.lease.map(|lease| (self.holder.clone(), at + lease));
    }

    /// Notes an answered request of a process about the Lease: the process knows its holder now.
    pub(super) fn reads_lease(&mut self, process: &str) {
        self.displaced.take_if(|(holder, _)| holder == process);
    }

    /// Returns true if a process may take itself for the holder of a Lease that a user has edited,
    /// while another process holds it.
    pub(super) fn is_displaced(&self, at: Duration, process: &str) -> bool {
        let was_holder = |(holder, until): &(String, Duration)| holder == process && at < *until;
        self.holder != process && self.displaced.as_ref().is_some_and(was_holder)
    }

    /// Takes over the holder of a restored server, and forgets the creators of slices.
    pub(super) fn restored(&mut self, holder: String) {
        self.holder = holder;
        self.creators.clear();
    }

    /// Returns the time of the last change of the holder.
    pub(super) fn since(&self) -> Duration {
        self.since
    }

    /// Checks that a process may begin a write. A process without a Lease always may.
    pub(super) fn may_write(&self, manager: Manager, process: &str) -> Result<(), String> {
        let is_free = self.holder.is_empty() || self.holder == process;
        if is_free || self.lease.is_none() || matches!(manager, Manager::C | Manager::K) {
            return Ok(());
        }
        Err(format!("{process} begins a write while {} holds the Lease", self.holder))
    }

    pub(super) fn created(&mut self, at: Duration, slice: &str, process: &str) {
        self.creators.insert(slice.to_owned(), (process.to_owned(), at));
    }

    /// Notes that a slice is deleted, or changed in a way that its process may not know.
    pub(super) fn forget(&mut self, slice: &str) {
        self.creators.remove(slice);
    }

    /// Returns true if a process knows a slice: it has created it, or it leads and an earlier
    /// leader has created it.
    pub(super) fn knows(&self, process: &str, slice: &str) -> bool {
        let leads_since = (self.lease.is_some() && self.holder == process).then_some(self.since);
        let is_before = |created: Duration| leads_since.is_some_and(|since| created < since);
        self.creators.get(slice).is_some_and(|(creator, created)| creator == process || is_before(*created))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_knows_what_it_and_the_leader_before_it_have_created() {
        let second = Duration::from_secs;
        let mut authors = Authors::new(Some(second(15)));
        authors.holds(second(1), "a1".to_owned()).unwrap();
        authors.created(second(2), "n/one", "a1");
        assert!(authors.knows("a1", "n/one") && !authors.knows("b1", "n/one"));
        authors.holds(second(16), "b1".to_owned()).unwrap();
        authors.created(second(17), "n/two", "a1");
        assert!(authors.knows("b1", "n/one") && !authors.knows("b1", "n/two"));
        authors.forget("n/one");
        assert!(!authors.knows("b1", "n/one"));
    }

    #[test]
    fn only_the_next_process_in_the_place_of_the_holder_takes_a_valid_lease() {
        let check = |renewed: u64, at: u64, holder: &str, want: Result<bool, &str>| {
            let mut authors = Authors::new(Some(Duration::from_secs(15)));
            assert_eq!(authors.holds(Duration::from_secs(1), "a1".to_owned()), Ok(false));
            assert_eq!(authors.holds(Duration::from_secs(renewed), "a1".to_owned()), Ok(false));
            let taken = authors.holds(Duration::from_secs(at), holder.to_owned());
            assert_eq!(taken, want.map_err(str::to_owned), "{holder}");
        };
        check(3, 17, "b1", Err("b1 takes the Lease of a1"));
        check(3, 18, "b1", Ok(false));
        check(3, 4, "a2", Ok(true));
        check(3, 18, "a2", Ok(false));
        check(3, 4, "a0", Err("a0 takes the Lease of a1"));
        check(3, 4, "", Ok(false));
        check(3, 4, GIVEN_AWAY, Ok(false));
    }

    #[test]
    fn the_holder_of_a_lease_that_was_edited_may_lead_for_as_long_as_a_lease_is_valid() {
        let second = Duration::from_secs;
        let mut authors = Authors::new(Some(second(15)));
        authors.holds(second(1), "a1".to_owned()).unwrap();
        authors.lease_is_edited(second(2));
        authors.holds(second(2), String::new()).unwrap();
        authors.holds(second(3), "b1".to_owned()).unwrap();
        assert!(authors.is_displaced(second(16), "a1"));
        assert!(!authors.is_displaced(second(17), "a1"), "it has expired");
        assert!(!authors.is_displaced(second(3), "b1"), "it holds the Lease");
        assert!(!authors.is_displaced(second(3), "b2"), "it has never held the Lease");
        authors.reads_lease("b1");
        assert!(authors.is_displaced(second(4), "a1"));
        authors.reads_lease("a1");
        assert!(!authors.is_displaced(second(4), "a1"), "it knows who holds the Lease");
    }

    #[test]
    fn only_the_holder_and_processes_without_a_lease_write() {
        let mut authors = Authors::new(Some(Duration::from_secs(15)));
        assert!(authors.may_write(Manager::A, "a1").is_ok(), "nobody holds it");
        authors.holds(Duration::ZERO, "b1".to_owned()).unwrap();
        assert!(authors.may_write(Manager::B, "b1").is_ok() && authors.may_write(Manager::C, "c1").is_ok());
        assert!(authors.may_write(Manager::A, "a1").is_err());
        let without = Authors::new(None);
        assert!(without.may_write(Manager::A, "a1").is_ok());
    }
}

//! Knows which process may write, from the Lease, and which process has created a slice.

use std::collections::BTreeMap;
use std::time::Duration;

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

    /// Notes the holder of the Lease.
    pub(super) fn holds(&mut self, at: Duration, holder: String) {
        if holder != self.holder {
            self.since = at;
            self.holder = holder;
        }
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
        authors.holds(second(1), "a1".to_owned());
        authors.created(second(2), "n/one", "a1");
        assert!(authors.knows("a1", "n/one") && !authors.knows("b1", "n/one"));
        authors.holds(second(3), "b1".to_owned());
        authors.created(second(4), "n/two", "a1");
        assert!(authors.knows("b1", "n/one") && !authors.knows("b1", "n/two"));
        authors.forget("n/one");
        assert!(!authors.knows("b1", "n/one"));
    }

    #[test]
    fn the_holder_of_a_lease_that_was_edited_may_lead_for_as_long_as_a_lease_is_valid() {
        let second = Duration::from_secs;
        let mut authors = Authors::new(Some(second(15)));
        authors.holds(second(1), "a1".to_owned());
        authors.lease_is_edited(second(2));
        authors.holds(second(2), String::new());
        authors.holds(second(3), "b1".to_owned());
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
        authors.holds(Duration::ZERO, "b1".to_owned());
        assert!(authors.may_write(Manager::B, "b1").is_ok() && authors.may_write(Manager::C, "c1").is_ok());
        assert!(authors.may_write(Manager::A, "a1").is_err());
        let without = Authors::new(None);
        assert!(without.may_write(Manager::A, "a1").is_ok());
    }
}

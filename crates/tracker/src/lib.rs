//! Trigger times, and the ledger of own writes. No I/O, no clock.
//!
//! The controllers that write a kind share a [`WriteLedger`], and with it the cache of the kind and
//! the manager. Each controller has a [`WriteTracker`] in it, and each write a [`PendingWrite`].
//! The ledger's lock is held for map operations, and to compare or hash the bytes of one object. A
//! [`TriggerTime`] belongs to one Service.

pub mod ledger;
pub mod trigger_time;
pub mod writes;

pub use ledger::{Content, Echo, SentObject, WriteLedger};
pub use trigger_time::{NeedsAllPods, TriggerTime};
pub use writes::pending::{PendingWrite, Verb};
pub use writes::{Observation, WriteTracker};

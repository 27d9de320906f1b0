//! Which of a controller's own writes its cache has seen, and the trigger times of changes, for
//! controllers that must not write twice. No I/O, no clock.
//!
//! ```
//! use std::time::Instant;
//!
//! use kube_endpoint_core_model::{ObjectKey, ResourceVersion};
//! use kube_endpoint_tracker::{Observation, Verb, WriteTracker};
//!
//! let tracker = WriteTracker::default();
//! let (service, slice) = (ObjectKey::new("default", "web"), ObjectKey::new("default", "web-x7k2p"));
//! let (before, written) = (ResourceVersion(7), ResourceVersion(9));
//! let mut write = tracker.write(&service, &slice, Verb::Create, before);
//! write.begin(Instant::now(), None, ());
//! write.answered(written, before);
//!
//! // The cache does not show the slice yet: a sync would create it once more.
//! assert!(tracker.is_stale(&service, before, []));
//! // The watch then reports the own write, which needs no sync.
//! let observed = tracker.observe_applied(Some(&service), &slice, &"5e7a".into(), written);
//! assert_eq!(observed, Observation::Own);
//! assert!(!tracker.is_stale(&service, written, []));
//! ```
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

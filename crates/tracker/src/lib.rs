//! Trigger times, and which of a controller's own writes the cache has seen. No I/O, no clock.
//!
//! A [`WriteTracker`] is shared by the workers of one controller; its lock is held for map
//! operations only. A [`TriggerTime`] belongs to one Service. [`SentObjects`] is shared by the
//! writers and the cache of one kind.

pub mod sent;
pub mod trigger_time;
pub mod writes;

pub use sent::{Content, Echo, SentObject, SentObjects};
pub use trigger_time::{NeedsAllPods, TriggerTime};
pub use writes::{Observation, WriteTracker};

//! Trigger times, and which of a controller's own writes the cache has seen. No I/O, no clock.
//!
//! A [`WriteTracker`] is shared by the workers of one controller; its lock is held for map operations only. A
//! [`TriggerTime`] belongs to one Service.

pub mod trigger_time;
pub mod writes;

pub use trigger_time::TriggerTime;
pub use writes::{CachePosition, Observation, WriteTracker};

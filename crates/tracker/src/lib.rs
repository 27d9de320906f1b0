//! Trigger times, and which of a controller's own writes the cache has seen. No I/O, no clock.
//!
//! Both trackers are shared by the workers of one controller. Their locks are held for map operations only.

pub mod trigger_time;
pub mod writes;

pub use trigger_time::TriggerTime;
pub use writes::{CachePosition, Observation, WriteTracker};

//! Carries a plan out against the API server: client-side rate limit, creates, updates, deletes, events.
//!
//! The writer decides nothing. It says for each write what became of it, in terms that a controller can act on: done,
//! refused (and why), or not known.

pub mod clock;
pub mod error;
pub mod events;
pub mod limiter;
pub mod name_generator;
mod put_off;
pub mod tracked;
pub mod writer;

pub use clock::Clock;
pub use error::WriteError;
pub use events::{EventRecorder, EventSubject};
pub use limiter::RequestLimiter;
pub use put_off::PutOff;
pub use tracked::{FailedWrite, Operation, SliceWrites, TrackedWriter};
pub use writer::{ApiWriter, Writable, Written};

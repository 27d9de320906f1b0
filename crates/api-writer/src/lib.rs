//! Carries out plans against the API server: client-side rate limit, creates, updates, deletes,
//! events.
//!
//! The writer makes no decisions. It reports the outcome of each write in terms that a controller
//! can act on: done, refused (and why), or unknown.

pub mod clock;
pub mod dry_run;
pub mod error;
pub mod events;
pub mod fence;
pub mod limiter;
pub mod name_generator;
pub mod observer;
mod request_span;
mod send;
pub mod sync_context;
pub mod tracked;
mod writable;
pub mod writer;

pub use clock::Clock;
pub use dry_run::DryRun;
pub use error::WriteError;
pub use events::{EventRecorder, EventSubject};
pub use fence::WriteFence;
pub use limiter::RequestLimiter;
pub use observer::{WriteObserver, WriteRecord};
pub use sync_context::{SyncContext, SyncDetails};
pub use tracked::{Carried, Deleted, FailedWrite, Operation, TrackedWriter};
pub use writable::Writable;
pub use writer::{ApiWriter, PartialObjectMetadata};

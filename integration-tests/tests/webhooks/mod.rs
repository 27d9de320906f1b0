//! Tests webhooks in the admission of slices and Endpoints, which rewrite objects, take long, or
//! refuse them. The writes stay bounded, nothing else waits, and the status names the cause.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod cluster;
mod refusing;
mod rewriting;
mod slow;

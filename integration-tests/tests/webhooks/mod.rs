//! Webhooks that admission of slices and Endpoints calls: they rewrite objects, take long, or
//! refuse them. The writes stay bounded, nothing else waits, and the status says what is going on.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod cluster;
mod refusing;
mod rewriting;
mod slow;

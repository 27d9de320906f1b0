//! A cluster on the embedded server whose objects and connections are changed at random, with the controllers as the
//! manager runs them.
//!
//! A [`Cluster`] plays operations ([`Op`]); its checks compare the outputs with those of controllers that see the same
//! inputs for the first time. A [`History`] is two days of changes and outages, made from a seed; [`simulate`] plays it.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod checks;
mod cluster;
mod history;
mod objects;
mod operations;
mod outages;
mod run;

pub use cluster::Cluster;
pub use history::{HISTORY, Happening, History};
pub use operations::{Op, ops};
pub use outages::{Outage, Selection};
pub use run::{Statistics, recovery, simulate};

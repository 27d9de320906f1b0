//! Tells for a cluster who writes Endpoints and EndpointSlices, whether the loops of
//! kube-controller-manager are off, and what would change if kube-endpoint-manager took over.
//!
//! The caller reads [`Facts`], a part at a time and with the permissions that it has. [`examine`]
//! makes a [`Report`] of them. It never guesses: an answer that the facts do not give is
//! [`Answer::NotKnown`], and each part that could not be read is a line that names the permission.

mod examine;
mod facts;
mod loops;
mod outputs;
mod permissions;
mod report;
mod two_at_once;
mod webhooks;

pub use crate::facts::answer::Answer;
pub use crate::facts::lease::{ADDON_LEASE, Lease, LeaseState, MANAGER_LEASE};
pub use examine::examine;
pub use facts::{Counts, Facts, Instance, Read, Unread};
pub use loops::runs_beside;
pub use outputs::Outputs;
pub use permissions::{FOR_MANAGER, FOR_PLUGIN, Permission, Review, for_manager};
pub use report::{
    Changes, InstanceReport, LeaseReport, LoopReport, Missing, OutputsReport, Report, TwoAtOnce, Versions,
    WriterReport,
};
pub use webhooks::{Webhook, webhooks_of};

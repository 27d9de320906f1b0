//! Judges slices that were made from pods, for a Service that has no selector any more.
//!
//! The endpointslice controller leaves them behind, and no controller maintains them. Meanwhile the
//! mirroring controller mirrors the Endpoints of the Service, and clients see both. The controller
//! may delete a slice when the mirrored slices replace it. They do not if
//!
//! - its address type is not mirrored. Endpoints hold one family of a dual-stack Service; its
//!   slices of the other are all that clients of that family have;
//! - mirroring skipped addresses;
//! - they lack one of its ready endpoints, unless a user wrote these Endpoints to point the Service
//!   elsewhere. An Endpoints controller may have truncated them, or may have been behind when the
//!   user removed the selector.
//!
//! Nor may the controller delete a slice that a user has made, or has a part in: a copy of a slice
//! has the labels of a controller's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kube_endpoint_core_model::maker::Maker;
use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::well_known::ANNOTATION_OVER_CAPACITY;
use kube_endpoint_core_model::{AddressType, EndpointSlice, Endpoints, PlannedEvent, Text};

/// The maximum number of names in a message.
const NAMES_IN_A_MESSAGE: usize = 10;

/// The inputs of the verdicts.
#[derive(Clone, Copy, Debug)]
pub struct OrphanInputs<'a> {
    /// Slices of the Service that were made from pods.
    pub orphans: &'a [Arc<EndpointSlice>],
    pub endpoints: &'a Endpoints,
    /// The slices that mirror the Endpoints, as they are stored.
    pub mirrored: &'a [Arc<EndpointSlice>],
    /// Number of addresses that mirroring skipped.
    pub skipped: usize,
    /// The last writer of the addresses of the Endpoints, or `None` if it is not known yet.
    pub writer: Option<&'a Maker>,
}

/// The verdict on a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrphanVerdict {
    /// The controller deletes it: the mirrored slices hold all of its ready endpoints.
    Replaced,
    /// The controller deletes it: this user wrote other addresses into the Endpoints.
    Redirected(Text),
    /// The controller has to ask the API server who wrote the Endpoints.
    AskWhoWrote,
    Kept(KeptReason),
}

impl OrphanVerdict {
    /// Returns true if the controller deletes the slice.
    pub fn deletes(&self) -> bool {
        matches!(self, Self::Replaced | Self::Redirected(_))
    }

    /// Returns the final verdict for a slice by this maker.
    #[must_use]
    pub fn confirmed(self, maker: &Maker) -> Self {
        match maker {
            Maker::SomebodyElse(user) if self.deletes() => {
                Self::Kept(KeptReason::OfSomebodyElse(user.clone()))
            }
            Maker::Uncertain(name) if self.deletes() => Self::Kept(KeptReason::MakerUncertain(name.clone())),
            Maker::Unknown if self.deletes() => Self::Kept(KeptReason::MakerUnknown),
            _ => self,
        }
    }
}

/// The reason for keeping a slice. Prints as the end of an event's message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptReason {
    /// There is no mirrored address of its type.
    AddressTypeNotMirrored(AddressType),
    /// Mirroring skipped some addresses.
    AddressesSkipped,
    /// The Endpoints are truncated, and this controller was the last to write their addresses.
    Truncated(Text),
    /// The Endpoints lack ready endpoints, and this controller was the last to write their
    /// addresses.
    OutOfDate(Text),
    /// The Endpoints lack ready endpoints, and nothing tells who wrote their addresses.
    WriterUnknown,
    /// This client, which is no controller, owns endpoints or ports of the slice.
    OfSomebodyElse(Text),
    /// A client with this unknown field manager wrote the slice in the form of a controller.
    MakerUncertain(Text),
    /// Nothing tells who made the slice.
    MakerUnknown,
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressTypeNotMirrored(address_type) => {
                write!(f, "the Endpoints hold no {address_type} addresses")
            }
            Self::AddressesSkipped => f.write_str("some addresses of the Endpoints cannot be mirrored"),
            Self::Truncated(writer) => write!(
                f,
                "the Endpoints lack ready endpoints of them, because {writer} left addresses beyond the maximum out"
            ),
            Self::OutOfDate(writer) => {
                write!(f, "the Endpoints, last written by {writer}, lack ready endpoints of them")
            }
            Self::WriterUnknown => {
                f.write_str("the Endpoints lack ready endpoints of them, and do not say who wrote them")
            }
            Self::OfSomebodyElse(user) => write!(f, "{user} wrote them, and not only a controller"),
            Self::MakerUncertain(name) => write!(
                f,
                "{name} wrote them as a controller does; if it runs kube-controller-manager, name it in --controller-field-managers"
            ),
            Self::MakerUnknown => f.write_str("their managedFields do not say who wrote them"),
        }
    }
}

/// Returns a verdict on each orphan, in their order.
pub fn judge_orphans(inputs: &OrphanInputs<'_>) -> Vec<OrphanVerdict> {
    let is_ready = |ready: Option<bool>| ready != Some(false);
    let mut held: BTreeMap<(AddressType, PortSet), BTreeSet<&Text>> = BTreeMap::new();
    for slice in inputs.mirrored {
        let addresses = held.entry((slice.address_type, PortSet::new(&slice.ports))).or_default();
        let ready = slice.endpoints.iter().filter(|endpoint| is_ready(endpoint.conditions.ready));
        addresses.extend(ready.flat_map(|endpoint| &endpoint.addresses));
    }
    let judge = |orphan: &Arc<EndpointSlice>| {
        let address_type = orphan.address_type;
        if !inputs.mirrored.iter().any(|slice| slice.address_type == address_type) {
            return OrphanVerdict::Kept(KeptReason::AddressTypeNotMirrored(address_type));
        }
        if inputs.skipped > 0 {
            return OrphanVerdict::Kept(KeptReason::AddressesSkipped);
        }
        let found = held.get(&(address_type, PortSet::new(&orphan.ports)));
        let is_held = |address: &Text| found.is_some_and(|addresses| addresses.contains(address));
        let mut ready = orphan.endpoints.iter().filter(|endpoint| is_ready(endpoint.conditions.ready));
        if ready.all(|endpoint| endpoint.addresses.iter().all(is_held)) {
            return OrphanVerdict::Replaced;
        }
        let truncated = inputs.endpoints.metadata.annotations.contains_key(ANNOTATION_OVER_CAPACITY);
        OrphanVerdict::Kept(match inputs.writer {
            None => return OrphanVerdict::AskWhoWrote,
            Some(Maker::SomebodyElse(user)) => return OrphanVerdict::Redirected(user.clone()),
            Some(Maker::Controller(writer)) if truncated => KeptReason::Truncated(writer.clone()),
            Some(Maker::Controller(writer)) => KeptReason::OutOfDate(writer.clone()),
            Some(Maker::Uncertain(_) | Maker::Unknown) => KeptReason::WriterUnknown,
        })
    };
    inputs.orphans.iter().map(judge).collect()
}

/// The kept slices by name, each with the reason.
pub type KeptOrphans = BTreeMap<Text, KeptReason>;

/// Returns an event for each reason that is new for some slice, compared with the kept slices
/// `before`.
pub fn kept_events(before: &KeptOrphans, now: &KeptOrphans) -> Vec<PlannedEvent> {
    let mut by_reason: BTreeMap<&KeptReason, (Vec<&str>, bool)> = BTreeMap::new();
    for (name, reason) in now {
        let (names, is_new) = by_reason.entry(reason).or_default();
        names.push(name);
        *is_new |= before.get(name) != Some(reason);
    }
    let events = by_reason.into_iter().filter(|(_, (_, is_new))| *is_new).map(|(reason, (names, _))| {
        let listed = names.iter().take(NAMES_IN_A_MESSAGE).copied().collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(NAMES_IN_A_MESSAGE) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        PlannedEvent::warning(
            "OrphanedEndpointSlicesKept",
            format!("EndpointSlices that were made from pods are kept: {reason} ({listed}{more})"),
        )
    });
    events.collect()
}

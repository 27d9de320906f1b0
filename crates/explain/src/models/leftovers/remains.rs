//! Tells who would miss the Endpoints and slices that controllers left when a Service lost its
//! selector.
//!
//! The endpoints controller keeps the Endpoints that it made from pods, and the mirroring
//! controller makes slices of them: a frozen copy, which may be all that clients have. It can go
//! when slices that no controller made take its place. The slices that the EndpointSlice controller
//! left do not count: they are left over, too, and kube-endpoint-manager deletes them while
//! mirrored ones have the same endpoints.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kube_endpoint_core_model::maker::Content;
use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;
use kube_endpoint_core_model::{AddressType, EndpointSlice, Endpoints, IpFamily, Service, Text};
use kube_endpoint_mirroring::{PlanInputs, plan};

use crate::models::consumers::kube_proxy::{ignores_slice, number_for};

/// Outputs that controllers left for a Service without a selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remains {
    /// The EndpointSelector that the Service names.
    pub endpoint_selector: Option<Text>,
    /// The slices that are mirrored from the Endpoints.
    pub mirrored: Vec<Text>,
    /// The part that clients would miss, because no other slice has it.
    pub missed: Vec<Served>,
}

/// Something that clients of a Service get from slices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    family: IpFamily,
    /// The name of the port, or its number if it has none. A headless Service has no ports that
    /// matter.
    port: Option<Text>,
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = AddressType::from(self.family).as_str();
        match &self.port {
            Some(port) => write!(f, "port {port} over {family}"),
            None => f.write_str(family),
        }
    }
}

impl Remains {
    /// Looks at a Service without a selector, its Endpoints if a controller made them, and all
    /// slices that name it.
    pub fn of(service: &Service, endpoints: Option<&Endpoints>, slices: &[Arc<EndpointSlice>]) -> Self {
        let is_left = |slice: &&Arc<EndpointSlice>| {
            Content::Slice.managers().iter().any(|manager| slice.is_managed_by(manager))
        };
        let (left, others): (Vec<_>, Vec<_>) = slices.iter().partition(is_left);
        let mirrored = left.iter().filter(|slice| slice.is_managed_by(MIRRORING_CONTROLLER));
        // The mirroring controller may not have made all slices yet.
        let planned = endpoints.map(|endpoints| plan(&PlanInputs::new(service, endpoints)).writes.create);
        let planned = planned.unwrap_or_default();
        let has = served(service, left.iter().map(|slice| &***slice).chain(&planned));
        let stays = others.iter().filter(|slice| slice.metadata.deletion_timestamp.is_none());
        let stays = served(service, stays.map(|slice| &***slice));
        Self {
            endpoint_selector: service.endpoint_selector().cloned(),
            mirrored: mirrored.map(|slice| slice.metadata.name.clone()).collect(),
            missed: has.difference(&stays).cloned().collect(),
        }
    }
}

/// Returns what clients get from ready endpoints of slices.
fn served<'a>(service: &Service, slices: impl Iterator<Item = &'a EndpointSlice>) -> BTreeSet<Served> {
    let mut all = BTreeSet::new();
    if service.service_type == ServiceType::ExternalName {
        return all;
    }
    let families = service.slice_families();
    for slice in slices {
        let family = families.iter().find(|family| AddressType::from(**family) == slice.address_type);
        let is_ready = slice.endpoints.iter().any(|endpoint| endpoint.conditions.ready != Some(false));
        let Some(family) = family.copied().filter(|_| is_ready) else { continue };
        if service.is_headless() {
            all.insert(Served { family, port: None });
        } else if ignores_slice(service, slice, family).is_none() {
            let is_held = |port: &&_| slice.ports.iter().any(|held| number_for(held, port).is_some());
            all.extend(service.ports.iter().filter(is_held).map(|port| {
                let port =
                    if port.name.is_empty() { port.port.to_string().into() } else { port.name.clone() };
                Served { family, port: Some(port) }
            }));
        }
    }
    all
}

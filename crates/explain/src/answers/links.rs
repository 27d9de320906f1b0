//! The ways from an object to the Services that clients or its pods are behind.

use kube_endpoint_core_model::ObjectKey;

use crate::facts::objects::Objects;
use crate::facts::references::{GATEWAY, Reference, Referrer};

/// A way to a Service.
pub(crate) struct Link<'a> {
    pub(crate) service: &'a ObjectKey,
    /// The place that names the Service, if there is one.
    pub(crate) reference: Option<&'a Reference>,
    /// The clients, as text.
    pub(crate) route: Option<String>,
}

/// Returns the ways from an object that sends clients to Services, or from a Gateway.
pub(crate) fn from<'a>(objects: &'a Objects, of: &'a Referrer) -> Vec<Link<'a>> {
    let routes = objects.raw.routes.get(&of.object).filter(|_| of.kind == GATEWAY);
    let one = |reference: &'a Reference| {
        let route = if reference.from == *of {
            reference.route.clone()
        } else {
            routes.filter(|routes| routes.contains(&reference.from)).map(|_| in_full(reference))?
        };
        Some(Link { service: &reference.service, reference: Some(reference), route: Some(route) })
    };
    objects.references().filter_map(one).collect()
}

/// Returns the ways to Services.
pub(crate) fn to<'a>(objects: &'a Objects, services: &'a [ObjectKey]) -> Vec<Link<'a>> {
    let mut all = Vec::new();
    for service in services {
        let one = |reference| Link { service, reference: Some(reference), route: Some(in_full(reference)) };
        let before = all.len();
        all.extend(objects.references_to(service).map(one));
        if all.len() == before {
            all.push(Link { service, reference: None, route: None });
        }
    }
    all
}

fn in_full(reference: &Reference) -> String {
    match &*reference.route {
        "" => reference.from.to_string(),
        route => format!("{}: {route}", reference.from),
    }
}

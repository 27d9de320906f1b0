//! The Gateways, listeners and classes that routes, Gateways and Ingresses name, by which a
//! controller finds them.

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde_json::Value;

use crate::facts::json::{each, text};
use crate::facts::references::{GATEWAY, INGRESS, Referrer, gateway, said_of};

/// The kinds of classes.
pub(crate) const CLASSES: [&str; 2] = ["IngressClass", "GatewayClass"];

/// The way of an object to its controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attached {
    /// The Gateways that a route names, or the class of a Gateway or an Ingress.
    pub(crate) to: Vec<Parent>,
    /// The number of other objects that a route names, such as Services of a mesh.
    pub(crate) others: usize,
    /// The names of the listeners of a Gateway.
    pub(crate) listeners: Vec<Text>,
    /// The time of creation, if a server has stored it.
    pub(crate) created: Option<Timestamp>,
    /// True if a controller has written a status.
    pub(crate) is_seen: bool,
}

/// A Gateway or a class that an object names.
#[derive(Clone, Debug)]
pub(crate) struct Parent {
    pub(crate) object: Referrer,
    /// The name of the listener, if only one is meant.
    pub(crate) listener: Option<Text>,
    /// The words of a controller that does not accept it.
    pub(crate) refused: Option<String>,
}

/// Returns a class as an object.
pub(crate) fn class(kind: &str, name: &str) -> Option<Referrer> {
    let kind = CLASSES.into_iter().find(|one| *one == kind)?;
    Some(Referrer { kind, object: ObjectKey::new("", name) })
}

impl Attached {
    /// Reads an object that sends clients to Services.
    pub(crate) fn read(from: &Referrer, object: &Value) -> Self {
        let (spec, status) = (&object["spec"], &object["status"]);
        let created = text(&object["metadata"]["creationTimestamp"]).parse().ok();
        let to_class = |kind: &str, name: &Value| {
            let object = name.as_str().filter(|name| !name.is_empty()).and_then(|name| class(kind, name));
            object.into_iter().map(|object| Parent { object, listener: None, refused: None }).collect()
        };
        match from.kind {
            INGRESS => Self {
                to: to_class("IngressClass", &spec["ingressClassName"]),
                is_seen: each(&status["loadBalancer"]["ingress"]).next().is_some(),
                created,
                ..Self::default()
            },
            GATEWAY => Self {
                to: to_class("GatewayClass", &spec["gatewayClassName"]),
                listeners: each(&spec["listeners"]).map(|one| text(&one["name"]).into()).collect(),
                is_seen: each(&status["conditions"])
                    .any(|one| one["type"] == "Accepted" && one["status"] == "True"),
                created,
                ..Self::default()
            },
            kind if kind.ends_with("Route") => {
                let own = text(&object["metadata"]["namespace"]);
                let to: Vec<Parent> = each(&spec["parentRefs"])
                    .filter_map(|parent| {
                        let key = gateway(parent, own)?;
                        Some(Parent {
                            object: Referrer { kind: GATEWAY, object: key },
                            listener: parent["sectionName"].as_str().map(Text::from),
                            refused: refused(parent, object),
                        })
                    })
                    .collect();
                let others = each(&spec["parentRefs"]).count() - to.len();
                let is_seen = each(&status["parents"]).next().is_some();
                Self { to, others, created, is_seen, listeners: Vec::new() }
            }
            _ => Self::default(),
        }
    }
}

/// Returns the words of the controllers of a Gateway if none of them accepts a route, and if these
/// are about the route as it is now.
fn refused(parent: &Value, route: &Value) -> Option<String> {
    let (own, generation) = (text(&route["metadata"]["namespace"]), &route["metadata"]["generation"]);
    let named = |one: &Value| (gateway(one, own), one["sectionName"].clone(), one["port"].clone());
    let mut refused = None;
    for status in each(&route["status"]["parents"]).filter(|it| named(&it["parentRef"]) == named(parent)) {
        let accepted = each(&status["conditions"]).find(|it| it["type"] == "Accepted")?;
        let is_late = accepted["observedGeneration"].as_i64() < generation.as_i64();
        let is_late = is_late && !accepted["observedGeneration"].is_null();
        if accepted["status"] != "False" || is_late {
            return None;
        }
        refused = Some(said_of("", accepted));
    }
    refused
}

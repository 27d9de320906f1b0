//! A route, a Gateway or an Ingress is not attached to what it names, so nobody sends clients by
//! it.

use serde_json::{Value, json};

use crate::facts::age;
use crate::facts::attached::{Attached, CLASSES, Parent};
use crate::facts::objects::Objects;
use crate::facts::references::{GATEWAY, INGRESS, Referrer};
use crate::findings::prelude::*;
use crate::models::near::nearest_names;

about! {
    /// A route names a Gateway or a listener that does not exist, or no controller accepts the
    /// route. An Ingress or a Gateway names a class that does not exist, and no controller has
    /// written its status. A Gateway or a class that could not be read counts as existing. Only a
    /// warning if the route names other Gateways that accept it.
    EP126 "not-attached" Error
    "A route, a Gateway or an Ingress is not attached to the Gateway, listener or class that it names."
}

/// The time in which a controller writes the status of a new route, in seconds.
const SEEN_WITHIN: i64 = 60;

/// A route, a Gateway or an Ingress that no controller serves. `lint` finds it, and `explain` of
/// the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotAttached {
    pub from: Referrer,
    /// The Gateway or the class.
    pub to: Referrer,
    #[serde(flatten)]
    pub why: WhyNotAttached,
    /// True if it names others to which it is attached.
    pub is_partly: bool,
}

/// The reason why an object is not attached. Serialises with the tag `why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WhyNotAttached {
    /// The Gateway or the class does not exist. `similar` are Gateways of the namespace with
    /// similar names, or all classes.
    Absent { similar: Vec<Text> },
    /// The Gateway has only these listeners.
    NoListener { listener: Text, listeners: Vec<Text> },
    /// A controller says so.
    Refused { said: String },
    /// No controller has written a status.
    Unseen,
}

impl NotAttached {
    /// Returns those of an object.
    pub(crate) fn of(objects: &Objects, from: &Referrer, now: Timestamp) -> Vec<Self> {
        let Some(attached) = objects.raw.attached.get(from) else { return Vec::new() };
        let why = |parent: &Parent| Some((parent.object.clone(), why(objects, attached, parent, now)?));
        let found: Vec<_> = attached.to.iter().filter_map(why).collect();
        let is_partly = found.len() < attached.to.len() + attached.others;
        let one = |(to, why)| Self { from: from.clone(), to, why, is_partly };
        found.into_iter().map(one).collect()
    }

    /// Returns those of an object, and of the Gateways that a route names.
    pub(crate) fn all_of(objects: &Objects, from: &Referrer, now: Timestamp) -> Vec<Self> {
        let to = objects.raw.attached.get(from).into_iter().flat_map(|it| &it.to);
        let gateways = to.filter(|parent| parent.object.kind == GATEWAY);
        let mut all = Self::of(objects, from, now);
        all.extend(gateways.flat_map(|parent| Self::of(objects, &parent.object, now)));
        all
    }

    /// Returns true if words of a controller are in the message.
    pub(crate) fn repeats(&self, said: &str) -> bool {
        match &self.why {
            WhyNotAttached::Refused { said: own } => said.ends_with(&**own),
            WhyNotAttached::Absent { .. } if self.is_class() => {
                said.ends_with(&format!("its class is {}", self.to.object.name))
            }
            _ => said.ends_with("no Gateway has accepted it"),
        }
    }

    fn is_class(&self) -> bool {
        CLASSES.contains(&self.to.kind)
    }

    /// Returns the field that names the Gateway or the class.
    fn field(&self) -> &'static str {
        match self.from.kind {
            INGRESS => ".spec.ingressClassName",
            GATEWAY => ".spec.gatewayClassName",
            _ => ".status.parents",
        }
    }
}

fn why(objects: &Objects, attached: &Attached, parent: &Parent, now: Timestamp) -> Option<WhyNotAttached> {
    let to = &parent.object;
    let is_class = CLASSES.contains(&to.kind);
    if objects.raw.absent.contains(to) {
        // A controller may serve objects of a class without looking for it.
        return (!is_class || !attached.is_seen)
            .then(|| WhyNotAttached::Absent { similar: similar(objects, to) });
    }
    if is_class {
        return None;
    }
    if let (Some(gateway), Some(listener)) = (objects.raw.attached.get(to), &parent.listener)
        && !gateway.listeners.contains(listener)
    {
        let listeners = gateway.listeners.clone();
        return Some(WhyNotAttached::NoListener { listener: listener.clone(), listeners });
    }
    if let Some(said) = parent.refused.clone() {
        return Some(WhyNotAttached::Refused { said });
    }
    let is_old = attached.created.is_some_and(|created| age::since(created, now) > SEEN_WITHIN);
    // Nobody knows what a Gateway is that was not read.
    let is_open = objects.raw.attached.contains_key(to) && !attached.is_seen && attached.others == 0;
    (is_open && is_old).then_some(WhyNotAttached::Unseen)
}

/// Returns the Gateways of the namespace with similar names, or the only one, or all classes.
fn similar(objects: &Objects, to: &Referrer) -> Vec<Text> {
    if CLASSES.contains(&to.kind) {
        let all = objects.raw.classes.iter().filter(|it| it.kind == to.kind);
        return all.map(|it| it.object.name.clone()).collect();
    }
    let all: Vec<&Text> = objects
        .referrers
        .keys()
        .filter(|it| it.kind == to.kind && it.object.namespace == to.object.namespace)
        .map(|it| &it.object.name)
        .collect();
    match &*all {
        [only] => vec![(*only).clone()],
        all => nearest_names(&to.object.name, all.iter().map(|name| &***name))
            .into_iter()
            .map(Text::from)
            .collect(),
    }
}

impl Finding for NotAttached {
    fn severity(&self) -> Option<Severity> {
        self.is_partly.then_some(Severity::Warning)
    }

    fn evidence(&self, _: &Read<'_>) -> Vec<Evidence> {
        let of = |it: &Referrer, field: &str, value: Value| Evidence::new(it.kind, &it.object, field, &value);
        match &self.why {
            WhyNotAttached::Absent { .. } => {
                let absent = of(&self.to, ".metadata.name", Value::Null);
                let named = self.is_class().then(|| of(&self.from, self.field(), json!(self.to.object.name)));
                named.into_iter().chain([absent]).collect()
            }
            WhyNotAttached::NoListener { listeners, .. } => {
                vec![of(&self.to, ".spec.listeners[*].name", json!(listeners))]
            }
            WhyNotAttached::Refused { said } => vec![of(&self.from, self.field(), json!(said))],
            WhyNotAttached::Unseen => vec![of(&self.from, self.field(), Value::Null)],
        }
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let Self { from, to, why, .. } = self;
        let show = |it: &Referrer| {
            let arguments = ["get", &it.resource(), &it.object.name, "-o", "yaml"];
            match &*it.object.namespace {
                "" => Step::kubectl(arguments),
                namespace => Step::kubectl_in(namespace, arguments),
            }
        };
        let (sentence, shown) = match why {
            WhyNotAttached::Absent { similar } if self.is_class() => {
                let list = Step::kubectl(["get", &format!("{}es", to.resource())]);
                let sentence = match &**similar {
                    [] => format!("Name an existing class in {from}, or install the controller of {to}"),
                    all => format!("Name an existing class in {from}: {}", names(all)),
                };
                (sentence, list)
            }
            WhyNotAttached::Absent { similar } => {
                let list = Step::kubectl_in(&to.object.namespace, ["get", "gateways"]);
                let sentence = match &**similar {
                    [] => format!("Create {to}, or name the right one in {from}"),
                    all => format!("Name an existing Gateway in {from}: {}", names(all)),
                };
                (sentence, list)
            }
            WhyNotAttached::NoListener { listeners, .. } if listeners.is_empty() => {
                (format!("Give {to} a listener"), show(to))
            }
            WhyNotAttached::NoListener { listeners, .. } => {
                (format!("Name a listener of {to} in {from}: {}", names(listeners)), show(to))
            }
            WhyNotAttached::Refused { .. } => {
                (format!("Correct {from} or {to} as the controller says"), show(to))
            }
            WhyNotAttached::Unseen => (format!("Look if the controller of {to} runs"), show(to)),
        };
        Remedy::ask(ServiceOwner, sentence).shown_by([shown])
    }
}

impl fmt::Display for NotAttached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, why, .. } = self;
        match why {
            WhyNotAttached::Absent { similar } => {
                let by = if self.from.kind == GATEWAY { ", which the Gateway names," } else { "" };
                write!(f, "{to}{by} does not exist")?;
                match &**similar {
                    [] => Ok(()),
                    all => write!(f, "; there is {}", names(all)),
                }
            }
            WhyNotAttached::NoListener { listener, listeners } if listeners.is_empty() => {
                write!(f, "{to} has no listener {listener}")
            }
            WhyNotAttached::NoListener { listener, listeners } => {
                write!(f, "{to} has no listener {listener}, only {}", names(listeners))
            }
            WhyNotAttached::Refused { said } => write!(f, "{to} does not accept it: {said}"),
            WhyNotAttached::Unseen => write!(f, "no controller has accepted it for {to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::Timestamp;
    use serde_json::Value;

    use super::*;
    use crate::facts::attached;

    /// Returns the messages about a route of this spec and status, beside the Gateway `edge`.
    fn of_route(parents: Value, status: Value) -> Vec<String> {
        let created = "2026-01-01T00:00:00Z";
        let gateway = json!({"kind": "Gateway", "metadata": {"name": "edge", "namespace": "shop"},
            "spec": {"gatewayClassName": "c", "listeners": [{"name": "http"}]}});
        let route = json!({"kind": "HTTPRoute", "spec": {"parentRefs": parents}, "status": {"parents": status},
            "metadata": {"name": "r", "namespace": "shop", "generation": 2, "creationTimestamp": created}});
        let mut objects = Objects::read([gateway, route]).unwrap();
        let absent = ObjectKey::new("shop", "egde");
        objects.note_absent(Referrer { kind: GATEWAY, object: absent });
        let from = Referrer { kind: "HTTPRoute", object: ObjectKey::new("shop", "r") };
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let found = NotAttached::all_of(&objects, &from, now);
        let severity = |it: &NotAttached| it.severity().unwrap_or(ABOUT.severity);
        found.iter().map(|it| format!("{:?} {it}", severity(it))).collect()
    }

    fn status(name: &str, accepted: &str, generation: i64) -> Value {
        json!({"parentRef": {"name": name}, "conditions": [{"type": "Accepted", "status": accepted,
            "reason": "NotAllowedByListeners", "observedGeneration": generation}]})
    }

    #[test]
    fn a_route_is_attached_to_an_existing_listener_of_a_gateway_that_accepts_it() {
        let all = [
            of_route(json!([{"name": "egde"}]), json!([])),
            of_route(json!([{"name": "egde"}, {"name": "edge"}]), json!([status("edge", "True", 2)])),
            of_route(json!([{"name": "edge", "sectionName": "https"}]), json!([])),
            of_route(json!([{"name": "edge"}]), json!([status("edge", "False", 2)])),
            of_route(json!([{"name": "edge"}]), json!([])),
        ];
        insta::assert_snapshot!(all.concat().join("\n"));
    }

    #[test]
    fn what_is_not_known_is_no_finding() {
        let none: [String; 0] = [];
        assert_eq!(of_route(json!([{"name": "edge"}]), json!([status("edge", "True", 2)])), none);
        // The controller has not seen the last change.
        assert_eq!(of_route(json!([{"name": "edge"}]), json!([status("edge", "False", 1)])), none);
        // It may have listeners that are objects of their own.
        let listener = json!([{"kind": "ListenerSet", "name": "egde", "sectionName": "https"}]);
        assert_eq!(of_route(listener, json!([])), none);
        // A mesh has no Gateway.
        assert_eq!(of_route(json!([{"group": "", "kind": "Service", "name": "egde"}]), json!([])), none);
        // The other namespace was not read.
        let elsewhere = json!([{"name": "egde", "namespace": "infra"}]);
        assert_eq!(of_route(elsewhere, json!([{"parentRef": {"name": "egde", "namespace": "infra"}}])), none);
        assert_eq!(of_route(json!([]), json!([])), none);
    }

    /// A class matters if no controller has written a status.
    #[test]
    fn a_class_that_does_not_exist_is_told_with_those_that_do() {
        let ingress = |status: Value| {
            let ingress = json!({"kind": "Ingress", "metadata": {"name": "i", "namespace": "shop"},
                "spec": {"ingressClassName": "nginx"}, "status": status});
            let class = json!({"kind": "IngressClass", "metadata": {"name": "traefik"}});
            let mut objects = Objects::read([ingress, class]).unwrap();
            objects.note_absent(attached::class("IngressClass", "nginx").unwrap());
            let from = Referrer { kind: INGRESS, object: ObjectKey::new("shop", "i") };
            let found = NotAttached::all_of(&objects, &from, Timestamp::UNIX_EPOCH);
            found.iter().map(|it| format!("{it}\n{}", it.remedy(&from.object).sentence)).collect::<Vec<_>>()
        };
        insta::assert_snapshot!(ingress(json!({})).join("\n"), @r"
        IngressClass nginx does not exist; there is traefik
        Name an existing class in Ingress shop/i: traefik
        ");
        let served = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        assert!(ingress(served).is_empty());
    }
}

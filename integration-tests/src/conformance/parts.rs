//! Selects the outputs to compare: those of the running controllers.

use serde_json::{Map, Value};

use super::normal::in_order;

/// A part of the outputs, to compare on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The Endpoints that the endpoints controller writes.
    Endpoints,
    /// The slices of the EndpointSlice controller.
    Slices,
    /// The hints in these slices, and the events about them.
    Hints,
    /// The slices of the mirroring controller.
    Mirroring,
}

impl Part {
    /// All parts with their names on command lines.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("endpoints", Self::Endpoints),
        ("slices", Self::Slices),
        ("hints", Self::Hints),
        ("mirroring", Self::Mirroring),
    ];
}

/// A set of parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    pub endpoints: bool,
    pub slices: bool,
    pub hints: bool,
    pub mirroring: bool,
}

impl Parts {
    /// Every part.
    pub const ALL: Self = Self { endpoints: true, slices: true, hints: true, mirroring: true };
    /// No part.
    pub const NONE: Self = Self { endpoints: false, slices: false, hints: false, mirroring: false };

    /// Returns these parts and `part`.
    pub const fn and(mut self, part: Part) -> Self {
        match part {
            Part::Endpoints => self.endpoints = true,
            Part::Slices => self.slices = true,
            Part::Hints => self.hints = true,
            Part::Mirroring => self.mirroring = true,
        }
        self
    }

    /// Parses a list such as `slices,mirroring`. Returns `None` if a name is unknown.
    pub fn parse(names: &str) -> Option<Self> {
        names.split(',').try_fold(Self::NONE, |parts, name| {
            let (_, part) = Part::NAMED.into_iter().find(|(known, _)| *known == name.trim())?;
            Some(parts.and(part))
        })
    }

    /// Removes all other parts from a normal form.
    ///
    /// It keeps outputs without the mark of one of our controllers: the scenario itself wrote them.
    pub fn mask(self, form: &mut Value) {
        if let Some(Value::Object(endpoints)) = form.get_mut("endpoints") {
            endpoints.retain(|_, object| {
                self.endpoints
                    || object["labels"]["endpoints.kubernetes.io/managed-by"] != "endpoint-controller"
            });
        }
        if let Some(Value::Array(groups)) = form.get_mut("slices") {
            groups.retain(|group| match manager(group) {
                Some("endpointslice-controller.k8s.io") => self.slices,
                Some("endpointslicemirroring-controller.k8s.io") => self.mirroring,
                _ => true,
            });
        }
        if !self.hints {
            drop_hints(form);
            if let Some(Value::Array(events)) = form.get_mut("events") {
                events
                    .retain(|event| !event.as_str().is_some_and(|text| text.contains("TopologyAwareHints")));
            }
        }
    }

    /// Returns true if a normal form contains any output of these parts.
    pub fn has_any_of(self, form: &Value) -> bool {
        let mut form = form.clone();
        self.mask(&mut form);
        let managed_endpoints = form["endpoints"].as_object().is_some_and(|endpoints| {
            endpoints
                .values()
                .any(|e| e["labels"]["endpoints.kubernetes.io/managed-by"] == "endpoint-controller")
        });
        let is_filled = |list: &str| form[list].as_array().is_some_and(|items| !items.is_empty());
        managed_endpoints || is_filled("slices") || is_filled("events")
    }
}

/// Removes the hints from the slices of a normal form.
pub fn drop_hints(form: &mut Value) {
    for group in form["slices"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        group.remove("hintCounts");
        let endpoints = group.get_mut("endpoints").and_then(Value::as_array_mut);
        for endpoint in endpoints.into_iter().flatten().filter_map(Value::as_object_mut) {
            Map::remove(endpoint, "hints");
        }
    }
    // Without hints the order may be different.
    in_order(form);
}

fn manager(group: &Value) -> Option<&str> {
    group["labels"]["endpointslice.kubernetes.io/managed-by"].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> Value {
        json!({
            "endpoints": {
                "made": {"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
                "hand": {"labels": {}},
            },
            "slices": [
                {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
                 "endpoints": [{"addresses": ["a"], "hints": {"forZones": []}}], "hintCounts": {}},
                {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"}},
                {"labels": {"endpointslice.kubernetes.io/managed-by": "somebody"}},
            ],
            "events": ["Normal TopologyAwareHintsEnabled Service/web", "Warning FailedToUpdateEndpoint Endpoints/web"],
        })
    }

    fn check(parts: &str, check: impl Fn(&Value) -> bool) {
        let mut masked = form();
        Parts::parse(parts).unwrap().mask(&mut masked);
        assert!(check(&masked), "{parts}: {masked:#}");
    }

    #[test]
    fn each_part_keeps_its_own_outputs() {
        let slices = |form: &Value| form["slices"].as_array().unwrap().len();
        check("endpoints,slices,hints,mirroring", |masked| *masked == form());
        check("endpoints", |masked| masked["endpoints"].get("made").is_some() && slices(masked) == 1);
        check("slices", |masked| masked["endpoints"].get("made").is_none() && slices(masked) == 2);
        check("mirroring", |masked| masked["endpoints"].get("hand").is_some() && slices(masked) == 2);
        check("slices", |masked| masked["slices"][0]["endpoints"] == json!([{"addresses": ["a"]}]));
        check("slices", |masked| masked["slices"][0].get("hintCounts").is_none());
        check("slices", |masked| masked["events"].as_array().unwrap().len() == 1);
        check("hints", |masked| masked["events"].as_array().unwrap().len() == 2);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert_eq!(Parts::parse("slices,hint"), None);
        assert_eq!(Parts::parse("slices, hints"), Some(Parts::NONE.and(Part::Slices).and(Part::Hints)));
        assert_eq!(Parts::parse("endpoints,slices,hints,mirroring"), Some(Parts::ALL));
    }

    #[test]
    fn endpoints_of_the_scenario_are_no_output_of_a_controller() {
        let form = json!({"endpoints": {"hand": {"labels": {}}}, "slices": [], "events": []});
        assert!(!Parts::ALL.has_any_of(&form));
    }
}

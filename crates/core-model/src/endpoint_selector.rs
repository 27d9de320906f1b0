//! An EndpointSelector, which selects the pods of Services that have no selector of their own.

use serde::{Deserialize, Deserializer};

use crate::label_selector::LabelSelectorFields;
use crate::meta::or_default;
use crate::protobuf::{DecodeError, FromProtobuf};
use crate::readiness::{InvalidReadiness, RawReadiness};
use crate::{
    Intern, Interner, InvalidLabelSelector, LabelSelector, ObjectKey, Readiness, ResourceVersion, Text, text,
    time,
};
use crate::{StringMap, Timestamp};

/// The longest name of an EndpointSelector, since a label of the slices has it as its value.
pub const LONGEST_NAME: usize = 63;

/// The fields of an EndpointSelector (`kube-endpoint-manager.github.io/v1alpha1`).
///
/// ```
/// use kube_endpoint_core_model::{EndpointSelector, StringMap};
/// let selector: EndpointSelector = serde_json::from_str(r#"{
///     "metadata": {"name": "web-stable", "namespace": "shop"},
///     "spec": {"selector": {
///         "matchLabels": {"app": "web"},
///         "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["canary"]}]
///     }}
/// }"#)?;
/// let pod: StringMap = [("app", "web")].into_iter().collect();
/// assert!(selector.selector?.matches(&pod));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSelector {
    pub key: ObjectKey,
    /// Version of the object behind this view.
    pub resource_version: ResourceVersion,
    /// Grows with each change of `spec`.
    pub generation: i64,
    /// `spec.selector`, or the reason why it selects nothing.
    pub selector: Result<LabelSelector, InvalidSelector>,
    /// `spec.readiness`: which of the ready pods are ready endpoints. Without it all of them are.
    pub readiness: Option<Readiness>,
    /// The status that the controller has written.
    pub status: SelectorStatus,
}

/// The reason why an EndpointSelector selects nothing. The schema of the API lets no such object
/// in, except one whose `matchLabels` have an invalid key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSelector {
    /// A label or an expression is invalid.
    #[error("spec.selector is invalid: {0}")]
    Invalid(#[from] InvalidLabelSelector),
    /// The selector would select every pod.
    #[error("spec.selector is empty; give it matchLabels or matchExpressions")]
    Empty,
    /// `spec.readiness` is not one of its forms.
    #[error("spec.readiness is invalid: {0}")]
    Readiness(#[from] InvalidReadiness),
    /// A label cannot have the name as its value.
    #[error("the name has {0} characters; a label of the slices has it as its value, so use at most 63")]
    LongName(usize),
}

/// The status of an EndpointSelector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SelectorStatus {
    /// The generation that the rest of the status is about.
    pub observed_generation: Option<i64>,
    /// The number of Services that name the selector.
    pub services: Option<i64>,
    /// `Accepted`, and `ReadyToAttach` if Services rehearse.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// A condition of the status (`metav1.Condition`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type", deserialize_with = "text::or_empty")]
    pub kind: Text,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "text::or_empty")]
    pub status: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub reason: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub message: Text,
    #[serde(deserialize_with = "time::optional")]
    pub last_transition_time: Option<Timestamp>,
}

impl Default for EndpointSelector {
    /// Returns a selector that selects nothing, since it is empty.
    fn default() -> Self {
        Self {
            key: ObjectKey::default(),
            resource_version: ResourceVersion::default(),
            generation: 0,
            selector: Err(InvalidSelector::Empty),
            readiness: None,
            status: SelectorStatus::default(),
        }
    }
}

impl EndpointSelector {
    /// Returns true if the readiness of pods depends on a Lease.
    pub fn names_lease(&self) -> bool {
        matches!(self.readiness, Some(Readiness::Lease { .. }))
    }

    /// Returns true if the selector selects these labels. An invalid one selects nothing.
    pub fn selects(&self, labels: &StringMap) -> bool {
        self.selector.as_ref().is_ok_and(|selector| selector.matches(labels))
    }
}

/// Returns the selector that a controller may use.
fn checked(name: &str, fields: &LabelSelectorFields) -> Result<LabelSelector, InvalidSelector> {
    let selector = LabelSelector::try_from(fields)?;
    match name.len() {
        _ if selector.is_everything() => Err(InvalidSelector::Empty),
        length if length > LONGEST_NAME => Err(InvalidSelector::LongName(length)),
        _ => Ok(selector),
    }
}

impl Intern for EndpointSelector {
    fn intern(&mut self, interner: &mut Interner) {
        interner.text(&mut self.key.namespace);
    }
}

impl FromProtobuf for EndpointSelector {
    /// Fails: an API server has custom resources in JSON only.
    fn from_protobuf(_: &[u8], _: &mut Interner) -> Result<Self, DecodeError> {
        Err(DecodeError::Broken { message: "the EndpointSelector, which the API server sends as JSON" })
    }
}

impl<'de> Deserialize<'de> for EndpointSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawSelector { metadata, spec, status } = RawSelector::deserialize(deserializer)?;
        // Who asks for a readiness that is not understood wants no pod published without it.
        let (readiness, invalid) = match spec.readiness.map(Readiness::try_from).transpose() {
            Ok(readiness) => (readiness, None),
            Err(invalid) => (None, Some(invalid)),
        };
        let selector = checked(&metadata.name, &spec.selector);
        Ok(Self {
            selector: invalid.map_or(selector, |invalid| Err(invalid.into())),
            readiness,
            key: ObjectKey { namespace: metadata.namespace, name: metadata.name },
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            status,
        })
    }
}

#[derive(Deserialize)]
struct RawSelector {
    metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: RawSpec,
    #[serde(default, deserialize_with = "or_default")]
    status: SelectorStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    #[serde(deserialize_with = "or_default")]
    selector: LabelSelectorFields,
    readiness: Option<RawReadiness>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta {
    #[serde(deserialize_with = "text::or_empty")]
    name: Text,
    #[serde(default, deserialize_with = "text::or_empty")]
    namespace: Text,
    #[serde(default)]
    resource_version: ResourceVersion,
    #[serde(default, deserialize_with = "or_default")]
    generation: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pick, Role};
    use serde_json::{Value, json};

    fn selector(name: &str, spec: Value) -> EndpointSelector {
        let object = json!({"metadata": {"name": name, "namespace": "shop", "generation": 3}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_expression_selects() {
        let track = json!({"key": "track", "operator": "NotIn", "values": ["canary"]});
        let selector = selector("web", json!({"selector": {"matchExpressions": [track]}}));
        let labels = |track: &str| [("track", track)].into_iter().collect();
        assert!(selector.selects(&labels("stable")) && selector.selects(&StringMap::default()));
        assert!(!selector.selects(&labels("canary")));
        assert_eq!(selector.generation, 3);
    }

    #[test]
    fn an_invalid_selector_is_read_and_selects_nothing() {
        let check = |name: &str, spec: Value, want: &str| {
            let selector = selector(name, spec);
            assert!(!selector.selects(&StringMap::default()), "{want}");
            assert_eq!(selector.selector.unwrap_err().to_string(), want);
        };
        let empty = "spec.selector is empty; give it matchLabels or matchExpressions";
        check("web", json!({}), empty);
        check("web", json!(null), empty);
        check("web", json!({"selector": {"matchLabels": {}}}), empty);
        check(
            &"w".repeat(64),
            json!({"selector": {"matchLabels": {"a": "b"}}}),
            "the name has 64 characters; a label of the slices has it as its value, so use at most 63",
        );
        let key = json!({"selector": {"matchLabels": {"a b": "c"}}});
        assert!(
            selector("web", key).selector.unwrap_err().to_string().starts_with(
                "spec.selector is invalid: \"a b\" is no key of a label; write a name of letters"
            )
        );
    }

    #[test]
    fn readiness_is_read_and_an_invalid_one_selects_nothing() {
        let read = |readiness: Value| {
            let selector = json!({"matchLabels": {"app": "db"}});
            self::selector("db", json!({"selector": selector, "readiness": readiness}))
        };
        let check = |readiness: Value, want: Option<Readiness>| {
            let selector = read(readiness);
            assert!(selector.selector.is_ok());
            assert_eq!(selector.readiness, want);
        };
        let condition = |pick| Some(Readiness::Condition { kind: "shop.example/leader".into(), pick });
        check(Value::Null, None);
        let lease = |role| Some(Readiness::Lease { name: "db".into(), role });
        check(json!({"lease": {"name": "db"}}), lease(Role::Leader));
        check(json!({"lease": {"name": "db", "role": "Leader"}}), lease(Role::Leader));
        check(json!({"lease": {"name": "db", "role": "Follower"}}), lease(Role::Follower));
        check(json!({"condition": "shop.example/leader"}), condition(Pick::All));
        check(json!({"condition": "shop.example/leader", "pick": "All"}), condition(Pick::All));
        check(json!({"condition": "shop.example/leader", "pick": "Newest"}), condition(Pick::Newest));
        let refused = |readiness: Value| {
            let selector = read(readiness.clone());
            assert_eq!(selector.readiness, None);
            let labels = [("app", "db")].into_iter().collect();
            assert!(!selector.selects(&labels), "{readiness}");
            selector.selector.unwrap_err().to_string()
        };
        let messages = [
            json!({}),
            json!({"lease": {"name": "db"}, "condition": "shop.example/leader"}),
            json!({"lease": {"name": ""}}),
            json!({"lease": {}}),
            json!({"lease": {"name": "db", "role": "follower"}}),
            json!({"condition": "Ready"}),
            json!({"condition": "shop.example/leader", "pick": "Oldest"}),
            json!({"lease": {"name": "db"}, "pick": "All"}),
        ]
        .map(refused);
        insta::assert_snapshot!(messages.join("\n"));
    }

    #[test]
    fn the_status_is_read() {
        let status = json!({"observedGeneration": 2, "services": 1, "conditions": [{
            "type": "Accepted", "status": "False", "reason": "InvalidSelector", "message": "m",
            "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 2}]});
        let object = json!({"metadata": {"name": "web"}, "status": status});
        let SelectorStatus { observed_generation, services, conditions } =
            serde_json::from_value::<EndpointSelector>(object).unwrap().status;
        assert_eq!((observed_generation, services), (Some(2), Some(1)));
        let Condition { kind, status, reason, .. } = &conditions[0];
        assert_eq!([&**kind, &**status, &**reason], ["Accepted", "False", "InvalidSelector"]);
    }
}

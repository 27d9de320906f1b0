//! Reads JSON without the large fields that no explanation looks at, such as the environment of
//! containers and the images of nodes: a list of all pods has hundreds of megabytes of them.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The fields that are left out, at any place of a list.
#[derive(Clone, Copy, Debug)]
enum Rule {
    LeftOut,
    In(&'static [(&'static str, Rule)]),
}

/// Stands for all fields that a rule does not name.
const OTHERS: &str = "*";

const METADATA: Rule = Rule::In(&[("managedFields", Rule::LeftOut)]);

const CONTAINERS: Rule = Rule::In(&[
    ("env", Rule::LeftOut),
    ("envFrom", Rule::LeftOut),
    ("resources", Rule::LeftOut),
    ("securityContext", Rule::LeftOut),
    ("volumeMounts", Rule::LeftOut),
]);

const POD_SPEC: Rule = Rule::In(&[
    ("affinity", Rule::LeftOut),
    ("containers", CONTAINERS),
    ("initContainers", CONTAINERS),
    ("tolerations", Rule::LeftOut),
    ("volumes", Rule::In(&[("persistentVolumeClaim", Rule::In(&[])), (OTHERS, Rule::LeftOut)])),
]);

const PODS: &[(&str, Rule)] = &[("items", Rule::In(&[("metadata", METADATA), ("spec", POD_SPEC)]))];

const NODES: &[(&str, Rule)] =
    &[("items", Rule::In(&[("metadata", METADATA), ("status", Rule::In(&[("images", Rule::LeftOut)]))]))];

/// Reads a list of objects of a kind.
pub(crate) fn list(kind: &str, text: &str) -> Result<Value, serde_json::Error> {
    let left_out = match kind {
        "Pod" => PODS,
        "Node" => NODES,
        _ => &[],
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let list = Pruned(left_out).deserialize(&mut json)?;
    json.end()?;
    Ok(list)
}

/// Reads a value without some of its fields.
#[derive(Clone, Copy)]
struct Pruned(&'static [(&'static str, Rule)]);

impl<'de> DeserializeSeed<'de> for Pruned {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pruned {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(field) = fields.next_key::<String>()? {
            let value = match self.0.iter().find(|(name, _)| *name == field || *name == OTHERS) {
                Some((_, Rule::LeftOut)) => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                Some((_, Rule::In(rules))) => fields.next_value_seed(Self(rules))?,
                None => fields.next_value()?,
            };
            all.insert(field, value);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_large_fields_of_their_place_are_left_out() {
        let pod = json!({
            "metadata": {"name": "a", "labels": {"env": "prod", "volumes": "x"}, "managedFields": [{}]},
            "spec": {"containers": [{"name": "app", "env": [{"name": "X"}], "ports": [{"containerPort": 80}]}],
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}, {"secret": {}}], "nodeName": "n", "hostNetwork": true},
            "status": {"startTime": null, "x": -1, "y": 1.5},
        });
        let text = json!({"kind": "PodList", "items": [pod]}).to_string();
        let want = json!({"kind": "PodList", "items": [{
            "metadata": {"name": "a", "labels": {"env": "prod", "volumes": "x"}},
            "spec": {"containers": [{"name": "app", "ports": [{"containerPort": 80}]}], "nodeName": "n",
                "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {}], "hostNetwork": true},
            "status": {"startTime": null, "x": -1, "y": 1.5},
        }]});
        assert_eq!(list("Pod", &text).unwrap(), want);
        assert_eq!(list("Service", &text).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        assert!(list("Pod", "<html>").is_err());
        assert!(list("Pod", "{} {}").is_err());
    }
}

//! Parses JSON text by the table of its type, to find faults that a parsed value no longer shows:
//! keys that occur twice, and unknown fields in the order of the text. After `sigs.k8s.io/json`.
//!
//! It skips an unknown field without recursion, however deeply it nests.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::schema::{GoType, Shape};

/// The most texts that the real server reports of one body.
const MAX_REPORTED: usize = 100;

/// A parsed body.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The value, without unknown fields. If a key occurs twice, the last value counts; two objects
    /// merge if Go decodes into one struct or map.
    pub value: Value,
    /// `unknown field "…"` and `duplicate field "…"`, in the order of the text.
    pub strict: Vec<String>,
}

/// The fields and items of a value, by its type.
#[derive(Clone, Copy)]
pub(crate) enum Guide {
    Struct(&'static GoType),
    Map(&'static Shape),
    List(&'static Shape),
    /// Any value: a scalar, or a body without a table, such as a patch.
    Any,
}

impl Guide {
    fn of(shape: &'static Shape) -> Self {
        match shape {
            Shape::Object(go_type) => Self::Struct(go_type),
            Shape::Map(item) => Self::Map(item),
            Shape::List(item) => Self::List(item),
            _ => Self::Any,
        }
    }

    /// Returns the guide of a field, or `None` if there is no such field.
    fn field(self, key: &str) -> Option<Self> {
        match self {
            Self::Struct(go_type) => {
                go_type.fields.iter().find(|field| field.name == key).map(|field| Self::of(&field.shape))
            }
            Self::Map(item) => Some(Self::of(item)),
            Self::List(_) | Self::Any => Some(Self::Any),
        }
    }
}

/// Parses a body.
pub(crate) fn parse(guide: Guide, text: &[u8]) -> serde_json::Result<Parsed> {
    let mut walk = Walk { path: Vec::new(), strict: Vec::new() };
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = Guided { guide, walk: &mut walk }.deserialize(&mut json)?;
    json.end()?;
    Ok(Parsed { value, strict: walk.strict })
}

/// A segment of a path.
enum Step {
    Key(String),
    Index(usize),
}

struct Walk {
    path: Vec<Step>,
    strict: Vec<String>,
}

impl Walk {
    /// Reports the field at the current path.
    fn report(&mut self, what: &str) {
        let mut place = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if place.is_empty() => place.push_str(key),
                Step::Key(key) => place.extend([".", key]),
                Step::Index(index) => place.push_str(&format!("[{index}]")),
            }
        }
        let text = format!("{what} field \"{place}\"");
        if self.strict.len() < MAX_REPORTED && !self.strict.contains(&text) {
            self.strict.push(text);
        }
    }
}

/// Deserializes a value. If the text has another type than the table, it parses the value as it is:
/// decoding reports the mismatch.
struct Guided<'a> {
    guide: Guide,
    walk: &'a mut Walk,
}

impl<'de> DeserializeSeed<'de> for Guided<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Guided<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let guide = match self.guide {
            Guide::List(item) => Guide::of(item),
            _ => Guide::Any,
        };
        let mut values = Vec::new();
        self.walk.path.push(Step::Index(0));
        while let Some(value) = items.next_element_seed(Guided { guide, walk: self.walk })? {
            values.push(value);
            if let Some(Step::Index(index)) = self.walk.path.last_mut() {
                *index = values.len();
            }
        }
        self.walk.path.pop();
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let merges = matches!(self.guide, Guide::Struct(_));
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let Some(guide) = self.guide.field(&key) else {
                entries.next_value::<IgnoredAny>()?;
                self.walk.path.push(Step::Key(key));
                self.walk.report("unknown");
                self.walk.path.pop();
                continue;
            };
            let earlier = map.remove(&key);
            self.walk.path.push(Step::Key(key));
            if earlier.is_some() {
                self.walk.report("duplicate");
            }
            let value = entries.next_value_seed(Guided { guide, walk: self.walk })?;
            let value = match (earlier, value) {
                (Some(mut earlier @ Value::Object(_)), value @ Value::Object(_)) if merges => {
                    merge(&mut earlier, value);
                    earlier
                }
                (Some(earlier @ Value::Object(_)), Value::Null) if merges => earlier,
                (_, value) => value,
            };
            if let Some(Step::Key(key)) = self.walk.path.pop() {
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}

/// Changes `earlier` as Go does when it decodes `later` into the same struct or map.
fn merge(earlier: &mut Value, later: Value) {
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => {
            for (key, value) in later {
                merge(earlier.entry(key).or_insert(Value::Null), value);
            }
        }
        (earlier, later) => *earlier = later,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ENDPOINTS: Guide = Guide::Struct(&crate::schema::core::Endpoints);

    fn check(guide: Guide, text: &str, value: &Value, strict: &[&str]) {
        let parsed = parse(guide, text.as_bytes()).unwrap();
        assert_eq!(parsed.value, *value);
        assert_eq!(parsed.strict, strict);
    }

    #[test]
    fn duplicate_and_unknown_fields_are_reported_in_the_order_of_the_text() {
        // A kube-apiserver 1.36.2 answers with these warnings and this object.
        let text = r#"{"metadata": {"name": "a", "name": "b", "labels": {"x": "1", "x": "2", "y": "1"}},
            "subsets": [{"ports": [{"port": 1, "port": 2, "bogus": 1, "bogus": 2}]}], "subsets": [],
            "metadata": {"annotations": {"z": "1"}}, "zzz": {"a": 1, "a": 2}}"#;
        let value = json!({
            "metadata": {"name": "b", "labels": {"x": "2", "y": "1"}, "annotations": {"z": "1"}}, "subsets": [],
        });
        let strict = [
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "metadata.labels.x""#,
            r#"duplicate field "subsets[0].ports[0].port""#,
            r#"unknown field "subsets[0].ports[0].bogus""#,
            r#"duplicate field "subsets""#,
            r#"duplicate field "metadata""#,
            r#"unknown field "zzz""#,
        ];
        check(ENDPOINTS, text, &value, &strict);
    }

    #[test]
    fn without_a_table_the_last_value_counts() {
        let text = r#"{"metadata": {"labels": {"p": "1", "p": "2"}, "labels": {"q": "1"}}, "q": 1}"#;
        let strict = [r#"duplicate field "metadata.labels.p""#, r#"duplicate field "metadata.labels""#];
        check(Guide::Any, text, &json!({"metadata": {"labels": {"q": "1"}}, "q": 1}), &strict);
        check(
            Guide::Any,
            r#"[{"op": "add", "op": "test"}]"#,
            &json!([{"op": "test"}]),
            &[r#"duplicate field "[0].op""#],
        );
    }

    #[test]
    fn null_leaves_a_struct_as_it_is() {
        let text = r#"{"metadata": {"name": "a"}, "metadata": null, "subsets": [], "subsets": null}"#;
        let strict = [r#"duplicate field "metadata""#, r#"duplicate field "subsets""#];
        check(ENDPOINTS, text, &json!({"metadata": {"name": "a"}, "subsets": null}), &strict);
    }

    #[test]
    fn unknown_fields_may_nest_to_any_depth() {
        let text = format!(r#"{{"zz": {}{}}}"#, "[".repeat(9000), "]".repeat(9000));
        check(ENDPOINTS, &text, &json!({}), &[r#"unknown field "zz""#]);
    }

    #[test]
    fn without_duplicates_it_parses_what_serde_json_parses() {
        let text = r#"{"apiVersion":"v1","kind":7,"metadata":{"name":"é","labels":["not","a","map"]},"subsets":-1.5e3}"#;
        check(ENDPOINTS, text, &serde_json::from_str(text).unwrap(), &[]);
        for bad in ["", "{", "{} x", "[1,]", "nul", "{\"a\" 1}", "\"\u{1}\""] {
            let (own, known) = (parse(Guide::Any, bad.as_bytes()), serde_json::from_str::<Value>(bad));
            assert_eq!(own.unwrap_err().to_string(), known.unwrap_err().to_string(), "{bad:?}");
        }
    }
}

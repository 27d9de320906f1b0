//! Reads and writes fields of decoded objects. After decoding every field has the type that its
//! table says, and a missing field reads as its zero value, as in Go.

use serde_json::{Map, Value};

/// Field access as Go has it: absent means zero.
pub(crate) trait Fields {
    /// Returns a string, or the empty string if it is absent.
    fn text(&self, key: &str) -> &str;
    /// Returns a string, if there is one.
    fn opt_text(&self, key: &str) -> Option<&str>;
    /// Returns an integer, or zero if it is absent.
    fn int(&self, key: &str) -> i64;
    /// Returns an integer, if there is one.
    fn opt_int(&self, key: &str) -> Option<i64>;
    /// Returns a boolean, or false if it is absent.
    fn flag(&self, key: &str) -> bool;
    /// Returns the items of a list, or an empty list if it is absent.
    fn list(&self, key: &str) -> &[Value];
    /// Returns the strings in a list.
    fn texts(&self, key: &str) -> Vec<&str>;
    /// Returns the entries of a map of strings, sorted by key.
    fn entries(&self, key: &str) -> impl Iterator<Item = (&str, &str)>;
    /// Returns true if the field is there and not null.
    fn has(&self, key: &str) -> bool;
    /// Returns the object in a field. It and the parent become objects if they are none.
    fn child(&mut self, key: &str) -> &mut Value;
    /// Sets a field.
    fn set(&mut self, key: &str, value: impl Into<Value>);
    /// Sets a field if it is absent.
    fn set_default(&mut self, key: &str, value: impl Into<Value>);
    /// Copies a field of another object, or removes it if the other object lacks it.
    fn copy(&mut self, key: &str, other: &Value);
    /// Removes a field.
    fn drop_field(&mut self, key: &str);
    /// Returns the items of a list as a mutable slice.
    fn items_mut(&mut self, key: &str) -> &mut [Value];
}

impl Fields for Value {
    fn text(&self, key: &str) -> &str {
        self.opt_text(key).unwrap_or("")
    }

    fn opt_text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    fn int(&self, key: &str) -> i64 {
        self.opt_int(key).unwrap_or(0)
    }

    fn opt_int(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_i64()
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).and_then(Self::as_bool).unwrap_or(false)
    }

    fn list(&self, key: &str) -> &[Value] {
        self.get(key).and_then(Self::as_array).map_or(&[], Vec::as_slice)
    }

    fn texts(&self, key: &str) -> Vec<&str> {
        self.list(key).iter().filter_map(Self::as_str).collect()
    }

    fn entries(&self, key: &str) -> impl Iterator<Item = (&str, &str)> {
        self.get(key)
            .and_then(Self::as_object)
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.as_str(), v.as_str().unwrap_or("")))
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| !v.is_null())
    }

    fn child(&mut self, key: &str) -> &mut Value {
        if !self.is_object() {
            *self = Self::Object(Map::new());
        }
        let field = &mut self[key];
        if !field.is_object() {
            *field = Self::Object(Map::new());
        }
        field
    }

    fn set(&mut self, key: &str, value: impl Into<Value>) {
        if let Some(map) = self.as_object_mut() {
            map.insert(key.to_owned(), value.into());
        }
    }

    fn set_default(&mut self, key: &str, value: impl Into<Value>) {
        if !self.has(key) {
            self.set(key, value);
        }
    }

    fn copy(&mut self, key: &str, other: &Value) {
        match other.get(key) {
            Some(value) => self.set(key, value.clone()),
            None => self.drop_field(key),
        }
    }

    fn drop_field(&mut self, key: &str) {
        if let Some(map) = self.as_object_mut() {
            map.remove(key);
        }
    }

    fn items_mut(&mut self, key: &str) -> &mut [Value] {
        self.get_mut(key).and_then(Self::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
    }
}

/// Returns the spec of an object, or null if it has no spec.
pub(crate) fn spec(object: &Value) -> &Value {
    &object["spec"]
}

/// The deepest nesting of arrays and objects in an object: the deepest that `serde_json` parses, so
/// that the server can read every stored object.
pub(crate) const MAX_DEPTH: usize = 127;

/// Returns the depth of nested arrays and objects in a value, 0 for a scalar.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Returns Go's name of the type of a JSON value.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

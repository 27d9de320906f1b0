//! Errors about fields, worded like `apimachinery/pkg/util/validation/field`.

use std::fmt;

use serde_json::Value;

use crate::status::Cause;

/// The path of a field. It borrows its parent, so a path allocates nothing until somebody prints
/// it.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The first part of a path; it may contain dots.
    Root(&'a str),
    /// A field of an object.
    Child(&'a Path<'a>, &'a str),
    /// An item of a list.
    Index(&'a Path<'a>, usize),
    /// An entry of a map.
    Key(&'a Path<'a>, &'a str),
}

impl<'a> Path<'a> {
    /// Returns a field below this one.
    pub fn child(&'a self, name: &'a str) -> Self {
        Self::Child(self, name)
    }

    /// Returns an item of this list.
    pub fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }

    /// Returns an entry of this map.
    pub fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Child(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

/// A bad value that prints verbatim.
pub(crate) struct Raw(pub(crate) String);

/// A bad value. Strings print quoted, numbers plain, and other values as JSON.
pub trait BadValue {
    /// Returns the value as the error prints it.
    fn shown(&self) -> String;
}

impl BadValue for str {
    fn shown(&self) -> String {
        format!("{self:?}")
    }
}

impl BadValue for String {
    fn shown(&self) -> String {
        self.as_str().shown()
    }
}

impl BadValue for i64 {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl BadValue for Value {
    fn shown(&self) -> String {
        match self {
            Self::String(text) => text.shown(),
            other => other.to_string(),
        }
    }
}

impl BadValue for [&str] {
    fn shown(&self) -> String {
        format!("[{}]", self.iter().map(|s| s.shown()).collect::<Vec<_>>().join(","))
    }
}

impl BadValue for Raw {
    fn shown(&self) -> String {
        self.0.clone()
    }
}

/// Field errors in the order of their detection.
#[derive(Debug, Default)]
pub struct Errors(Vec<Cause>);

impl Errors {
    /// Returns true if there are no errors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of errors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the errors as causes of a Status.
    pub(crate) fn into_causes(self) -> Vec<Cause> {
        self.0
    }

    /// Appends the errors of another list.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    fn add(&mut self, reason: &str, path: &Path<'_>, body: String, detail: &str) {
        let message = if detail.is_empty() { body } else { format!("{body}: {detail}") };
        self.0.push(Cause { reason: reason.to_owned(), message, field: path.to_string() });
    }

    /// Adds the error of a value that is malformed or out of bounds.
    pub fn invalid(&mut self, path: &Path<'_>, value: &(impl BadValue + ?Sized), detail: &str) {
        self.add("FieldValueInvalid", path, format!("Invalid value: {}", value.shown()), detail);
    }

    /// Adds the error of a value of another type than the schema of a custom resource wants.
    pub(crate) fn wrong_type(&mut self, path: &Path<'_>, found: &str, wanted: &str) {
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        self.add("FieldValueTypeInvalid", path, format!("Invalid value: {found:?}"), &detail);
    }

    /// Adds the error of a rule of a custom resource's schema, which shows no value.
    pub(crate) fn rule(&mut self, path: &Path<'_>, message: &str) {
        self.add("FieldValueInvalid", path, "Invalid value".to_owned(), message);
    }

    /// Adds one such error for each message.
    pub fn invalid_each(&mut self, path: &Path<'_>, value: &(impl BadValue + ?Sized), messages: Vec<String>) {
        for message in messages {
            self.invalid(path, value, &message);
        }
    }

    /// Adds the error of a missing value.
    pub fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.add("FieldValueRequired", path, "Required value".to_owned(), detail);
    }

    /// Adds the error of a value that occurs twice.
    pub fn duplicate(&mut self, path: &Path<'_>, value: &(impl BadValue + ?Sized)) {
        self.add("FieldValueDuplicate", path, format!("Duplicate value: {}", value.shown()), "");
    }

    /// Adds the error of a value outside an enumeration.
    pub fn not_supported(&mut self, path: &Path<'_>, value: &(impl BadValue + ?Sized), supported: &[&str]) {
        let listed: Vec<String> = supported.iter().map(|s| s.shown()).collect();
        let detail = format!("supported values: {}", listed.join(", "));
        self.add("FieldValueNotSupported", path, format!("Unsupported value: {}", value.shown()), &detail);
    }

    /// Adds the error of a value that is not allowed here.
    pub fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.add("FieldValueForbidden", path, "Forbidden".to_owned(), detail);
    }

    /// Adds the error of a value of too many bytes.
    pub fn too_long(&mut self, path: &Path<'_>, bytes: usize) {
        let detail = format!("may not be more than {bytes} bytes");
        self.add("FieldValueTooLong", path, "Too long".to_owned(), &detail);
    }

    /// Adds the error of a list of too many items.
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, most: usize) {
        let items = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {items}");
        self.add("FieldValueTooMany", path, format!("Too many: {actual}"), &detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_messages_read_as_upstream() {
        let root = Path::Root("spec");
        let ports = root.child("ports");
        let port = ports.index(2);
        let mut errors = Errors::default();
        errors.invalid(&port.child("port"), &0, "must be between 1 and 65535, inclusive");
        errors.required(&root.child("clusterIPs"), "");
        errors.not_supported(&root.child("type"), "X", &["A", "B"]);
        errors.too_many(&root, 2, 1);
        errors.invalid(&root.child("clusterIPs").index(0), ["a", "b"].as_slice(), "may not change once set");
        errors.duplicate(&Path::Root("metadata.annotations").key("a/b"), "x");
        let lines: Vec<String> =
            errors.into_causes().iter().map(|c| format!("{} {}: {}", c.reason, c.field, c.message)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        FieldValueInvalid spec.ports[2].port: Invalid value: 0: must be between 1 and 65535, inclusive
        FieldValueRequired spec.clusterIPs: Required value
        FieldValueNotSupported spec.type: Unsupported value: "X": supported values: "A", "B"
        FieldValueTooMany spec: Too many: 2: must have at most 1 item
        FieldValueInvalid spec.clusterIPs[0]: Invalid value: ["a","b"]: may not change once set
        FieldValueDuplicate metadata.annotations[a/b]: Duplicate value: "x"
        "#);
    }
}

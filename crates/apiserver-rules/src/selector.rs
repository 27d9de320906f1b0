//! Label and field selectors, as query parameters carry them.

use crate::resource::Resource;
use crate::status::Status;

/// A parsed label selector; the default one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let _ = text;
        Ok(Self {})
    }

    /// Whether an object whose labels `get` looks up is selected.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        let _ = get;
        true
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        true
    }
}

/// A parsed field selector; the default one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {}

impl FieldSelector {
    /// Parses `metadata.name=a,spec.nodeName!=b`; a field that the resource does not offer is refused (400) with
    /// upstream's message.
    pub fn parse(resource: &Resource, text: &str) -> Result<Self, Status> {
        let _ = (resource, text);
        Ok(Self {})
    }

    /// Whether an object whose selectable fields `get` looks up is selected.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        let _ = get;
        true
    }

    /// Whether it selects everything.
    pub fn is_everything(&self) -> bool {
        true
    }
}

/// The fields by which objects of a resource can be selected, such as `spec.nodeName` of pods.
pub fn selectable_fields(resource: &Resource) -> &'static [&'static str] {
    let _ = resource;
    &["metadata.name", "metadata.namespace"]
}

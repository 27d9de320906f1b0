//! The fields of each kind and how Go prints them: the tables that guide decoding.
//!
//! The tables describe the Go types of the real server, without their semantics. Decoding an object
//! by its table gives exactly the object that the real server would store: it drops unknown fields
//! and zero values of `omitempty` fields, and adds fields that Go always prints.

pub(crate) mod core;
pub(crate) mod discovery;
mod meta;
pub(crate) mod node;
pub(crate) mod other;
pub(crate) mod pod;
mod pod_status;

/// The type of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A string; the Go type's name is for error texts.
    Text(&'static str),
    Bool,
    Int32,
    Int64,
    /// A resource quantity: a string, or a number that becomes one.
    Quantity,
    /// `metav1.Time`: whole seconds, UTC.
    Time,
    /// `metav1.MicroTime`: microseconds, UTC.
    MicroTime,
    IntOrString,
    Any,
    Object(&'static GoType),
    List(&'static Shape),
    Map(&'static Shape),
}

/// The condition for printing a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Go always prints it, if necessary with its zero value.
    Keep,
    /// Go prints it unless it has its zero value.
    Omit,
    /// Go prints it if it is set: a pointer with `omitempty`.
    Opt,
}

/// One field of a Go struct.
#[derive(Debug)]
pub(crate) struct Field {
    /// Name in JSON.
    pub(crate) name: &'static str,
    pub(crate) presence: Presence,
    pub(crate) shape: Shape,
}

/// A Go struct.
#[derive(Debug)]
pub(crate) struct GoType {
    /// The name without its package.
    pub(crate) name: &'static str,
    /// The fields, including those of embedded structs: sorted by name after the three that every
    /// kind begins with.
    pub(crate) fields: &'static [Field],
}

/// Defines one table for each Go struct, named after the struct.
macro_rules! go_types {
    ($($name:ident { $($field:literal $presence:ident $shape:expr,)* })*) => {
        $(
            #[allow(non_upper_case_globals)]
            pub(crate) static $name: $crate::schema::GoType = $crate::schema::GoType {
                name: stringify!($name),
                fields: &[$($crate::schema::Field {
                    name: $field,
                    presence: $crate::schema::go_types!(@$presence),
                    shape: $shape,
                }),*],
            };
        )*
    };
    (@keep) => { $crate::schema::Presence::Keep };
    (@omit) => { $crate::schema::Presence::Omit };
    (@opt) => { $crate::schema::Presence::Opt };
}
pub(crate) use go_types;

/// [`go_types!`] for kinds, which begin with the fields that every object has.
macro_rules! kinds {
    ($($name:ident { $($fields:tt)* })*) => {
        $crate::schema::go_types! {
            $($name {
                "apiVersion" omit Text("string"),
                "kind" omit Text("string"),
                "metadata" keep Object(&ObjectMeta),
                $($fields)*
            })*
        }
    };
}
pub(crate) use kinds;

impl Shape {
    /// Returns the Go type's name, for error texts.
    pub(crate) fn go_name(&self) -> String {
        match self {
            Self::Text(name) => (*name).to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int32 => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::MicroTime => "v1.MicroTime".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::Any => "interface {}".to_owned(),
            Self::Object(go_type) => format!("v1.{}", go_type.name),
            Self::List(item) => format!("[]{}", item.go_name()),
            Self::Map(Self::Quantity) => "v1.ResourceList".to_owned(),
            Self::Map(item) => format!("map[string]{}", item.go_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn visit(shape: &Shape, seen: &mut BTreeSet<*const GoType>) {
        match shape {
            Shape::Object(go_type) if seen.insert(*go_type) => {
                let names: Vec<_> = go_type.fields.iter().map(|f| f.name).collect();
                let own = names.strip_prefix(&["apiVersion", "kind", "metadata"]).unwrap_or(&names);
                assert!(own.is_sorted_by(|a, b| a < b), "{}: {names:?}", go_type.name);
                assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{}", go_type.name);
                go_type.fields.iter().for_each(|f| visit(&f.shape, seen));
            }
            Shape::List(item) | Shape::Map(item) => visit(item, seen),
            _ => {}
        }
    }

    /// Returns a value with every field set, except those that may hold anything.
    fn sample(shape: &Shape, depth: usize) -> Value {
        match shape {
            Shape::Text(_) => json!("text"),
            Shape::Bool => json!(true),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString => json!(7),
            Shape::Quantity => json!("1"),
            Shape::Time => json!("2024-01-01T00:00:00Z"),
            Shape::MicroTime => json!("2024-01-01T00:00:00.000001Z"),
            Shape::Any => Value::Null,
            Shape::Object(go_type) => {
                assert!(depth < 16, "{} holds itself", go_type.name);
                let fields = go_type
                    .fields
                    .iter()
                    .filter(|f| !matches!(f.shape, Shape::Any | Shape::List(Shape::Any)));
                fields.map(|f| (f.name.to_owned(), sample(&f.shape, depth + 1))).collect()
            }
            Shape::List(item) => json!([sample(item, depth)]),
            Shape::Map(item) => json!({"key": sample(item, depth)}),
        }
    }

    /// Checks that another set of bindings knows every field of the tables, under the same name and
    /// type.
    fn check<T: serde::Serialize + serde::de::DeserializeOwned>(api_version: &str, kind: &str) {
        let resource = crate::resource::by_kind(api_version, kind).unwrap();
        let mut full = sample(&Shape::Object(resource.go_type), 0);
        full["apiVersion"] = api_version.into();
        full["kind"] = kind.into();
        let typed: T = serde_json::from_value(full.clone()).unwrap_or_else(|e| panic!("{kind}: {e}"));
        let back = serde_json::to_value(typed).unwrap();
        assert_eq!(back, full, "{kind}");
    }

    #[test]
    fn every_field_is_one_that_the_api_has() {
        use k8s_openapi::api::{authentication, authorization, coordination, core, discovery};
        check::<core::v1::Namespace>("v1", "Namespace");
        check::<core::v1::Node>("v1", "Node");
        check::<core::v1::Pod>("v1", "Pod");
        check::<core::v1::Service>("v1", "Service");
        check::<core::v1::Endpoints>("v1", "Endpoints");
        check::<core::v1::Event>("v1", "Event");
        check::<discovery::v1::EndpointSlice>("discovery.k8s.io/v1", "EndpointSlice");
        check::<coordination::v1::Lease>("coordination.k8s.io/v1", "Lease");
        check::<authentication::v1::TokenReview>("authentication.k8s.io/v1", "TokenReview");
        check::<authentication::v1::SelfSubjectReview>("authentication.k8s.io/v1", "SelfSubjectReview");
        let group_version = "authorization.k8s.io/v1";
        check::<authorization::v1::SubjectAccessReview>(group_version, "SubjectAccessReview");
        check::<authorization::v1::LocalSubjectAccessReview>(group_version, "LocalSubjectAccessReview");
        check::<authorization::v1::SelfSubjectAccessReview>(group_version, "SelfSubjectAccessReview");
        check::<authorization::v1::SelfSubjectRulesReview>(group_version, "SelfSubjectRulesReview");
    }

    #[test]
    fn fields_are_sorted_and_distinct() {
        let mut seen = BTreeSet::new();
        for resource in crate::resource::all() {
            let go_type = resource.go_type;
            assert_eq!(go_type.name, resource.kind);
            visit(&Shape::Object(go_type), &mut seen);
        }
        assert!(seen.len() > 70, "{}", seen.len());
    }
}

//! Property tests: encoding and decoding an object returns the object; arbitrary bytes do not
//! panic.

use proptest::prelude::*;
use serde_json::Map;

use super::super::table::{Kind, Message, Shape};
use super::super::*;

/// A pseudo-random sequence, so that a case is one seed. Without a seed every roll is 1, which sets
/// every field.
struct Dice(Option<u64>);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        let Some(state) = &mut self.0 else { return 1 };
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % sides
    }
}

/// Returns a random object of a message, without zero values in fields that are not pointers.
fn object(of: &Message, dice: &mut Dice, depth: usize) -> Map<String, Value> {
    let mut object = Map::new();
    for field in &of.fields {
        // Go prints a zero quantity that is not a pointer.
        let always = field.kind == Kind::Quantity && field.shape == Shape::One;
        if !always && (dice.roll(2) == 0 || depth > 16) {
            continue;
        }
        let mut one = |zero| value(field.kind, dice, depth + 1, zero);
        let value = match field.shape {
            Shape::One => one(false),
            Shape::Optional => one(true),
            Shape::List => vec![one(true), one(true)].into(),
            Shape::Map => json!({"": one(true), "a/b": one(true)}),
            Shape::Inline => {
                if let Value::Object(inline) = one(false) {
                    object.extend(inline);
                }
                continue;
            }
        };
        // JSON omits an empty message that is not a pointer.
        if field.shape != Shape::One || value != json!({}) {
            object.insert(field.name.to_owned(), value);
        }
    }
    object
}

fn value(kind: Kind, dice: &mut Dice, depth: usize, zero: bool) -> Value {
    let zero = zero && dice.roll(4) == 0;
    match kind {
        Kind::Text if zero => "".into(),
        Kind::Integer | Kind::IntOrString if zero => 0.into(),
        Kind::Boolean => (!zero).into(),
        Kind::Text => ["web", "é\"\n", "0"][dice.roll(3) as usize].into(),
        Kind::Integer => [1, -1, 8080, i64::from(i32::MIN), i64::MAX][dice.roll(5) as usize].into(),
        Kind::Time => "2026-01-01T00:00:01Z".into(),
        Kind::MicroTime => "2026-01-01T00:00:00.000120Z".into(),
        Kind::Quantity => "500m".into(),
        Kind::IntOrString => [json!("http"), json!(""), json!(-5)][dice.roll(3) as usize].clone(),
        Kind::Fields => json!({"f:spec": {".": {}}}),
        Kind::Texts => json!(["a", ""]),
        Kind::Message(index) => object(table::message(index), dice, depth).into(),
    }
}

fn encoded<'de, D: Deserializer<'de, Error = serde_json::Error>>(of: &Message, json: D) -> Vec<u8> {
    let mut out = Vec::new();
    encode::object(of, json, &mut out).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn encoding_and_decoding_returns_the_object(seed: u64) {
        for of in table::all() {
            let object = Value::Object(object(of, &mut Dice(Some(seed)), 0));
            let protobuf = encoded(of, &object);
            let text = object.to_string();
            prop_assert_eq!(&encoded(of, &mut serde_json::Deserializer::from_str(&text)), &protobuf);
            prop_assert_eq!(Value::Object(decode::object(of, &protobuf).unwrap()), object, "{}", of.name);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(seed: u64, mut bytes: Vec<u8>, at: usize) {
        for of in table::all() {
            let _ = decode::object(of, &bytes);
        }
        let pod = table::of_kind("v1", "Pod").unwrap();
        let whole = encoded(pod, Value::Object(object(pod, &mut Dice(Some(seed)), 0)));
        let at = at % (whole.len() + 1);
        bytes.truncate(3);
        let damaged = [&whole[..at], &bytes, whole.get(at + bytes.len()..).unwrap_or_default()].concat();
        let _ = decode::object(pod, &damaged);
    }

    #[test]
    fn unknown_fields_are_skipped(seed: u64, at: bool) {
        for of in table::all() {
            let protobuf = encoded(of, Value::Object(object(of, &mut Dice(Some(seed)), 0)));
            let mut unknown = Vec::new();
            wire::number(&mut unknown, 900, u64::MAX);
            wire::bytes(&mut unknown, 901, b"later");
            wire::varint(&mut unknown, 902 << 3 | 1);
            unknown.extend_from_slice(&[7; 8]);
            wire::varint(&mut unknown, 903 << 3 | 5);
            unknown.extend_from_slice(&[7; 4]);
            let both = if at { [&unknown[..], &protobuf] } else { [&protobuf[..], &unknown] }.concat();
            prop_assert_eq!(decode::object(of, &both), decode::object(of, &protobuf));
        }
    }
}

/// Checks that `T`, from bindings generated from the OpenAPI document, has every field of a kind's
/// message.
fn check_names<T: serde::Serialize + serde::de::DeserializeOwned>(api_version: &str, kind: &str) {
    let of = table::of_kind(api_version, kind).unwrap();
    let mut full = object(of, &mut Dice(None), 0);
    full.insert("apiVersion".to_owned(), api_version.into());
    full.insert("kind".to_owned(), kind.into());
    let full = Value::Object(full);
    let typed: T = serde_json::from_value(full.clone()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    assert_eq!(serde_json::to_value(typed).unwrap(), full, "{kind}");
}

#[test]
fn every_field_has_the_name_and_type_of_the_api() {
    use k8s_openapi::api::{authentication, authorization, coordination, core, discovery};
    check_names::<core::v1::Namespace>("v1", "Namespace");
    check_names::<core::v1::Node>("v1", "Node");
    check_names::<core::v1::Pod>("v1", "Pod");
    check_names::<core::v1::Service>("v1", "Service");
    check_names::<core::v1::Endpoints>("v1", "Endpoints");
    check_names::<core::v1::Event>("v1", "Event");
    check_names::<discovery::v1::EndpointSlice>("discovery.k8s.io/v1", "EndpointSlice");
    check_names::<coordination::v1::Lease>("coordination.k8s.io/v1", "Lease");
    check_names::<authentication::v1::TokenReview>("authentication.k8s.io/v1", "TokenReview");
    check_names::<authentication::v1::SelfSubjectReview>("authentication.k8s.io/v1", "SelfSubjectReview");
    let group = "authorization.k8s.io/v1";
    check_names::<authorization::v1::SubjectAccessReview>(group, "SubjectAccessReview");
    check_names::<authorization::v1::LocalSubjectAccessReview>(group, "LocalSubjectAccessReview");
    check_names::<authorization::v1::SelfSubjectAccessReview>(group, "SelfSubjectAccessReview");
    check_names::<authorization::v1::SelfSubjectRulesReview>(group, "SelfSubjectRulesReview");
}

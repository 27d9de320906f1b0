//! Request bodies in protobuf. Since 1.33 kubectl sends some of its own making in it (`create namespace`, `create
//! service`, the deletions of `drain`), whatever the server says it reads; files that a user gives are always JSON.
//! So just these kinds are read. The field numbers are those of `generated.proto` in `k8s.io/api` and apimachinery.

mod wire;

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Map, Value, json};

use wire::{Malformed, Reader, Wire};

/// The media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What a body in protobuf starts with.
const MAGIC: &[u8] = b"k8s\0";

/// One field of a message: number, name in JSON, whether it is a list, and type.
struct Field(u64, &'static str, bool, Type);

/// How a field is read.
enum Type {
    /// Left out when empty.
    Text,
    /// Left out when zero unless `true`, which is for optional fields, where zero is not nothing.
    Int(bool),
    /// Left out when false unless `true`.
    Bool(bool),
    /// Seconds and nanoseconds; left out when empty.
    Time,
    /// A number or a text; left out when the number 0.
    IntOrString,
    /// A map from strings to strings; each entry is a field of its own.
    TextMap,
    Message(&'static [Field]),
}

use Type::{Bool, Int, IntOrString, Message, Text, TextMap, Time};

/// The object in `body`, as JSON has it, with `apiVersion` and `kind`. A body that is cut off or garbled is a 400, a
/// kind that is not read in protobuf a 415.
pub fn protobuf(body: &[u8]) -> Result<Value, Status> {
    let malformed =
        |Malformed| Status::bad_request("couldn't get version/kind; the protobuf is cut off or garbled");
    let (api_version, kind, raw) = envelope(body).map_err(malformed)?;
    let message = match (api_version.as_str(), kind.as_str()) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "Service") => SERVICE,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => {
            return Err(Status::new(
                415,
                "UnsupportedMediaType",
                format!(
                    "the body of the request was in an unknown format ({MEDIA_TYPE} of a {kind}) - accepted media \
                     types include: application/json"
                ),
            ));
        }
    };
    let mut decoded = object(raw, message).map_err(malformed)?;
    decoded["apiVersion"] = json!(api_version);
    decoded["kind"] = json!(kind);
    Ok(decoded)
}

/// The `apiVersion`, the `kind` and the bytes of the object, out of the `runtime.Unknown` that is around each object.
fn envelope(body: &[u8]) -> Result<(String, String, &[u8]), Malformed> {
    let body = body.strip_prefix(MAGIC).ok_or(Malformed)?;
    let (mut type_meta, mut raw) = (Value::Null, [].as_slice());
    for field in Reader(body) {
        match field? {
            (1, wire) => type_meta = object(wire.bytes()?, TYPE_META)?,
            (2, wire) => raw = wire.bytes()?,
            _ => {}
        }
    }
    let text = |name: &str| type_meta.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((text("apiVersion"), text("kind"), raw))
}

/// A message as a JSON object. Fields that are not in the table are left out.
fn object(bytes: &[u8], message: &[Field]) -> Result<Value, Malformed> {
    let mut object = Map::new();
    for field in Reader(bytes) {
        let (number, wire) = field?;
        let Some(Field(_, name, repeated, field_type)) = message.iter().find(|field| field.0 == number)
        else {
            continue;
        };
        if let TextMap = field_type {
            let entry = self::object(wire.bytes()?, ENTRY)?;
            let key = entry.get("key").and_then(Value::as_str).unwrap_or_default();
            let map = object.entry(*name).or_insert_with(|| json!({}));
            map[key] = entry.get("value").cloned().unwrap_or_else(|| json!(""));
            continue;
        }
        let Some(value) = value(wire, field_type)? else { continue };
        if !repeated {
            object.insert((*name).to_owned(), value);
        } else if let Value::Array(list) = object.entry(*name).or_insert_with(|| json!([])) {
            list.push(value);
        }
    }
    Ok(Value::Object(object))
}

/// The value of a field, or none where JSON leaves it out.
fn value(wire: Wire<'_>, field_type: &Type) -> Result<Option<Value>, Malformed> {
    Ok(match field_type {
        Text => Some(wire.text()?).filter(|text| !text.is_empty()).map(|text| json!(text)),
        Int(keep_zero) => Some(wire.number()?).filter(|number| *keep_zero || *number != 0).map(|n| json!(n)),
        Bool(keep_false) => Some(wire.number()? != 0).filter(|flag| *keep_false || *flag).map(|f| json!(f)),
        Message(message) => Some(object(wire.bytes()?, message)?),
        Time => {
            let time = object(wire.bytes()?, TIME)?;
            let seconds = time.get("seconds").and_then(Value::as_i64);
            seconds
                .and_then(|seconds| Timestamp::from_second(seconds).ok())
                .map(|time| json!(time.to_string()))
        }
        IntOrString => {
            let either = object(wire.bytes()?, INT_OR_STRING)?;
            either.get("strVal").or(either.get("intVal")).cloned()
        }
        TextMap => None,
    })
}

const TYPE_META: &[Field] = &[Field(1, "apiVersion", false, Text), Field(2, "kind", false, Text)];
const ENTRY: &[Field] = &[Field(1, "key", false, Text), Field(2, "value", false, Text)];
const TIME: &[Field] = &[Field(1, "seconds", false, Int(false))];
const INT_OR_STRING: &[Field] = &[Field(2, "intVal", false, Int(false)), Field(3, "strVal", false, Text)];

const OWNER_REFERENCE: &[Field] = &[
    Field(5, "apiVersion", false, Text),
    Field(1, "kind", false, Text),
    Field(3, "name", false, Text),
    Field(4, "uid", false, Text),
    Field(6, "controller", false, Bool(true)),
    Field(7, "blockOwnerDeletion", false, Bool(true)),
];

const METADATA: &[Field] = &[
    Field(1, "name", false, Text),
    Field(2, "generateName", false, Text),
    Field(3, "namespace", false, Text),
    Field(5, "uid", false, Text),
    Field(6, "resourceVersion", false, Text),
    Field(7, "generation", false, Int(false)),
    Field(8, "creationTimestamp", false, Time),
    Field(9, "deletionTimestamp", false, Time),
    Field(10, "deletionGracePeriodSeconds", false, Int(true)),
    Field(11, "labels", false, TextMap),
    Field(12, "annotations", false, TextMap),
    Field(13, "ownerReferences", true, Message(OWNER_REFERENCE)),
    Field(14, "finalizers", true, Text),
];

const NAMESPACE: &[Field] = &[
    Field(1, "metadata", false, Message(METADATA)),
    Field(2, "spec", false, Message(&[Field(1, "finalizers", true, Text)])),
    Field(3, "status", false, Message(&[Field(1, "phase", false, Text)])),
];

const SERVICE_PORT: &[Field] = &[
    Field(1, "name", false, Text),
    Field(2, "protocol", false, Text),
    Field(3, "port", false, Int(false)),
    Field(4, "targetPort", false, IntOrString),
    Field(5, "nodePort", false, Int(false)),
    Field(6, "appProtocol", false, Text),
];

const CLIENT_IP: &[Field] = &[Field(1, "timeoutSeconds", false, Int(true))];

const SERVICE_SPEC: &[Field] = &[
    Field(1, "ports", true, Message(SERVICE_PORT)),
    Field(2, "selector", false, TextMap),
    Field(3, "clusterIP", false, Text),
    Field(4, "type", false, Text),
    Field(5, "externalIPs", true, Text),
    Field(7, "sessionAffinity", false, Text),
    Field(8, "loadBalancerIP", false, Text),
    Field(9, "loadBalancerSourceRanges", true, Text),
    Field(10, "externalName", false, Text),
    Field(11, "externalTrafficPolicy", false, Text),
    Field(12, "healthCheckNodePort", false, Int(false)),
    Field(13, "publishNotReadyAddresses", false, Bool(false)),
    Field(14, "sessionAffinityConfig", false, Message(&[Field(1, "clientIP", false, Message(CLIENT_IP))])),
    Field(17, "ipFamilyPolicy", false, Text),
    Field(18, "clusterIPs", true, Text),
    Field(19, "ipFamilies", true, Text),
    Field(20, "allocateLoadBalancerNodePorts", false, Bool(true)),
    Field(21, "loadBalancerClass", false, Text),
    Field(22, "internalTrafficPolicy", false, Text),
    Field(23, "trafficDistribution", false, Text),
];

const SERVICE: &[Field] =
    &[Field(1, "metadata", false, Message(METADATA)), Field(2, "spec", false, Message(SERVICE_SPEC))];

const PRECONDITIONS: &[Field] = &[Field(1, "uid", false, Text), Field(2, "resourceVersion", false, Text)];

const DELETE_OPTIONS: &[Field] = &[
    Field(1, "gracePeriodSeconds", false, Int(true)),
    Field(2, "preconditions", false, Message(PRECONDITIONS)),
    Field(3, "orphanDependents", false, Bool(true)),
    Field(4, "propagationPolicy", false, Text),
    Field(5, "dryRun", true, Text),
];

#[cfg(test)]
mod tests;

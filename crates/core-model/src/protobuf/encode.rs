//! Encodes the objects that controllers write as Go's generated code does: fields in the order of
//! their numbers, and fields that are not pointers in Go even if they are empty.
//!
//! As in Go, the encoder writes messages from the end to the front: it then knows the length of a
//! message when it writes it.

use super::envelope::MAGIC;
use crate::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use crate::{
    Endpoint, EndpointPort, EndpointSlice, Endpoints, ObjectMeta, ObjectReference, OwnerReference, StringMap,
    Timestamp,
};

/// An object that a client can send to the API server.
pub trait ObjectToWrite {
    /// Encodes it with its envelope. The metadata comes first, the other fields follow up to the
    /// end of the object.
    fn to_protobuf(&self) -> Encoded;
}

/// An encoded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub body: Vec<u8>,
    /// The range of the body with the fields that follow the metadata.
    pub content: std::ops::Range<usize>,
}

/// A new v1 Event, as a controller creates it.
#[derive(Clone, Debug, Default)]
pub struct EventToWrite<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    /// The object that the event is about.
    pub involved_object: ObjectReference,
    pub reason: &'a str,
    pub message: &'a str,
    /// The component that reports it.
    pub component: &'a str,
    /// When the event first happened.
    pub first: Timestamp,
    /// When the event last happened.
    pub last: Timestamp,
    pub count: i32,
    /// `Normal` or `Warning`.
    pub event_type: &'a str,
}

/// A buffer that fills from its end to its front.
struct Backward {
    bytes: Vec<u8>,
    /// The index of the first filled byte.
    start: usize,
}

impl Backward {
    fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], start: capacity }
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Prepends bytes.
    fn push(&mut self, bytes: &[u8]) {
        if bytes.len() > self.start {
            self.grow(bytes.len());
        }
        self.start -= bytes.len();
        self.bytes[self.start..self.start + bytes.len()].copy_from_slice(bytes);
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        let filled = self.len();
        let mut bytes = vec![0; 2 * (self.bytes.len() + needed)];
        let start = bytes.len() - filled;
        bytes[start..].copy_from_slice(&self.bytes[self.start..]);
        (self.bytes, self.start) = (bytes, start);
    }

    fn varint(&mut self, mut number: u64) {
        if number < 0x80 {
            return self.push(&[number as u8]);
        }
        let mut encoded = [0; 10];
        let mut length = 0;
        while number >= 0x80 {
            encoded[length] = number as u8 | 0x80;
            number >>= 7;
            length += 1;
        }
        encoded[length] = number as u8;
        self.push(&encoded[..=length]);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(number);
        self.varint(field << 3);
    }

    fn boolean(&mut self, field: u64, value: Option<bool>) {
        if let Some(value) = value {
            self.number(field, u64::from(value));
        }
    }

    /// Prepends an int32. A negative one gets 64 bits.
    fn int32(&mut self, field: u64, number: i32) {
        self.number(field, i64::from(number) as u64);
    }

    fn text(&mut self, field: u64, text: &str) {
        let (tag, length) = (field << 3 | 2, text.len());
        // Nearly all texts are short: their tag and length take one byte each.
        if tag < 0x80 && length < 0x80 {
            if length + 2 > self.start {
                self.grow(length + 2);
            }
            let end = self.start;
            self.start -= length + 2;
            if let Some([tag_byte, length_byte, rest @ ..]) = self.bytes.get_mut(self.start..end) {
                (*tag_byte, *length_byte) = (tag as u8, length as u8);
                rest.copy_from_slice(text.as_bytes());
            }
            return;
        }
        self.push(text.as_bytes());
        self.varint(length as u64);
        self.varint(tag);
    }

    fn optional(&mut self, field: u64, text: &Option<crate::Text>) {
        if let Some(text) = text {
            self.text(field, text);
        }
    }

    /// Prepends a message, whose fields `write` prepends in descending order.
    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let end = self.len();
        write(self);
        self.varint((self.len() - end) as u64);
        self.varint(field << 3 | 2);
    }

    /// Prepends a list of messages.
    fn list<T>(&mut self, field: u64, items: &[T], write: impl Fn(&mut Self, &T)) {
        for item in items.iter().rev() {
            self.message(field, |out| write(out, item));
        }
    }

    fn map(&mut self, field: u64, map: &StringMap) {
        for (key, value) in map.0.iter().rev() {
            self.message(field, |out| {
                out.text(2, value);
                out.text(1, key);
            });
        }
    }

    /// Prepends a `Time`. Go's zero time is an empty message.
    fn time(&mut self, field: u64, time: Option<Timestamp>) {
        self.message(field, |out| {
            if let Some(time) = time {
                out.number(2, 0);
                out.number(1, time.as_second() as u64);
            }
        });
    }

    fn object_meta(&mut self, field: u64, meta: &ObjectMeta) {
        let version =
            if meta.resource_version.is_none() { String::new() } else { meta.resource_version.to_string() };
        self.message(field, |out| {
            for finalizer in meta.finalizers.iter().rev() {
                out.text(14, finalizer);
            }
            out.list(13, &meta.owner_references, Self::owner_reference);
            out.map(12, &meta.annotations);
            out.map(11, &meta.labels);
            if meta.deletion_timestamp.is_some() {
                out.time(9, meta.deletion_timestamp);
            }
            out.time(8, meta.creation_timestamp);
            out.number(7, meta.generation as u64);
            out.text(6, &version);
            out.text(5, &meta.uid);
            out.text(4, "");
            out.text(3, &meta.namespace);
            out.text(2, &meta.generate_name);
            out.text(1, &meta.name);
        });
    }

    fn owner_reference(&mut self, owner: &OwnerReference) {
        self.boolean(7, owner.block_owner_deletion);
        self.boolean(6, owner.controller);
        self.text(5, &owner.api_version);
        self.text(4, &owner.uid);
        self.text(3, &owner.name);
        self.text(1, &owner.kind);
    }

    fn object_reference(&mut self, field: u64, reference: &ObjectReference) {
        self.message(field, |out| {
            out.text(7, &reference.field_path);
            out.text(6, &reference.resource_version);
            out.text(5, &reference.api_version);
            out.text(4, &reference.uid);
            out.text(3, &reference.name);
            out.text(2, &reference.namespace);
            out.text(1, &reference.kind);
        });
    }

    /// Returns an envelope around an object: `content` adds its fields from the last one to the
    /// second, `metadata` its first.
    fn enveloped(
        mut self,
        (api_version, kind): (&str, &str),
        content: impl FnOnce(&mut Self),
        metadata: impl FnOnce(&mut Self),
    ) -> Encoded {
        self.text(4, "");
        self.text(3, "");
        let after_content = self.len();
        let mut before_content = 0;
        self.message(2, |out| {
            content(out);
            before_content = out.len();
            metadata(out);
        });
        self.message(1, |out| {
            out.text(2, kind);
            out.text(1, api_version);
        });
        self.push(MAGIC);
        let length = self.len();
        Encoded { body: self.into_bytes(), content: length - before_content..length - after_content }
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.drain(..self.start);
        self.bytes
    }
}

impl ObjectToWrite for EndpointSlice {
    fn to_protobuf(&self) -> Encoded {
        Backward::new(1024 + 256 * self.endpoints.len()).enveloped(
            ("discovery.k8s.io/v1", "EndpointSlice"),
            |out| {
                out.text(4, self.address_type.as_str());
                out.list(3, &self.ports, |out, port: &EndpointPort| {
                    out.optional(4, &port.app_protocol);
                    if let Some(number) = port.port {
                        out.int32(3, number);
                    }
                    out.optional(2, &port.protocol);
                    out.optional(1, &port.name);
                });
                out.list(2, &self.endpoints, endpoint);
            },
            |out| out.object_meta(1, &self.metadata),
        )
    }
}

fn endpoint(out: &mut Backward, endpoint: &Endpoint) {
    if let Some(hints) = &endpoint.hints {
        out.message(8, |out| {
            out.list(2, &hints.for_nodes, |out, hint| out.text(1, &hint.name));
            out.list(1, &hints.for_zones, |out, hint| out.text(1, &hint.name));
        });
    }
    out.optional(7, &endpoint.zone);
    out.optional(6, &endpoint.node_name);
    out.map(5, &endpoint.deprecated_topology);
    if let Some(reference) = &endpoint.target_ref {
        out.object_reference(4, reference);
    }
    out.optional(3, &endpoint.hostname);
    out.message(2, |out| {
        out.boolean(3, endpoint.conditions.terminating);
        out.boolean(2, endpoint.conditions.serving);
        out.boolean(1, endpoint.conditions.ready);
    });
    for address in endpoint.addresses.iter().rev() {
        out.text(1, address);
    }
}

impl ObjectToWrite for Endpoints {
    fn to_protobuf(&self) -> Encoded {
        // No plan writes an object that has only a summary of its addresses.
        debug_assert!(self.subsets.listed().is_some(), "{} has no content", self.key());
        let subsets = self.subsets.listed().unwrap_or_default();
        let (ready, not_ready) = self.subsets.counts();
        Backward::new(1024 + 160 * (ready + not_ready)).enveloped(
            ("v1", "Endpoints"),
            |out| subsets.iter().rev().for_each(|one| out.message(2, |out| subset(out, one))),
            |out| out.object_meta(1, &self.metadata),
        )
    }
}

fn subset(out: &mut Backward, subset: &EndpointSubset) {
    out.list(3, &subset.ports, |out, port: &EndpointsPort| {
        out.optional(4, &port.app_protocol);
        out.text(3, &port.protocol);
        out.int32(2, port.port);
        out.text(1, &port.name);
    });
    out.list(2, &subset.not_ready_addresses, address);
    out.list(1, &subset.addresses, address);
}

fn address(out: &mut Backward, address: &EndpointAddress) {
    out.optional(4, &address.node_name);
    out.text(3, &address.hostname);
    if let Some(reference) = &address.target_ref {
        out.object_reference(2, reference);
    }
    out.text(1, &address.ip);
}

impl EventToWrite<'_> {
    /// Encodes it with its envelope.
    pub fn to_protobuf(&self) -> Vec<u8> {
        let metadata =
            ObjectMeta { name: self.name.into(), namespace: self.namespace.into(), ..ObjectMeta::default() };
        let content = |out: &mut Backward| {
            out.text(15, "");
            out.text(14, self.component);
            out.text(12, "");
            out.message(10, |_| {});
            out.text(9, self.event_type);
            out.int32(8, self.count);
            out.time(7, Some(self.last));
            out.time(6, Some(self.first));
            out.message(5, |out| {
                out.text(2, "");
                out.text(1, self.component);
            });
            out.text(4, self.message);
            out.text(3, self.reason);
            out.object_reference(2, &self.involved_object);
        };
        Backward::new(1024).enveloped(("v1", "Event"), content, |out| out.object_meta(1, &metadata)).body
    }
}

//! Reads and writes the messages around objects: the envelope of an answer, list metadata, watch
//! events and errors.

use super::meta::version;
use super::wire::{Fields, Payload};
use super::{DecodeError, meta};
use crate::{Interner, ObjectMeta, ResourceVersion};

/// The media type of protobuf bodies. Watches add `;stream=watch`.
pub const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The first bytes of every answer.
pub const MAGIC: &[u8] = b"k8s\0";

/// An object with its type: `runtime.Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// `v1` or `group/v1`.
    pub api_version: &'a str,
    pub kind: &'a str,
    pub object: &'a [u8],
}

/// The reason why bytes are no envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEnvelope {
    /// The first bytes differ from [`MAGIC`].
    #[error("it does not begin as Kubernetes' protobuf does")]
    NoMagic,
    /// The content is encoded again, for example compressed.
    #[error("its contentEncoding {0:?} is not supported")]
    ContentEncoding(String),
    /// The envelope is not a message.
    #[error(transparent)]
    Message(#[from] DecodeError),
}

impl<'a> Envelope<'a> {
    /// Reads an answer, or the object of a watch event.
    ///
    /// # Errors
    ///
    /// If it has no envelope.
    pub fn read(bytes: &'a [u8]) -> Result<Self, InvalidEnvelope> {
        let (mut api_version, mut kind) = ("", "");
        let object = object(bytes, |payload| {
            (api_version, kind) = Self::type_meta(payload.bytes("typeMeta")?)?;
            Ok(())
        })?;
        Ok(Self { api_version, kind, object })
    }

    /// Reads a `TypeMeta`: `apiVersion` and `kind`.
    ///
    /// # Errors
    ///
    /// If it is not a message.
    pub fn type_meta(bytes: &'a [u8]) -> Result<(&'a str, &'a str), DecodeError> {
        let (mut api_version, mut kind) = ("", "");
        let mut fields = Fields::new(bytes, "typeMeta");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => api_version = payload.text("apiVersion")?,
                2 => kind = payload.text("kind")?,
                _ => {}
            }
        }
        Ok((api_version, kind))
    }
}

/// Reads the object in an envelope. Its type goes to `type_meta`.
fn object<'a>(
    bytes: &'a [u8],
    mut type_meta: impl FnMut(Payload<'a>) -> Result<(), DecodeError>,
) -> Result<&'a [u8], InvalidEnvelope> {
    let mut object: &[u8] = &[];
    let bytes = bytes.strip_prefix(MAGIC).ok_or(InvalidEnvelope::NoMagic)?;
    let mut fields = Fields::new(bytes, "the envelope");
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => type_meta(payload)?,
            2 => object = payload.bytes("raw")?,
            3 => {
                let encoding = payload.text("contentEncoding")?;
                if !encoding.is_empty() {
                    return Err(InvalidEnvelope::ContentEncoding(encoding.to_owned()));
                }
            }
            _ => {}
        }
    }
    Ok(object)
}

/// An event of a watch, whose object is in an envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event_type: &'a str,
    /// The object. Its type, which the envelope has, is that of the watch, or `Status` for an
    /// `ERROR`.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Reads a frame of a watch, without the four bytes of its length.
    ///
    /// # Errors
    ///
    /// If it is not an event.
    pub fn read(frame: &'a [u8]) -> Result<Self, InvalidEnvelope> {
        let (mut event_type, mut object): (_, &[u8]) = ("", &[]);
        let mut fields = Fields::new(frame, "the watch event");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => event_type = payload.text("type")?,
                2 => {
                    let mut extension = Fields::of(payload, "object")?;
                    while let Some((number, payload)) = extension.next()? {
                        if number == 1 {
                            object = payload.bytes("object.raw")?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(Self { event_type, object: self::object(object, |_| Ok(()))? })
    }
}

/// Reads the version of a bookmark's object. The second value is true if it ends the initial events
/// of the watch.
///
/// # Errors
///
/// A [`DecodeError`] if the object is malformed.
pub fn bookmark(object: &[u8]) -> Result<(ResourceVersion, bool), DecodeError> {
    let (mut resource_version, mut ends_initial_events) = (ResourceVersion::default(), false);
    each_field_of_metadata(Fields::new(object, "the bookmark"), |number, payload| {
        match number {
            6 => resource_version = version(payload)?,
            12 => {
                let (key, value) = meta::map_entry(payload, "metadata.annotations")?;
                if key == "k8s.io/initial-events-end" {
                    ends_initial_events = value == Some(Payload::Bytes(b"true"));
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((resource_version, ends_initial_events))
}

/// Reads the metadata of an object of any kind.
///
/// # Errors
///
/// A [`DecodeError`] if the object is malformed.
pub fn object_meta(object: &[u8], interner: &mut Interner) -> Result<ObjectMeta, DecodeError> {
    let mut metadata = ObjectMeta::default();
    let mut object = Fields::new(object, "the object");
    while let Some((number, payload)) = object.next()? {
        if number == 1 {
            meta::object_meta(payload, &mut metadata, interner)?;
        }
    }
    Ok(metadata)
}

/// Reads the resource version of an object of any kind. Returns the default if it has no version.
///
/// # Errors
///
/// A [`DecodeError`] if the object or its metadata is malformed, or the version is not a number.
pub fn resource_version(object: &[u8]) -> Result<ResourceVersion, DecodeError> {
    let mut found = ResourceVersion::default();
    each_field_of_metadata(Fields::new(object, "the object"), |number, payload| {
        if number == 6 {
            found = version(payload)?;
        }
        Ok(())
    })?;
    Ok(found)
}

fn each_field_of_metadata<'a>(
    mut object: Fields<'a>,
    mut read: impl FnMut(u64, Payload<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while let Some((number, payload)) = object.next()? {
        if number != 1 {
            continue;
        }
        let mut metadata = Fields::of(payload, "metadata")?;
        while let Some((number, payload)) = metadata.next()? {
            read(number, payload)?;
        }
    }
    Ok(())
}

/// Returns the fields of an object that follow its metadata, encoded, or `None` if the metadata is
/// not its first field.
pub fn fields_after_metadata(object: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::new(object, "the object");
    matches!(fields.next(), Ok(Some((1, Payload::Bytes(_))))).then(|| fields.rest())
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListMeta {
    pub resource_version: ResourceVersion,
    /// The token of the next page; empty on the last page.
    pub continue_token: String,
}

impl ListMeta {
    /// Reads the metadata of a list.
    ///
    /// # Errors
    ///
    /// If it is not a message, or the version is not a number.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut list = Self::default();
        let mut fields = Fields::new(bytes, "metadata");
        while let Some((number, payload)) = fields.next()? {
            match number {
                2 => list.resource_version = version(payload)?,
                3 => list.continue_token = payload.text("metadata.continue")?.to_owned(),
                _ => {}
            }
        }
        Ok(list)
    }
}

/// An error of the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    pub message: String,
    pub reason: String,
    /// HTTP status.
    pub code: u16,
    /// The reasons of the causes in its details.
    pub causes: Vec<String>,
    /// The delay in its details, in seconds; zero if there is none.
    pub retry_after_seconds: u32,
}

impl Status {
    /// Reads a `Status` without its envelope.
    ///
    /// # Errors
    ///
    /// If it is not a message.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut status = Self::default();
        let mut fields = Fields::new(bytes, "the Status");
        while let Some((number, payload)) = fields.next()? {
            match number {
                3 => status.message = payload.text("message")?.to_owned(),
                4 => status.reason = payload.text("reason")?.to_owned(),
                5 => status.read_details(payload)?,
                6 => status.code = payload.number("code")?.try_into().unwrap_or_default(),
                _ => {}
            }
        }
        Ok(status)
    }

    /// Decodes the `Status` in the envelope of an answer. Returns `None` if the answer is no
    /// `Status`.
    pub fn of_answer(body: &[u8]) -> Option<Self> {
        let envelope = Envelope::read(body).ok()?;
        (envelope.kind == "Status").then_some(envelope.object).and_then(|object| Self::read(object).ok())
    }

    fn read_details(&mut self, payload: Payload<'_>) -> Result<(), DecodeError> {
        let mut fields = Fields::of(payload, "details")?;
        while let Some((number, payload)) = fields.next()? {
            match number {
                4 => {
                    let mut reason = "";
                    let mut cause = Fields::of(payload, "details.causes")?;
                    while let Some((number, payload)) = cause.next()? {
                        if number == 1 {
                            reason = payload.text("details.causes.reason")?;
                        }
                    }
                    self.causes.push(reason.to_owned());
                }
                5 => {
                    let seconds = payload.int32("details.retryAfterSeconds")?;
                    self.retry_after_seconds = seconds.try_into().unwrap_or_default();
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads the next byte of a varint that arrives in pieces: adds it to `number`, which has `bits`
/// bits so far. Returns `Some(true)` if the varint is complete, and `None` if it has more than 64
/// bits.
pub fn continued_varint(byte: u8, number: &mut u64, bits: &mut u32) -> Option<bool> {
    if *bits > 63 {
        return None;
    }
    *number |= u64::from(byte & 0x7f) << *bits;
    *bits += 7;
    Some(byte < 0x80)
}

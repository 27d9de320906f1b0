//! Leases.

use super::meta::{CommonMeta, owned};
use super::wire::{Fields, Payload};
use super::{DecodeError, FromProtobuf};
use crate::lease::{Lease, Record};
use crate::{Interner, ObjectKey, Timestamp};

impl FromProtobuf for Lease {
    fn from_protobuf(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let mut meta = CommonMeta::default();
        let (mut holder, mut record) = ("", Record::default());
        let mut fields = Fields::new(bytes, "the Lease");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => meta.read(payload, |_, _| Ok(()))?,
                2 => {
                    let mut fields = Fields::of(payload, "spec")?;
                    while let Some((number, payload)) = fields.next()? {
                        match number {
                            1 => holder = payload.text("spec.holderIdentity")?,
                            2 => record.duration_seconds = Some(payload.int32("spec.leaseDurationSeconds")?),
                            3 => record.acquired = micro_time(payload, "spec.acquireTime")?,
                            4 => record.renewed = micro_time(payload, "spec.renewTime")?,
                            5 => record.transitions = Some(payload.int32("spec.leaseTransitions")?),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(Self {
            key: ObjectKey { namespace: interner.shared(meta.namespace), name: owned(meta.name) },
            resource_version: meta.resource_version,
            record: Record { holder: owned(holder), ..record },
        })
    }
}

/// Reads a `MicroTime`. A time that no clock shows is absent, as in JSON: it only tells that the
/// record has changed.
fn micro_time(payload: Payload<'_>, field: &'static str) -> Result<Option<Timestamp>, DecodeError> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut fields = Fields::of(payload, field)?;
    if fields.rest().is_empty() {
        return Ok(None);
    }
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => seconds = payload.number(field)? as i64,
            2 => nanoseconds = payload.int32(field)?,
            _ => {}
        }
    }
    Ok(Timestamp::new(seconds, nanoseconds).ok())
}

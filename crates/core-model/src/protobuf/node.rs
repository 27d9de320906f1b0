//! Nodes.

use super::meta::{CommonMeta, map_entry, non_empty};
use super::wire::{Fields, Payload};
use super::{DecodeError, FromProtobuf};
use crate::well_known::{LABEL_ZONE, LABELS_CONTROL_PLANE};
use crate::{Interner, Node, quantity};

impl FromProtobuf for Node {
    fn from_protobuf(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let (mut meta, mut status) = (CommonMeta::default(), Status::default());
        let mut fields = Fields::new(bytes, "the node");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => meta.read(payload, |_, _| Ok(()))?,
                3 => status.read(payload)?,
                _ => {}
            }
        }
        Ok(Self {
            name: interner.shared(meta.name),
            resource_version: meta.resource_version,
            zone: meta.labels.get(LABEL_ZONE).and_then(non_empty).map(|zone| interner.shared(zone)),
            control_plane: LABELS_CONTROL_PLANE.iter().any(|label| meta.labels.get(label).is_some()),
            ready: status.ready.unwrap_or_default(),
            allocatable_cpu_nano: quantity::parse_nano(status.cpu).unwrap_or_default(),
        })
    }
}

#[derive(Default)]
struct Status<'a> {
    cpu: &'a str,
    /// True if the Ready condition is true.
    ready: Option<bool>,
}

impl<'a> Status<'a> {
    fn read(&mut self, payload: Payload<'a>) -> Result<(), DecodeError> {
        let mut fields = Fields::of(payload, "status")?;
        while let Some((number, payload)) = fields.next()? {
            match number {
                2 => {
                    if let ("cpu", Some(quantity)) = map_entry(payload, "status.allocatable")? {
                        let mut fields = Fields::of(quantity, "status.allocatable.cpu")?;
                        while let Some((number, payload)) = fields.next()? {
                            if number == 1 {
                                self.cpu = payload.text("status.allocatable.cpu")?;
                            }
                        }
                    }
                }
                4 if self.ready.is_none() => {
                    self.ready = ready(payload)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads a condition. Returns `None` if it is another one than Ready.
fn ready(payload: Payload<'_>) -> Result<Option<bool>, DecodeError> {
    const FIELD: &str = "status.conditions";
    let (mut is_ready_condition, mut is_true) = (false, false);
    let mut fields = Fields::of(payload, FIELD)?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => {
                is_ready_condition = payload.bytes(FIELD)? == b"Ready";
                // Go writes the type first.
                if !is_ready_condition {
                    return Ok(None);
                }
            }
            2 => is_true = payload.bytes(FIELD)? == b"True",
            _ => {}
        }
    }
    Ok(is_ready_condition.then_some(is_true))
}

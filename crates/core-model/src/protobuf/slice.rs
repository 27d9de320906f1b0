//! EndpointSlices.

use super::meta::{Pairs, object_meta, object_reference, owned, push_to_short};
use super::wire::{Fields, Payload};
use super::{DecodeError, FromProtobuf};
use crate::slice::{EndpointConditions, EndpointHints, Hint};
use crate::{AddressType, Endpoint, EndpointPort, EndpointSlice, Interner};

impl FromProtobuf for EndpointSlice {
    fn from_protobuf(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let mut slice = Self::default();
        let mut address_type = "";
        let mut fields = Fields::new(bytes, "the EndpointSlice");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => object_meta(payload, &mut slice.metadata, interner)?,
                2 => slice.endpoints.push(endpoint(payload, interner)?),
                3 => push_to_short(&mut slice.ports, port(payload, interner)?),
                4 => address_type = payload.text("addressType")?,
                _ => {}
            }
        }
        slice.address_type = match address_type {
            "IPv4" => AddressType::IPv4,
            "IPv6" => AddressType::IPv6,
            "FQDN" => AddressType::Fqdn,
            other => {
                return Err(DecodeError::UnknownValue {
                    field: "addressType",
                    value: other.to_owned(),
                    expected: "IPv4, IPv6, FQDN",
                });
            }
        };
        // A store holds the slice for long, so it gets no more memory than it needs.
        slice.endpoints.shrink_to_fit();
        Ok(slice)
    }
}

fn endpoint(payload: Payload<'_>, interner: &mut Interner) -> Result<Endpoint, DecodeError> {
    let mut endpoint = Endpoint::default();
    let mut topology = Pairs::default();
    let mut fields = Fields::of(payload, "endpoints")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => push_to_short(&mut endpoint.addresses, owned(payload.text("endpoints.addresses")?)),
            2 => read_conditions(payload, &mut endpoint.conditions)?,
            3 => endpoint.hostname = Some(owned(payload.text("endpoints.hostname")?)),
            4 => endpoint.target_ref = Some(object_reference(payload, interner)?),
            5 => topology.read(payload, "endpoints.deprecatedTopology")?,
            6 => endpoint.node_name = Some(interner.shared(payload.text("endpoints.nodeName")?)),
            7 => endpoint.zone = Some(interner.shared(payload.text("endpoints.zone")?)),
            8 => read_hints(payload, endpoint.hints.get_or_insert_default(), interner)?,
            _ => {}
        }
    }
    endpoint.deprecated_topology = topology.shared(interner);
    Ok(endpoint)
}

fn read_conditions(payload: Payload<'_>, conditions: &mut EndpointConditions) -> Result<(), DecodeError> {
    const FIELD: &str = "endpoints.conditions";
    let mut fields = Fields::of(payload, FIELD)?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => conditions.ready = Some(payload.boolean(FIELD)?),
            2 => conditions.serving = Some(payload.boolean(FIELD)?),
            3 => conditions.terminating = Some(payload.boolean(FIELD)?),
            _ => {}
        }
    }
    Ok(())
}

fn read_hints(
    payload: Payload<'_>,
    hints: &mut EndpointHints,
    interner: &mut Interner,
) -> Result<(), DecodeError> {
    const FIELD: &str = "endpoints.hints";
    let mut fields = Fields::of(payload, FIELD)?;
    while let Some((number, payload)) = fields.next()? {
        let list = match number {
            1 => &mut hints.for_zones,
            2 => &mut hints.for_nodes,
            _ => continue,
        };
        let mut hint = Hint::default();
        let mut fields = Fields::of(payload, FIELD)?;
        while let Some((number, payload)) = fields.next()? {
            if number == 1 {
                hint.name = interner.shared(payload.text(FIELD)?);
            }
        }
        push_to_short(list, hint);
    }
    Ok(())
}

fn port(payload: Payload<'_>, interner: &mut Interner) -> Result<EndpointPort, DecodeError> {
    let mut port = EndpointPort::default();
    let mut fields = Fields::of(payload, "ports")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => port.name = Some(interner.shared(payload.text("ports.name")?)),
            2 => port.protocol = Some(interner.shared(payload.text("ports.protocol")?)),
            3 => port.port = Some(payload.int32("ports.port")?),
            4 => port.app_protocol = Some(interner.shared(payload.text("ports.appProtocol")?)),
            _ => {}
        }
    }
    Ok(port)
}

//! v1 Endpoints.

use super::meta::{object_meta, object_reference, owned};
use super::wire::{Fields, Payload};
use super::{DecodeError, FromProtobuf};
use crate::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use crate::{Endpoints, Interner};

impl FromProtobuf for Endpoints {
    fn from_protobuf(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let mut endpoints = Self::default();
        let mut subsets = Vec::new();
        let mut fields = Fields::new(bytes, "the Endpoints");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => object_meta(payload, &mut endpoints.metadata, interner)?,
                2 => subsets.push(subset(payload, interner)?),
                _ => {}
            }
        }
        subsets.shrink_to_fit();
        endpoints.subsets = subsets.into();
        Ok(endpoints)
    }
}

fn subset(payload: Payload<'_>, interner: &mut Interner) -> Result<EndpointSubset, DecodeError> {
    let mut subset = EndpointSubset::default();
    let mut fields = Fields::of(payload, "subsets")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => subset.addresses.push(address(payload, interner)?),
            2 => subset.not_ready_addresses.push(address(payload, interner)?),
            3 => subset.ports.push(port(payload, interner)?),
            _ => {}
        }
    }
    // A store holds the ports for long, so they get no more memory than they need.
    subset.ports.shrink_to_fit();
    subset.addresses.shrink_to_fit();
    subset.not_ready_addresses.shrink_to_fit();
    Ok(subset)
}

fn address(payload: Payload<'_>, interner: &mut Interner) -> Result<EndpointAddress, DecodeError> {
    let mut address = EndpointAddress::default();
    let mut fields = Fields::of(payload, "subsets.addresses")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => address.ip = owned(payload.text("subsets.addresses.ip")?),
            2 => address.target_ref = Some(object_reference(payload, interner)?),
            3 => address.hostname = owned(payload.text("subsets.addresses.hostname")?),
            4 => address.node_name = Some(interner.shared(payload.text("subsets.addresses.nodeName")?)),
            _ => {}
        }
    }
    Ok(address)
}

fn port(payload: Payload<'_>, interner: &mut Interner) -> Result<EndpointsPort, DecodeError> {
    let mut port = EndpointsPort::default();
    let mut fields = Fields::of(payload, "subsets.ports")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => port.name = interner.shared(payload.text("subsets.ports.name")?),
            2 => port.port = payload.int32("subsets.ports.port")?,
            3 => port.protocol = interner.shared(payload.text("subsets.ports.protocol")?),
            4 => port.app_protocol = Some(interner.shared(payload.text("subsets.ports.appProtocol")?)),
            _ => {}
        }
    }
    Ok(port)
}

//! Services.

use super::meta::{CommonMeta, Pairs, non_empty, owned, push_to_short};
use super::wire::{Fields, Payload};
use super::{DecodeError, FromProtobuf};
use crate::service::{Service, ServicePort, ServiceType, TargetPort, is_read};
use crate::traffic_policies::{is_local, is_virtual};
use crate::{Interner, IpFamily};

impl FromProtobuf for Service {
    fn from_protobuf(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let (mut meta, mut annotations) = (CommonMeta::default(), Pairs::default());
        let mut service = Self::default();
        let mut selector = Pairs::default();
        let mut fields = Fields::new(bytes, "the Service");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => meta.read(payload, |number, payload| match number {
                    12 => annotations.read_if(payload, "metadata.annotations", is_read),
                    _ => Ok(()),
                })?,
                2 => read_spec(payload, &mut service, &mut selector, interner)?,
                3 => service.policies.externally_accessible |= has_virtual_address(payload)?,
                _ => {}
            }
        }
        service.key = meta.key(interner);
        service.uid = owned(meta.uid);
        service.resource_version = meta.resource_version;
        service.creation_timestamp = meta.creation_timestamp;
        service.deletion_timestamp = meta.deletion_timestamp;
        service.labels = meta.labels.shared(interner);
        service.annotations = annotations.shared(interner);
        // Go does not distinguish an empty map from an absent one.
        service.selector = (!selector.is_empty()).then(|| selector.shared(interner));
        Ok(service)
    }
}

fn read_spec<'a>(
    payload: Payload<'a>,
    service: &mut Service,
    selector: &mut Pairs<'a>,
    interner: &mut Interner,
) -> Result<(), DecodeError> {
    let mut cluster_ips = 0;
    let mut fields = Fields::of(payload, "spec")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => {
                let (port, node_port) = port(payload, interner)?;
                push_to_short(&mut service.ports, port);
                service.policies.externally_accessible |= node_port != 0;
            }
            2 => selector.read(payload, "spec.selector")?,
            3 => service.cluster_ip = owned(payload.text("spec.clusterIP")?),
            4 => {
                service.service_type = match payload.text("spec.type")? {
                    "ExternalName" => ServiceType::ExternalName,
                    _ => ServiceType::WithEndpoints,
                };
            }
            5 => service.policies.externally_accessible = true,
            11 => service.policies.external_local = is_local(payload.text("spec.externalTrafficPolicy")?),
            12 => {
                let port = payload.int32("spec.healthCheckNodePort")?;
                service.policies.has_health_check = port != 0;
            }
            13 => service.publish_not_ready_addresses = payload.boolean("spec.publishNotReadyAddresses")?,
            18 => {
                cluster_ips += 1;
                if cluster_ips == 2 {
                    service.other_cluster_ip = Some(owned(payload.text("spec.clusterIPs")?));
                }
            }
            19 => push_to_short(&mut service.ip_families, ip_family(payload.text("spec.ipFamilies")?)?),
            22 => service.policies.internal_local = is_local(payload.text("spec.internalTrafficPolicy")?),
            23 => {
                let distribution = non_empty(payload.text("spec.trafficDistribution")?);
                service.traffic_distribution = distribution.map(|it| interner.shared(it));
            }
            _ => {}
        }
    }
    Ok(())
}

fn ip_family(text: &str) -> Result<IpFamily, DecodeError> {
    match text {
        "IPv4" => Ok(IpFamily::IPv4),
        "IPv6" => Ok(IpFamily::IPv6),
        _ => Err(DecodeError::UnknownValue {
            field: "spec.ipFamilies",
            value: text.to_owned(),
            expected: "IPv4, IPv6",
        }),
    }
}

/// Returns true if the status has an address of a load balancer that kube-proxy serves.
fn has_virtual_address(payload: Payload<'_>) -> Result<bool, DecodeError> {
    const FIELD: &str = "status.loadBalancer.ingress";
    let mut found = false;
    let mut status = Fields::of(payload, "status")?;
    while let Some((number, payload)) = status.next()? {
        let mut load_balancer =
            if number == 1 { Fields::of(payload, "status.loadBalancer")? } else { continue };
        while let Some((number, payload)) = load_balancer.next()? {
            let mut ingress = if number == 1 { Fields::of(payload, FIELD)? } else { continue };
            let (mut ip, mut ip_mode) = ("", "");
            while let Some((number, payload)) = ingress.next()? {
                match number {
                    1 => ip = payload.text(FIELD)?,
                    3 => ip_mode = payload.text(FIELD)?,
                    _ => {}
                }
            }
            found |= is_virtual(ip, ip_mode);
        }
    }
    Ok(found)
}

/// Reads a port, and its node port.
fn port(payload: Payload<'_>, interner: &mut Interner) -> Result<(ServicePort, i32), DecodeError> {
    let (mut port, mut node_port) = (ServicePort::default(), 0);
    let mut fields = Fields::of(payload, "spec.ports")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => port.name = interner.shared(payload.text("spec.ports.name")?),
            2 => port.protocol = interner.shared(payload.text("spec.ports.protocol")?),
            3 => port.port = payload.int32("spec.ports.port")?,
            4 => port.target_port = target_port(payload, "spec.ports.targetPort")?,
            5 => node_port = payload.int32("spec.ports.nodePort")?,
            6 => port.app_protocol = Some(interner.shared(payload.text("spec.ports.appProtocol")?)),
            _ => {}
        }
    }
    Ok((port, node_port))
}

/// Reads an `IntOrString`.
pub(super) fn target_port(payload: Payload<'_>, field: &'static str) -> Result<TargetPort, DecodeError> {
    let (mut is_name, mut number_value, mut name) = (false, 0, "");
    let mut fields = Fields::of(payload, field)?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => is_name = payload.number(field)? == 1,
            2 => number_value = payload.int32(field)?,
            3 => name = payload.text(field)?,
            _ => {}
        }
    }
    Ok(if is_name { TargetPort::Name(owned(name)) } else { TargetPort::Number(number_value) })
}

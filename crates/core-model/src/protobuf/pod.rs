//! Pods.

use super::meta::{CommonMeta, non_empty, owned, time};
use super::wire::{Fields, Payload};
use super::{DecodeError, FromProtobuf};
use crate::pod::{Pod, PodPhase, PrefixedCondition, RareFields, ReadyCondition};
use crate::{Interner, Timestamp, address};

const CONTAINERS: &str = "status.containerStatuses";

#[derive(Default)]
struct RawPod<'a> {
    meta: CommonMeta<'a>,
    node_name: &'a str,
    hostname: &'a str,
    subdomain: &'a str,
    host_network: bool,
    /// The ports of containers, and of restartable init containers.
    ports: Vec<Port<'a>>,
    sidecar_ports: Vec<Port<'a>>,
    phase: PodPhase,
    pod_ip: &'a str,
    pod_ips: Vec<&'a str>,
    ready: Option<ReadyCondition>,
    conditions: Vec<(&'a str, ReadyCondition)>,
    has_restarted: bool,
    started: Option<Timestamp>,
}

struct Port<'a> {
    name: &'a str,
    number: i32,
    protocol: &'a str,
}

impl FromProtobuf for Pod {
    fn from_protobuf(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let mut pod = RawPod::default();
        let mut fields = Fields::new(bytes, "the pod");
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => pod.meta.read(payload, |_, _| Ok(()))?,
                2 => pod.read_spec(payload)?,
                3 => {
                    pod.read_status(payload)?;
                    if pod.has_restarted {
                        pod.read_starts(payload)?;
                    }
                }
                _ => {}
            }
        }
        Ok(pod.view(interner))
    }
}

impl<'a> RawPod<'a> {
    fn read_spec(&mut self, payload: Payload<'a>) -> Result<(), DecodeError> {
        let mut fields = Fields::of(payload, "spec")?;
        while let Some((number, payload)) = fields.next()? {
            match number {
                2 => drop(read_container(payload, &mut self.ports)?),
                10 => self.node_name = payload.text("spec.nodeName")?,
                11 => self.host_network = payload.boolean("spec.hostNetwork")?,
                16 => self.hostname = payload.text("spec.hostname")?,
                17 => self.subdomain = payload.text("spec.subdomain")?,
                20 => {
                    let before = self.sidecar_ports.len();
                    if read_container(payload, &mut self.sidecar_ports)? != "Always" {
                        self.sidecar_ports.truncate(before);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_status(&mut self, payload: Payload<'a>) -> Result<(), DecodeError> {
        let mut fields = Fields::of(payload, "status")?;
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => {
                    self.phase = match payload.text("status.phase")? {
                        "Pending" => PodPhase::Pending,
                        "Running" => PodPhase::Running,
                        "Succeeded" => PodPhase::Succeeded,
                        "Failed" => PodPhase::Failed,
                        _ => PodPhase::Unknown,
                    };
                }
                2 => match condition(payload)? {
                    Condition::Ready(ready) => self.ready = self.ready.or(Some(ready)),
                    Condition::Prefixed(kind, state) => self.conditions.push((kind, state)),
                    Condition::Other => {}
                },
                8 => self.read_container_status(payload)?,
                6 => self.pod_ip = payload.text("status.podIP")?,
                12 => {
                    let mut ip = "";
                    let mut fields = Fields::of(payload, "status.podIPs")?;
                    while let Some((number, payload)) = fields.next()? {
                        if number == 1 {
                            ip = payload.text("status.podIPs.ip")?;
                        }
                    }
                    self.pod_ips.push(ip);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes a container that has restarted.
    fn read_container_status(&mut self, payload: Payload<'a>) -> Result<(), DecodeError> {
        let mut fields = Fields::of(payload, CONTAINERS)?;
        while let Some((number, payload)) = fields.next()? {
            if number == 5 {
                self.has_restarted |= payload.int32("status.containerStatuses.restartCount")? > 0;
                // Go writes the fields in order.
                break;
            }
        }
        Ok(())
    }

    /// Reads when the containers started. Few pods have restarted, so only theirs is read again.
    fn read_starts(&mut self, status: Payload<'a>) -> Result<(), DecodeError> {
        let mut fields = Fields::of(status, "status")?;
        while let Some((number, payload)) = fields.next()? {
            if number != 8 {
                continue;
            }
            let mut fields = Fields::of(payload, CONTAINERS)?;
            while let Some((number, payload)) = fields.next()? {
                if number == 2 {
                    self.started = self.started.into_iter().chain(running_since(payload)?).min();
                }
            }
        }
        Ok(())
    }

    fn view(self, interner: &mut Interner) -> Pod {
        let mut invalid_pod_ip = None;
        let mut pod_ips = Vec::with_capacity(self.pod_ips.len());
        for ip in &self.pod_ips {
            match address::parse_sloppy(ip) {
                Some(address) => pod_ips.push(address),
                None => invalid_pod_ip = Some(owned(ip)),
            }
        }
        let pod_ip = match self.pod_ips.first() {
            // The two are equal unless the kubelet is broken.
            Some(first) if *first == self.pod_ip => address::parse_sloppy(first),
            _ => non_empty(self.pod_ip).and_then(address::parse_sloppy),
        };
        let conditions = self.conditions.iter().map(|(kind, state)| PrefixedCondition {
            kind: interner.shared(kind),
            is_true: state.is_true,
            last_transition: state.last_transition,
        });
        let conditions = conditions.collect();
        let ports = self.ports.iter().chain(&self.sidecar_ports);
        let ports = ports.map(|port| (port.name, port.number, port.protocol));
        Pod {
            key: self.meta.key(interner),
            uid: owned(self.meta.uid),
            resource_version: self.meta.resource_version,
            labels: self.meta.labels.shared(interner),
            deletion_timestamp: self.meta.deletion_timestamp,
            node_name: non_empty(self.node_name).map(|name| interner.shared(name)),
            hostname: non_empty(self.hostname).map(owned),
            subdomain: non_empty(self.subdomain).map(|name| interner.shared(name)),
            host_network: self.host_network,
            ports: interner.ports_of(ports),
            phase: self.phase,
            pod_ip,
            has_pod_ip: !self.pod_ip.is_empty() || !self.pod_ips.is_empty(),
            pod_ips: pod_ips.into(),
            ready: self.ready,
            rare: RareFields { invalid_pod_ip, conditions, started: self.started }.boxed(),
        }
    }
}

/// Adds the ports of a container. Returns its restart policy.
fn read_container<'a>(payload: Payload<'a>, ports: &mut Vec<Port<'a>>) -> Result<&'a str, DecodeError> {
    let mut restart_policy = "";
    let mut fields = Fields::of(payload, "spec.containers")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            6 => {
                let mut port = Port { name: "", number: 0, protocol: "" };
                let mut fields = Fields::of(payload, "spec.containers.ports")?;
                while let Some((number, payload)) = fields.next()? {
                    match number {
                        1 => port.name = payload.text("spec.containers.ports.name")?,
                        3 => port.number = payload.int32("spec.containers.ports.containerPort")?,
                        4 => port.protocol = payload.text("spec.containers.ports.protocol")?,
                        _ => {}
                    }
                }
                ports.push(port);
            }
            24 => restart_policy = payload.text("spec.containers.restartPolicy")?,
            _ => {}
        }
    }
    Ok(restart_policy)
}

/// Returns the start of a container from its state, if it runs.
fn running_since(payload: Payload<'_>) -> Result<Option<Timestamp>, DecodeError> {
    let mut start = None;
    let mut state = Fields::of(payload, "status.containerStatuses.state")?;
    while let Some((number, payload)) = state.next()? {
        if number != 2 {
            continue;
        }
        let mut running = Fields::of(payload, "status.containerStatuses.state.running")?;
        while let Some((number, payload)) = running.next()? {
            if number == 1 {
                start = time(payload, "status.containerStatuses.state.running.startedAt")?;
            }
        }
    }
    Ok(start)
}

/// A condition of a pod.
enum Condition<'a> {
    Ready(ReadyCondition),
    /// One whose type has a prefix.
    Prefixed(&'a str, ReadyCondition),
    Other,
}

fn condition<'a>(payload: Payload<'a>) -> Result<Condition<'a>, DecodeError> {
    const READY: &str = "Ready";
    const TYPE: &str = "status.conditions.type";
    let mut kind = "";
    // The decoder only compares the status, so it need not be UTF-8.
    let (mut is_true, mut last_transition) = (false, None);
    let mut fields = Fields::of(payload, "status.conditions")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => {
                let bytes = payload.bytes(TYPE)?;
                // Go writes the type first.
                if bytes != READY.as_bytes() && !bytes.contains(&b'/') {
                    return Ok(Condition::Other);
                }
                kind = payload.text(TYPE)?;
            }
            2 => is_true = payload.bytes("status.conditions.status")? == b"True",
            4 => last_transition = time(payload, "status.conditions.lastTransitionTime")?,
            _ => {}
        }
    }
    let state = ReadyCondition { is_true, last_transition };
    Ok(match kind {
        READY => Condition::Ready(state),
        "" => Condition::Other,
        kind => Condition::Prefixed(kind, state),
    })
}

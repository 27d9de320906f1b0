//! The details of pods.

use serde::de::IgnoredAny;

use super::meta::{owned, time};
use super::service::target_port;
use super::wire::{Fields, Payload};
use super::{DecodeError, FromProtobuf};
use crate::pod_details::{
    Ended, PodCondition, PodDetails, RawContainer, RawContainerStatus, RawGate, RawPod, RawProbe, RawRunning,
    RawSchedulingGate, RawSpec, RawState, RawStatus, RawTarget, RawWaiting,
};
use crate::service::TargetPort;
use crate::{Intern, Interner, Text};

impl FromProtobuf for PodDetails {
    /// Reads a pod.
    fn from_protobuf(bytes: &[u8], interner: &mut Interner) -> Result<Self, DecodeError> {
        let mut pod = RawPod::default();
        each(Payload::Bytes(bytes), "the pod", |number, payload| match number {
            1 => each(payload, "metadata", |number, payload| {
                match number {
                    8 => pod.metadata.created = time(payload, "metadata.creationTimestamp")?,
                    14 => pod.metadata.finalizers.push(text(payload, "metadata.finalizers")?),
                    _ => {}
                }
                Ok(())
            }),
            2 => read_spec(payload, &mut pod.spec),
            3 => read_status(payload, &mut pod.status),
            _ => Ok(()),
        })?;
        let mut details = Self::from(pod);
        details.intern(interner);
        Ok(details)
    }
}

/// Calls `read` with each field of a message.
fn each<'a>(
    payload: Payload<'a>,
    path: &'static str,
    mut read: impl FnMut(u64, Payload<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut fields = Fields::of(payload, path)?;
    while let Some((number, payload)) = fields.next()? {
        read(number, payload)?;
    }
    Ok(())
}

fn text(payload: Payload<'_>, field: &'static str) -> Result<Text, DecodeError> {
    payload.text(field).map(owned)
}

fn read_spec(payload: Payload<'_>, spec: &mut RawSpec) -> Result<(), DecodeError> {
    each(payload, "spec", |number, payload| {
        match number {
            2 => spec.containers.push(container(payload)?),
            7 => {
                let (mut key, mut value) = (String::new(), String::new());
                each(payload, "spec.nodeSelector", |number, payload| {
                    match number {
                        1 => payload.text("spec.nodeSelector")?.clone_into(&mut key),
                        2 => payload.text("spec.nodeSelector")?.clone_into(&mut value),
                        _ => {}
                    }
                    Ok(())
                })?;
                spec.node_selector.insert(key, value);
            }
            19 => spec.scheduler_name = text(payload, "spec.schedulerName")?,
            20 => spec.init_containers.push(container(payload)?),
            28 => each(payload, "spec.readinessGates", |number, payload| {
                if number == 1 {
                    let condition_type = text(payload, "spec.readinessGates.conditionType")?;
                    spec.readiness_gates.push(RawGate { condition_type });
                }
                Ok(())
            })?,
            38 => each(payload, "spec.schedulingGates", |number, payload| {
                if number == 1 {
                    let name = text(payload, "spec.schedulingGates.name")?;
                    spec.scheduling_gates.push(RawSchedulingGate { name });
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    })
}

fn container(payload: Payload<'_>) -> Result<RawContainer, DecodeError> {
    let mut container = RawContainer::default();
    each(payload, "spec.containers", |number, payload| {
        match number {
            1 => container.name = text(payload, "spec.containers.name")?,
            10 => container.liveness_probe = Some(IgnoredAny),
            11 => container.readiness_probe = Some(probe(payload)?),
            12 => each(payload, "spec.containers.lifecycle", |number, _| {
                if number == 1 {
                    container.lifecycle.post_start = Some(IgnoredAny);
                }
                Ok(())
            })?,
            22 => container.startup_probe = Some(probe(payload)?),
            24 => container.restart_policy = text(payload, "spec.containers.restartPolicy")?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(container)
}

fn probe(payload: Payload<'_>) -> Result<RawProbe, DecodeError> {
    const FIELD: &str = "spec.containers.readinessProbe";
    let mut probe = RawProbe::default();
    each(payload, FIELD, |number, payload| {
        match number {
            1 => each(payload, FIELD, |number, payload| {
                match number {
                    2 => probe.http_get = Some(target(payload, 2, 3)?),
                    3 => probe.tcp_socket = Some(target(payload, 1, 2)?),
                    4 => {
                        let number = number_of(payload, FIELD)?;
                        let port = Some(TargetPort::Number(number));
                        probe.grpc = Some(RawTarget { port, ..RawTarget::default() });
                    }
                    _ => {}
                }
                Ok(())
            })?,
            2 => probe.initial_delay_seconds = payload.int32(FIELD)?,
            4 => probe.period_seconds = payload.int32(FIELD)?,
            6 => probe.failure_threshold = payload.int32(FIELD)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(probe)
}

/// Reads what a probe asks. `port` and `host` are the numbers of these fields.
fn target(payload: Payload<'_>, port: u64, host: u64) -> Result<RawTarget, DecodeError> {
    const FIELD: &str = "spec.containers.readinessProbe.httpGet";
    let mut target = RawTarget::default();
    each(payload, FIELD, |number, payload| {
        if number == port {
            target.port = Some(target_port(payload, FIELD)?);
        } else if number == host {
            target.host = text(payload, FIELD)?;
        }
        Ok(())
    })?;
    Ok(target)
}

/// Reads the port of a gRPC probe.
fn number_of(payload: Payload<'_>, field: &'static str) -> Result<i32, DecodeError> {
    let mut port = 0;
    each(payload, field, |number, payload| {
        if number == 1 {
            port = payload.int32(field)?;
        }
        Ok(())
    })?;
    Ok(port)
}

fn read_status(payload: Payload<'_>, status: &mut RawStatus) -> Result<(), DecodeError> {
    each(payload, "status", |number, payload| {
        match number {
            2 => status.conditions.push(condition(payload)?),
            3 => status.message = text(payload, "status.message")?,
            4 => status.reason = text(payload, "status.reason")?,
            8 => status.container_statuses.push(container_status(payload)?),
            10 => status.init_container_statuses.push(container_status(payload)?),
            _ => {}
        }
        Ok(())
    })
}

fn condition(payload: Payload<'_>) -> Result<PodCondition, DecodeError> {
    const FIELD: &str = "status.conditions";
    let mut condition = PodCondition::default();
    each(payload, FIELD, |number, payload| {
        match number {
            1 => condition.condition_type = text(payload, FIELD)?,
            2 => condition.status = text(payload, FIELD)?,
            4 => condition.last_transition_time = time(payload, FIELD)?,
            5 => condition.reason = text(payload, FIELD)?,
            6 => condition.message = text(payload, FIELD)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(condition)
}

fn container_status(payload: Payload<'_>) -> Result<RawContainerStatus, DecodeError> {
    const FIELD: &str = "status.containerStatuses";
    let mut status = RawContainerStatus::default();
    each(payload, FIELD, |number, payload| {
        match number {
            1 => status.name = text(payload, FIELD)?,
            2 => status.state = state(payload)?,
            3 => status.last_state = state(payload)?,
            4 => status.ready = payload.boolean(FIELD)?,
            5 => status.restart_count = payload.int32(FIELD)?,
            9 => status.started = Some(payload.boolean(FIELD)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(status)
}

fn state(payload: Payload<'_>) -> Result<RawState, DecodeError> {
    const FIELD: &str = "status.containerStatuses.state";
    let mut state = RawState::default();
    each(payload, FIELD, |number, payload| match number {
        1 => {
            let waiting = state.waiting.insert(RawWaiting::default());
            each(payload, FIELD, |number, payload| {
                match number {
                    1 => waiting.reason = text(payload, FIELD)?,
                    2 => waiting.message = text(payload, FIELD)?,
                    _ => {}
                }
                Ok(())
            })
        }
        2 => {
            let running = state.running.insert(RawRunning::default());
            each(payload, FIELD, |number, payload| {
                if number == 1 {
                    running.started_at = time(payload, FIELD)?;
                }
                Ok(())
            })
        }
        3 => {
            let ended = state.terminated.insert(Ended::default());
            each(payload, FIELD, |number, payload| {
                match number {
                    1 => ended.exit_code = payload.int32(FIELD)?,
                    3 => ended.reason = text(payload, FIELD)?,
                    4 => ended.message = text(payload, FIELD)?,
                    6 => ended.finished_at = time(payload, FIELD)?,
                    _ => {}
                }
                Ok(())
            })
        }
        _ => Ok(()),
    })?;
    Ok(state)
}

//! The names that nearly each finding needs.

pub(super) use std::fmt;

pub(super) use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
pub(super) use serde::Serialize;

pub(super) use super::code::Severity;
pub(super) use super::evidence::{Evidence, PodRead, Read};
pub(super) use super::inputs::FaultInputs;
pub(super) use super::pod::Judged;
pub(super) use super::pod_reason::{PodFinding, PodsOf};
pub(super) use super::rank::TrafficLost;
pub(super) use super::words::names;
pub(super) use super::{Fault, Finding};
pub(super) use crate::facts::remedy::Person::{
    self, ClusterAdministrator, EndpointsWriter, PodOwner, ServiceOwner,
};
pub(super) use crate::facts::remedy::{Remedy, Step};

//! Pods of a Service into v1 Endpoints: a pure plan, and the controller around it.

pub mod plan;

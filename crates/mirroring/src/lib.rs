//! Hand-made Endpoints of selector-less Services into EndpointSlices: a pure plan, and the controller around it.

pub mod plan;

//! Pods of a Service into EndpointSlices: a pure plan, and the controller around it.

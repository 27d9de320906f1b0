//! Topology mode `Auto`: how a cluster's CPU is spread over zones, and what that asks of a Service's endpoints.

mod state;

pub use state::{HintedState, TopologyState};

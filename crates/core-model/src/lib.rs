//! What pods, services, nodes and slices mean for endpoints: views and rules, with no client, no runtime and no clock.

//! The Service's trafficDistribution has an unknown value.

use super::about;

about! {
    /// The controllers know `PreferSameZone`, `PreferClose` (its older name) and `PreferSameNode`.
    /// They leave other values to other implementations.
    EP038 "unknown-traffic-distribution" Warning
    "The Service's trafficDistribution has an unknown value."
}

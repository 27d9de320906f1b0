//! The order of findings: what costs traffic comes first.

use std::cmp::Ordering;

use serde::Serialize;

use crate::findings::code::Severity;

/// The traffic that clients of a Service lose because of a finding. Ordered from the best to the
/// worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficLost {
    #[default]
    None,
    /// Some clients, or the clients of some ports or IP families, get no answer.
    Some,
    /// No client gets an answer.
    All,
}

/// The rank of a finding among those of a Service or a cluster. The worst compares least, so it
/// comes first in a sorted list. Findings of equal rank come in the order of object and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    pub severity: Severity,
    pub traffic_lost: TrafficLost,
    /// Number of pods that it concerns.
    pub pods_hit: usize,
    /// True if the Service itself has it, and not only some of its pods.
    pub is_of_service: bool,
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let worse = |rank: &Self| (rank.severity, rank.traffic_lost, rank.pods_hit, rank.is_of_service);
        worse(other).cmp(&worse(self))
    }
}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_comes_before_lost_traffic_and_that_before_the_number_of_pods() {
        let rank = |severity, traffic_lost, pods_hit, is_of_service| Rank {
            severity,
            traffic_lost,
            pods_hit,
            is_of_service,
        };
        let sorted = [
            rank(Severity::Error, TrafficLost::All, 1, false),
            rank(Severity::Error, TrafficLost::Some, 7, false),
            rank(Severity::Error, TrafficLost::None, 9, true),
            rank(Severity::Error, TrafficLost::None, 9, false),
            rank(Severity::Error, TrafficLost::None, 8, true),
            rank(Severity::Warning, TrafficLost::All, 9, true),
            rank(Severity::Info, TrafficLost::Some, 9, true),
        ];
        assert!(sorted.is_sorted_by(|one, two| one < two));
    }
}

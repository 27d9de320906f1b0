//! The IP families of a cluster's Services.

/// The IP families in which a cluster has a range for Services. The first one is that of a Service
/// that asks for no family. Default: both, IPv4 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    first: &'static str,
    is_dual: bool,
}

impl Default for Families {
    fn default() -> Self {
        Self::new(true, true)
    }
}

impl Families {
    pub(super) fn new(ipv4_first: bool, is_dual: bool) -> Self {
        Self { first: if ipv4_first { "IPv4" } else { "IPv6" }, is_dual }
    }

    /// Returns the family of a Service that asks for none.
    pub fn first(self) -> &'static str {
        self.first
    }

    /// Returns true if the cluster has both families.
    pub fn is_dual(self) -> bool {
        self.is_dual
    }

    /// Returns true if the cluster has a family.
    pub(super) fn has(self, family: &str) -> bool {
        self.is_dual || family == self.first
    }
}

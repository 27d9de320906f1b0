//! A gauge that counts keys.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use kube_endpoint_core_model::ObjectKey;
use metrics::{Gauge, Unit, describe_gauge, gauge};
use parking_lot::Mutex;

/// A gauge that counts the keys in some state. A standby registers none, so that a sum over all
/// replicas counts each key once.
pub struct KeyGauge {
    name: &'static str,
    help: &'static str,
    keys: Mutex<BTreeSet<ObjectKey>>,
    gauge: OnceLock<Gauge>,
}

impl KeyGauge {
    /// Creates a gauge with no keys. `help` describes it in the list of metrics.
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, keys: Mutex::new(BTreeSet::new()), gauge: OnceLock::new() }
    }

    /// Registers the gauge. A reconciler calls this in [`Reconciler::start`](crate::Reconciler).
    pub fn start(&self) {
        let gauge = self.gauge.get_or_init(|| {
            describe_gauge!(self.name, Unit::Count, self.help);
            gauge!(self.name)
        });
        gauge.set(self.keys.lock().len() as f64);
    }

    /// Counts a key, or no longer.
    pub fn put(&self, key: &ObjectKey, counts: bool) {
        let mut keys = self.keys.lock();
        if counts {
            keys.insert(key.clone());
        } else {
            keys.remove(key);
        }
        if let Some(gauge) = self.gauge.get() {
            gauge.set(keys.len() as f64);
        }
    }
}

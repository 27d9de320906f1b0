//! The data of the overview.

use std::collections::BTreeMap;

use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, Timestamp};
use kube_endpoint_explain::figures::{FILL_CLASSES, is_deleted};
use kube_endpoint_explain::{Code, Severity};
use serde::Serialize;

/// The most problems in a status.
const MOST: usize = 500;

/// The data that the page shows. Unknown parts are null, and the page leaves out those that the
/// program behind it does not have, such as controllers.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The current time, as in RFC 3339.
    pub time: String,
    /// The version of the program.
    pub version: String,
    /// The host name of the process, or empty.
    pub replica: String,
    /// The identity of the process in its Lease.
    pub identity: Option<String>,
    pub leaders: Vec<Leader>,
    /// False if the numbers and the problems are incomplete.
    pub synced: bool,
    pub shutting_down: bool,
    pub dry_run: bool,
    pub controllers: Vec<Controller>,
    pub history: Option<HistoryView>,
    pub fill: Option<Fill>,
    pub totals: Option<ShownTotals>,
    pub namespaces: Option<Namespaces>,
    pub problems: Option<ShownProblems>,
    /// Sentences about what the overview lacks.
    pub notes: Vec<String>,
}

/// The holder of a Lease.
#[derive(Clone, Debug, Serialize)]
pub struct Leader {
    pub lease: String,
    pub holder: Option<String>,
    #[serde(rename = "self")]
    pub is_self: bool,
    pub controllers: Vec<&'static str>,
}

/// The work of a controller since its start.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Controller {
    pub name: &'static str,
    pub leading: bool,
    pub queue_depth: usize,
    pub failing: usize,
    pub retried_slowly: usize,
    pub syncs: u64,
    pub errors: u64,
    pub writes: u64,
}

/// The last minutes in buckets, the oldest first. Buckets without samples are null.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryView {
    pub bucket_seconds: i64,
    pub end: String,
    pub queue_depth: BTreeMap<&'static str, Vec<Option<usize>>>,
    pub writes: BTreeMap<&'static str, Vec<Option<u64>>>,
    pub latency_millis: Quantiles,
}

/// Times from changes to their writes.
#[derive(Clone, Debug, Serialize)]
pub struct Quantiles {
    pub p50: Vec<Option<u64>>,
    pub p99: Vec<Option<u64>>,
}

/// The slices of the endpointslice controller, by tenths of their capacity.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fill {
    pub max_endpoints_per_slice: usize,
    pub classes: [usize; FILL_CLASSES],
}

/// The counts of the namespaces that a reader may see.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownTotals {
    pub services: usize,
    pub slices: usize,
    pub endpoints: usize,
    pub ready_endpoints: usize,
}

/// The counts of a namespace, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub services: usize,
    pub slices: usize,
    pub endpoints: usize,
    pub ready: usize,
    /// The slices of the endpointslice controller, by tenths of their capacity. Full ones are in
    /// the last class.
    pub fill: [usize; FILL_CLASSES],
}

impl Totals {
    /// Counts a slice. `capacity` is that of the slices of `manager`; `fill` does not count other
    /// slices.
    pub fn add_slice(&mut self, slice: &EndpointSlice, manager: &str, capacity: usize) {
        let ready =
            slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false)).count();
        self.slices += 1;
        self.endpoints += slice.endpoints.iter().filter(|endpoint| !is_deleted(endpoint)).count();
        self.ready += ready;
        if slice.is_managed_by(manager) {
            let class = (slice.endpoints.len() * FILL_CLASSES / capacity.max(1)).min(FILL_CLASSES - 1);
            self.fill[class] += 1;
        }
    }

    /// Adds the counts of another namespace.
    pub fn add(&mut self, other: &Self) {
        self.services += other.services;
        self.slices += other.slices;
        self.endpoints += other.endpoints;
        self.ready += other.ready;
        self.fill.iter_mut().zip(other.fill).for_each(|(sum, one)| *sum += one);
    }
}

impl From<Totals> for ShownTotals {
    fn from(totals: Totals) -> Self {
        Self {
            services: totals.services,
            slices: totals.slices,
            endpoints: totals.endpoints,
            ready_endpoints: totals.ready,
        }
    }
}

/// The numbers of namespaces with Services or slices.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Namespaces {
    pub shown: usize,
    pub hidden: usize,
    pub not_checked: usize,
}

/// The worst problems that a reader may see.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownProblems {
    /// The time of the check, as in RFC 3339.
    pub as_of: String,
    /// The number of all problems.
    pub total: usize,
    /// The number of `items`.
    pub shown: usize,
    pub items: Vec<ShownProblem>,
}

impl ShownProblems {
    /// Returns the first of `total` problems.
    pub fn new(as_of: Timestamp, total: usize, problems: impl Iterator<Item = ShownProblem>) -> Self {
        let items: Vec<ShownProblem> = problems.take(MOST).collect();
        Self { as_of: rfc3339(as_of), total, shown: items.len(), items }
    }
}

/// A problem of a Service, or of what belongs to it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownProblem {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub code: Code,
    pub code_name: &'static str,
    pub severity: Severity,
    pub message: String,
}

impl ShownProblem {
    /// Returns a problem of an object.
    pub fn new(
        kind: &'static str,
        object: &ObjectKey,
        code: Code,
        severity: Severity,
        message: String,
    ) -> Self {
        Self {
            kind,
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
            code,
            code_name: code.name(),
            severity,
            message,
        }
    }
}

//! The overview of the page without a manager: what `lint` finds, and counts of the same reading.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::{EndpointSlice, Node, ObjectKey, Text, Timestamp, causes};
use kube_endpoint_explain::{Code, LintOptions, LintReport, Options};
use kube_endpoint_explain_reader::{Before, ReadError, Reader};
use kube_endpoint_serving::Access;
use kube_endpoint_status_page::{
    Fill, Kept, Namespaces, Overview, Refusal, ShownProblem, ShownProblems, Status, Totals,
};

use crate::commands::current_time;

/// The shortest time between two readings.
const PERIOD: Duration = Duration::from_secs(15);

/// Reads all that the user may see, while somebody watches.
pub(super) struct OfUser {
    reader: Arc<Reader>,
    options: Options,
    read: Arc<Kept<Result<Read, String>>>,
}

/// The result of a reading.
#[derive(Clone, Debug)]
struct Read {
    as_of: Timestamp,
    /// The problems of this reading. A write that is under way is no problem yet.
    found: Before,
    /// Those that last, with their common cause.
    problems: LintReport,
    services: Vec<ObjectKey>,
    nodes: Vec<Arc<Node>>,
    totals: BTreeMap<Text, Totals>,
}

impl OfUser {
    pub(super) fn new(reader: Reader, options: Options) -> Self {
        Self { reader: Arc::new(reader), options, read: Kept::new(PERIOD) }
    }

    /// Returns the last reading, or `None` if the first one is not over.
    async fn read(&self) -> Option<Arc<Result<Read, String>>> {
        let (reader, options) = (Arc::clone(&self.reader), self.options.clone());
        let before = self.read.last();
        let make = || async move {
            let before = before.as_deref().and_then(|read| read.as_ref().ok());
            let read = Read::of(&reader, &options, before.map(|read| &read.found)).await;
            Some(read.map_err(|error| causes(&error)))
        };
        self.read.get(make).await
    }
}

impl Read {
    async fn of(reader: &Reader, options: &Options, before: Option<&Before>) -> Result<Self, ReadError> {
        let linted = reader.lint(None, options, &LintOptions::default(), before, current_time).await?;
        let objects = &linted.objects;
        let mut totals: BTreeMap<Text, Totals> = BTreeMap::new();
        let services: Vec<ObjectKey> = objects.services().cloned().collect();
        for key in &services {
            totals.entry(key.namespace.clone()).or_default().services += 1;
        }
        let (manager, capacity) = (&options.slices.manager, options.slices.max_endpoints_per_slice);
        for slice in objects.slices() {
            let slice: &EndpointSlice = slice;
            totals.entry(slice.metadata.namespace.clone()).or_default().add_slice(slice, manager, capacity);
        }
        let (as_of, nodes, found) = (linted.at, objects.nodes(), linted.before());
        let problems = linted.lasting(before, Code::may_be_under_way).with_root_cause(as_of);
        Ok(Self { as_of, found, problems, services, nodes, totals })
    }

    /// Fills the parts of a status that a reading knows.
    fn fill(&self, status: &mut Status, capacity: usize) {
        let mut totals = Totals::default();
        self.totals.values().for_each(|one| totals.add(one));
        let problems = &self.problems.problems;
        let shown = problems
            .iter()
            .map(|it| ShownProblem::new(it.kind, &it.object, it.code, it.severity, it.message.clone()));
        status.synced = true;
        status.problems = Some(ShownProblems::new(self.as_of, problems.len(), shown));
        status.fill = Some(Fill { max_endpoints_per_slice: capacity, classes: totals.fill });
        status.totals = Some(totals.into());
        status.namespaces = Some(Namespaces { shown: self.totals.len(), hidden: 0, not_checked: 0 });
        status.notes.extend(self.problems.not_read.iter().cloned());
    }
}

impl Overview for OfUser {
    async fn status(&self, _: &Access) -> Status {
        let mut status = Status {
            time: rfc3339(current_time()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Status::default()
        };
        match self.read().await.as_deref() {
            None => {}
            Some(Ok(read)) => read.fill(&mut status, self.options.slices.max_endpoints_per_slice),
            Some(Err(why)) => status.notes.push(format!("The cluster cannot be read: {why}.")),
        }
        status
    }

    async fn services(&self, _: &Access, filter: &str, limit: usize) -> Result<Vec<ObjectKey>, Refusal> {
        match self.read().await.as_deref() {
            None => Err(Refusal::NotKnownYet("the Services have not been read yet".to_owned())),
            Some(Err(why)) => Err(Refusal::Failed(why.clone())),
            Some(Ok(read)) => {
                let is_meant = |key: &&ObjectKey| key.to_string().contains(filter);
                Ok(read.services.iter().filter(is_meant).take(limit).cloned().collect())
            }
        }
    }

    fn nodes(&self) -> Option<Vec<Arc<Node>>> {
        self.read.last().and_then(|read| read.as_ref().as_ref().ok().map(|read| read.nodes.clone()))
    }
}

//! Who wrote the outputs that were read.

use std::collections::BTreeMap;

use kube_endpoint_core_model::maker::{CONTROLLERS, Content, KUBE_ENDPOINT_MANAGER, Maker, Provenance};
use kube_endpoint_core_model::well_known::{
    ENDPOINT_CONTROLLER, ENDPOINTSLICE_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY, LABEL_MANAGED_BY,
    MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{ObjectKey, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::report::{OutputsReport, WriterReport};
use crate::facts::json::each;
use crate::facts::output_kind::OutputKind;

/// The word for objects without the label.
const NO_LABEL: &str = "no label";

/// The slices or the Endpoints of a cluster, or some of them, added up one by one.
#[derive(Clone, Debug)]
pub struct Outputs {
    kind: OutputKind,
    read: usize,
    /// The number of objects that were not read.
    pub left: u64,
    writers: BTreeMap<Writer, Written>,
    managed_by: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Writer {
    name: String,
    is_controller: bool,
    part: Part,
}

/// The part of the objects of a kind that one loop writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Those that are made from pods.
    OfPods,
    /// Slices that mirror Endpoints.
    Mirrored,
    /// Slices of Services that name an EndpointSelector.
    Attached,
    /// Those that another controller made, and kube-endpoint-manager edited: its loops do, and so
    /// does its add-on, which takes dead endpoints out of them.
    Edited,
    /// Those of other programs, by their label.
    Foreign,
}

/// The last writes of a writer.
#[derive(Clone, Debug, Default)]
struct Written {
    objects: usize,
    newest: Option<(Timestamp, ObjectKey)>,
}

/// The newest write of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) writer: String,
    pub(super) at: Timestamp,
    pub(super) object: ObjectKey,
}

impl Outputs {
    /// Starts with no object.
    pub fn new(kind: OutputKind) -> Self {
        Self { kind, read: 0, left: 0, writers: BTreeMap::new(), managed_by: BTreeMap::new() }
    }

    /// Adds an object.
    ///
    /// # Errors
    ///
    /// An error if the value is no metadata.
    pub fn add(&mut self, metadata: &Value) -> Result<(), serde_json::Error> {
        let (content, label) = match self.kind {
            OutputKind::EndpointSlice => (Content::Slice, LABEL_MANAGED_BY),
            OutputKind::Endpoints => (Content::Endpoints, LABEL_ENDPOINTS_MANAGED_BY),
        };
        self.read += 1;
        let managed_by = metadata["labels"][label].as_str().unwrap_or(NO_LABEL);
        *self.managed_by.entry(managed_by.to_owned()).or_default() += 1;
        let write = Provenance::deserialize(metadata)?.last_write_or_making(content, &CONTROLLERS);
        let (name, is_controller) = match write.as_ref().map(|write| &write.writer) {
            Some(Maker::Controller(name)) => (name.to_string(), true),
            Some(Maker::SomebodyElse(name)) => (name.to_string(), false),
            _ => ("not known".to_owned(), false),
        };
        let part = match (self.kind, managed_by) {
            (OutputKind::EndpointSlice, ENDPOINTSLICE_CONTROLLER) => Part::OfPods,
            (OutputKind::EndpointSlice, MIRRORING_CONTROLLER) => Part::Mirrored,
            (OutputKind::EndpointSlice, SELECTOR_CONTROLLER) => Part::Attached,
            // Endpoints have the label since Kubernetes 1.33.
            (OutputKind::Endpoints, ENDPOINT_CONTROLLER | NO_LABEL) => Part::OfPods,
            _ => Part::Foreign,
        };
        let is_of_upstream =
            |manager: &str| manager != KUBE_ENDPOINT_MANAGER && CONTROLLERS.contains(&manager);
        let is_edited =
            || each(&metadata["managedFields"]).filter_map(|it| it["manager"].as_str()).any(is_of_upstream);
        let part = if name == KUBE_ENDPOINT_MANAGER && is_edited() { Part::Edited } else { part };
        let written = self.writers.entry(Writer { name, is_controller, part }).or_default();
        written.objects += 1;
        if let Some(at) = write.and_then(|write| write.at) {
            let text = |field: &str| metadata[field].as_str().unwrap_or_default();
            let object = || ObjectKey::new(text("namespace"), text("name"));
            if written.newest.as_ref().is_none_or(|(newest, _)| *newest < at) {
                written.newest = Some((at, object()));
            }
        }
        Ok(())
    }

    /// Returns the newest write of a controller that is not kube-endpoint-manager.
    pub(super) fn newest_of_upstream(&self, part: Part) -> Option<Newest> {
        self.newest(|writer| {
            writer.is_controller && writer.name != KUBE_ENDPOINT_MANAGER && writer.part == part
        })
    }

    /// Returns true if all objects were read, and of the controllers kube-endpoint-manager alone
    /// wrote some.
    pub(super) fn are_of_manager_alone(&self) -> bool {
        let mut controllers = self.writers.keys().filter(|writer| writer.is_controller);
        self.left == 0 && controllers.all(|writer| writer.name == KUBE_ENDPOINT_MANAGER)
    }

    /// Returns the newest write of kube-endpoint-manager, without those of its add-on. `addon` is
    /// the time until which an add-on has led, if any.
    pub(super) fn newest_of_manager(&self, addon: Option<Timestamp>) -> Option<Newest> {
        let newest = |part| self.newest(|writer| writer.name == KUBE_ENDPOINT_MANAGER && writer.part == part);
        let edited = newest(Part::Edited).filter(|edited| addon.is_none_or(|end| edited.at > end));
        let parts = [Part::OfPods, Part::Mirrored, Part::Foreign].map(newest);
        parts.into_iter().chain([edited]).flatten().max_by_key(|newest| newest.at)
    }

    fn newest(&self, is_of: impl Fn(&Writer) -> bool) -> Option<Newest> {
        let writes = self.writers.iter().filter(|(writer, _)| is_of(writer));
        let newest = writes.filter_map(|(writer, written)| Some((writer, written.newest.as_ref()?)));
        let (writer, (at, object)) = newest.max_by_key(|(_, (at, _))| *at)?;
        Some(Newest { writer: writer.name.clone(), at: *at, object: object.clone() })
    }

    pub(super) fn report(&self) -> OutputsReport {
        let mut writers: BTreeMap<&str, Written> = BTreeMap::new();
        for (writer, written) in &self.writers {
            let sum = writers.entry(&writer.name).or_default();
            sum.objects += written.objects;
            sum.newest = sum.newest.take().max(written.newest.clone());
        }
        let mut writers: Vec<WriterReport> = writers
            .into_iter()
            .map(|(name, Written { objects, newest })| {
                let (newest, newest_object) = newest.unzip();
                WriterReport { name: name.to_owned(), objects, newest, newest_object }
            })
            .collect();
        writers.sort_by(|one, two| two.newest.cmp(&one.newest).then_with(|| one.name.cmp(&two.name)));
        OutputsReport {
            kind: self.kind,
            read: self.read,
            left: self.left,
            writers,
            managed_by: self.managed_by.clone(),
        }
    }
}

//! Reads the Endpoints themselves: who writes them, and those that have to stay.

use std::collections::BTreeMap;

use kube_endpoint_core_model::Text;
use kube_endpoint_core_model::maker::{CONTROLLERS, Content, Maker, Provenance};
use kube_endpoint_core_model::well_known::LABEL_HEADLESS;
use serde::Deserialize;
use serde_json::Value;

use super::evidence::{EvidenceKind, Findings, Names, Source};
use crate::facts::lease::key_of;

/// An annotation of Endpoints in which Patroni keeps its leader.
const PATRONI_LEADER: &str = "leader";

/// The Endpoints of a namespace or of all, added up one by one by their metadata.
#[derive(Clone, Debug, Default)]
pub struct EndpointsObjects {
    of: BTreeMap<Text, InNamespace>,
}

#[derive(Clone, Debug, Default)]
struct InNamespace {
    count: usize,
    headless: Names,
    locks: Names,
    is_of_api_server: bool,
    /// Names of objects by their writer that is no controller.
    written: BTreeMap<String, Names>,
    unknown: Names,
    /// Names of objects that a client wrote in the form of a controller.
    uncertain: BTreeMap<String, Names>,
}

impl EndpointsObjects {
    /// Adds an object.
    ///
    /// # Errors
    ///
    /// An error if the value is no metadata.
    pub fn add(&mut self, metadata: &Value) -> Result<(), serde_json::Error> {
        let key = key_of(metadata);
        let of = self.of.entry(key.namespace.clone()).or_default();
        of.count += 1;
        if *key.namespace == *"default" && *key.name == *"kubernetes" {
            of.is_of_api_server = true;
            return Ok(());
        }
        let has = |map: &str, name: &str| metadata[map].as_object().is_some_and(|map| map.contains_key(name));
        if has("labels", LABEL_HEADLESS) {
            of.headless.add(&key.name);
        }
        let is_patronis = has("annotations", PATRONI_LEADER) && has("annotations", "ttl");
        let provenance = Provenance::deserialize(metadata)?;
        if provenance.is_lock() || is_patronis {
            of.locks.add(&key.name);
            return Ok(());
        }
        match provenance.maker(Content::Endpoints, &CONTROLLERS) {
            Maker::Controller(_) => {}
            Maker::SomebodyElse(name) => of.written.entry(name.to_string()).or_default().add(&key.name),
            Maker::Uncertain(name) => of.uncertain.entry(name.to_string()).or_default().add(&key.name),
            Maker::Unknown => of.unknown.add(&key.name),
        }
        Ok(())
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Returns the number of objects of each namespace, without that of the API server.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&Text, usize)> {
        self.of.iter().map(|(namespace, of)| (namespace, of.count - usize::from(of.is_of_api_server)))
    }
}

/// Says who writes Endpoints, and which have to stay. `kube_dns` is true if kube-dns runs.
pub(super) fn evidence(objects: &EndpointsObjects, kube_dns: bool) -> Findings {
    let mut findings = Findings::default();
    for (namespace, of) in &objects.of {
        let namespace = Some(namespace);
        let mut add = |kind, what: String, remedy: &str| {
            findings.add(kind, Source::Endpoints, namespace, what, remedy);
        };
        if of.is_of_api_server {
            let what = "The API server writes Endpoints kubernetes, which always stay".to_owned();
            add(
                EvidenceKind::Refused,
                what,
                "Leave them; retire the other Services of the namespace one by one.",
            );
        }
        if of.locks != Names::default() {
            let what = format!("Endpoints {} are the lock of a leader election", of.locks);
            add(EvidenceKind::Refused, what, "Let its program use a Lease, and delete them afterwards.");
        }
        if kube_dns && of.headless != Names::default() {
            let what =
                format!("kube-dns makes the names of headless Services from Endpoints: {}", of.headless);
            add(EvidenceKind::Refused, what, "Replace kube-dns by CoreDNS.");
        }
        for (writer, names) in &of.written {
            let what =
                format!("{writer}, which is no controller, writes Endpoints {names}; they are not deleted");
            let remedy =
                "`kubectl endpoints retire --convert NAMESPACE/NAME` prints EndpointSlices in their place.";
            add(EvidenceKind::Writer, what, remedy);
        }
        for (writer, names) in &of.uncertain {
            let what = format!(
                "{writer} wrote Endpoints {names} in the form of a controller, and may be kube-controller-manager under \
                 another name; they are not deleted"
            );
            let remedy = format!(
                "If it is, give kube-endpoint-manager --controller-field-managers={writer}, which then retires them."
            );
            add(EvidenceKind::Writer, what, &remedy);
        }
        if of.unknown != Names::default() {
            let what = format!("Endpoints {} do not tell who wrote them; they are not deleted", of.unknown);
            add(EvidenceKind::Writer, what, "");
        }
    }
    findings
}

//! Reads EndpointSelectors, and what explanations of the Services look at that name one. A cluster
//! without such a Service is not asked: few clusters serve the resource.

use std::collections::BTreeSet;

use futures::FutureExt;
use kube::api::ListParams;
use kube_endpoint_api_client::says_not_there;
use kube_endpoint_core_model::{ObjectKey, Service, Text};
use kube_endpoint_explain::{Objects, names_selector};

use crate::error::{Failed, forbidden};
use crate::reader::at_once;
use crate::{ReadError, Reader, Reading, Resource};

impl Reading {
    /// Notes that the user may not read EndpointSelectors. Nobody has to know if they only rehearse
    /// a hand-over.
    fn selectors_not_read(&mut self, note: Option<String>, is_needed: bool) {
        match note {
            Some(note) if is_needed => self.not_read(Resource::ENDPOINT_SELECTORS, &note),
            Some(_) => self.known.selectors = false,
            None => {}
        }
    }
}

fn is_attached(objects: &Objects, key: &ObjectKey) -> bool {
    objects.service(key).is_some_and(|service| service.endpoint_selector().is_some())
}

impl Reader {
    /// Reads the EndpointSelectors of a namespace, or of all, if a Service names one.
    pub(crate) async fn selectors(
        &self,
        reading: &mut Reading,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        let objects = &reading.objects;
        let names_one = |key| objects.service(key).is_some_and(|it| names_selector(it).is_some());
        if !objects.services().any(names_one) {
            return Ok(());
        }
        let kind = Resource::ENDPOINT_SELECTORS;
        match self.add(&mut reading.objects, kind, namespace, ListParams::default()).await {
            Err(Failed::Request(error)) if says_not_there(&error) => {
                reading.objects.note_no_endpoint_selectors();
            }
            listed => {
                let is_needed = reading.objects.services().any(|key| is_attached(&reading.objects, key));
                reading.selectors_not_read(forbidden(listed, kind, namespace)?, is_needed);
            }
        }
        Ok(())
    }

    /// Reads the Leases on which the readiness of pods of attached Services depends.
    pub(crate) async fn named_leases(&self, reading: &mut Reading) -> Result<(), ReadError> {
        let objects = &reading.objects;
        let services = objects.services().filter_map(|key| objects.service(key));
        let named =
            services.filter_map(|service| Some((service.key.namespace.clone(), objects.lease_of(service)?)));
        let named: BTreeSet<(Text, Text)> =
            named.map(|(namespace, name)| (namespace, name.clone())).collect();
        let keys: Vec<ObjectKey> =
            named.into_iter().map(|(namespace, name)| ObjectKey { namespace, name }).collect();
        let mut gets = Vec::new();
        for key in &keys {
            gets.push(self.get(Resource::LEASES, &key.namespace, &key.name).boxed());
        }
        let read = at_once(gets).await;
        let mut notes = BTreeSet::new();
        for (key, got) in keys.into_iter().zip(read) {
            match got {
                Ok(lease) => lease.into_iter().try_for_each(|lease| reading.objects.add(lease))?,
                Err(error) => {
                    let note =
                        forbidden(Err(Failed::Request(error)), Resource::LEASES, Some(&key.namespace))?;
                    notes.extend(note.map(|note| format!("{note} Who leads by a Lease is not known.")));
                    reading.objects.note_lease_unread(key);
                }
            }
        }
        reading.notes.extend(notes);
        Ok(())
    }

    /// Reads the EndpointSelector that a Service names, and the pods that it selects; of a Service
    /// without a selector of its own, also the metadata of pods that it nearly selects. Returns the
    /// nodes of the pods.
    pub(crate) async fn attached(
        &self,
        reading: &mut Reading,
        service: &Service,
        name: &str,
    ) -> Result<BTreeSet<String>, ReadError> {
        let namespace = &*service.key.namespace;
        let kind = Resource::ENDPOINT_SELECTORS;
        match self.get(kind, namespace, name).await {
            Ok(Some(object)) => {
                reading.objects.add(object)?;
                self.named_leases(reading).await?;
            }
            // The names of the others may tell how it is spelled.
            Ok(None) => {
                self.selectors(reading, Some(namespace)).await?;
                self.selectors_elsewhere(reading, namespace, name).await?;
            }
            Err(error) if says_not_there(&error) => reading.objects.note_no_endpoint_selectors(),
            Err(error) => {
                let note = forbidden(Err(Failed::Request(error)), kind, Some(namespace))?;
                reading.selectors_not_read(note, service.endpoint_selector().is_some());
            }
        }
        let mut nodes = BTreeSet::new();
        let Some(selector) = reading.objects.named_selector(service).cloned() else { return Ok(nodes) };
        let listed = self.add_pods(&mut reading.objects, namespace, &selector.to_string(), &mut nodes).await;
        let note = forbidden(listed, Resource::PODS, Some(namespace))?;
        note.iter().for_each(|note| reading.not_read(Resource::PODS, note));
        if reading.known.pods && service.endpoint_selector().is_some() {
            let labels = reading.objects.required_labels(service).filter(|labels| !labels.is_empty());
            let is_empty = reading.objects.pods_for(service).is_empty();
            if let Some(labels) = labels.filter(|_| is_empty) {
                self.near(reading, namespace, &labels).await;
                self.near_pods(reading, &service.key, &labels).await?;
            }
            // Those that meet all requirements but one.
            let misses = selector.misses().map(|(_, miss)| miss.to_string()).collect();
            self.add_metadata(reading, namespace, misses).await;
            self.failed_creates(reading, service).await?;
        }
        Ok(nodes)
    }
}

//! Reads objects that tell why a Service has no pods or no names: only those that an explanation
//! of this Service looks at.

use std::collections::BTreeSet;

use futures::FutureExt;
use kube::api::ListParams;
use kube_endpoint_core_model::well_known::{LABEL_ENDPOINTS_MANAGED_BY, LABEL_SERVICE_NAME};
use kube_endpoint_core_model::{ObjectKey, Service, StringMap};
use kube_endpoint_explain::{Objects, near_pods, nearest_names};
use serde_json::{Value, json};

use crate::around::workloads;
use crate::error::{Failed, forbidden};
use crate::reader::at_once;
use crate::{PAGE, ReadError, Reader, Reading, Resource};

/// The workloads that came before ReplicaSets.
const REPLICATION_CONTROLLERS: Resource = Resource::v1("", "ReplicationController", "replicationcontrollers");

/// The most pods that slices name to read one by one; for more, the reader lists all of the
/// namespace.
const PODS_OF_SLICES: usize = 10;

/// The most addresses of endpoints to look for pods at.
const ADDRESSES: usize = 3;

/// The most Services that one explanation reads because pods have their names as subdomain.
const SUBDOMAINS: usize = 10;

impl Reader {
    /// Reads the pods that nearly match a selector, a few of each kind, and those of a workload
    /// with the name of the Service. An explanation says less about one that cannot be read.
    pub(crate) async fn near_pods(
        &self,
        reading: &mut Reading,
        service: &ObjectKey,
        selector: &StringMap,
    ) -> Result<(), ReadError> {
        let namespace = &*service.namespace;
        let metadata = reading.metadata.as_deref().unwrap_or_default();
        let names = near_pods(&service.name, selector, metadata.iter().map(|(name, labels)| (name, labels)));
        let pods =
            at_once(names.iter().map(|name| self.get(Resource::PODS, namespace, name).boxed()).collect());
        pods.await.into_iter().flatten().flatten().try_for_each(|pod| Ok(reading.objects.add(pod)?))
    }

    /// Reads the Services whose name is the subdomain of a pod of a headless Service: the pods may
    /// have their DNS names from one of them. This assumes so if it cannot be read.
    pub(crate) async fn governing_services(
        &self,
        reading: &mut Reading,
        service: &Service,
    ) -> Result<(), ReadError> {
        if !service.is_headless() {
            return Ok(());
        }
        let key = &service.key;
        let pods = reading.objects.pods_of(&key.namespace).filter_map(|pod| pod.subdomain.clone());
        let names: BTreeSet<_> = pods.filter(|name| *name != key.name && !name.is_empty()).collect();
        for name in names.into_iter().take(SUBDOMAINS) {
            match self.get(Resource::SERVICES, &key.namespace, &name).await {
                Ok(other) => other.into_iter().try_for_each(|other| reading.objects.add(other))?,
                Err(error) => {
                    let read = Err(Failed::Request(error));
                    let note = forbidden(read, Resource::SERVICES, Some(&*key.namespace))?;
                    reading.notes.extend(note.map(|note| {
                        format!("{note} The pods are taken to have names from the Service {name}.")
                    }));
                    let metadata = json!({"namespace": *key.namespace, "name": *name});
                    let assumed =
                        json!({"kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None"}});
                    reading.objects.add(assumed)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the Service that an alias means. It is taken to exist if it may not be read.
    pub(crate) async fn alias(&self, reading: &mut Reading, of: &ObjectKey) -> Result<(), ReadError> {
        let Some(key) = reading.objects.alias_of(of).filter(|key| key != of) else { return Ok(()) };
        if key.namespace != of.namespace && !self.looks_elsewhere {
            return Ok(());
        }
        match self.get(Resource::SERVICES, &key.namespace, &key.name).await {
            Ok(Some(service)) => reading.objects.add(service)?,
            Ok(None) => reading.objects.note_absent_service(key),
            Err(error) => {
                let read = Err(Failed::Request(error));
                reading.notes.extend(forbidden(read, Resource::SERVICES, Some(&*key.namespace))?);
            }
        }
        Ok(())
    }

    /// Reads why pods of the namespace cannot be created, if no pod of the Service runs.
    pub(crate) async fn failed_creates(
        &self,
        reading: &mut Reading,
        service: &Service,
    ) -> Result<(), ReadError> {
        if !reading.known.pods {
            return Ok(());
        }
        let namespace = &service.key.namespace;
        let pods = reading.objects.pods_for(service);
        if pods.iter().any(|pod| !pod.is_terminal()) {
            return Ok(());
        }
        self.workloads(reading, Some(&**namespace)).await?;
        let params = ListParams::default().fields("reason=FailedCreate");
        self.add_or_note(reading, Resource::EVENTS, Some(&**namespace), params).await
    }

    /// Reads the workloads of a namespace, or of all: one of them may be meant to make the pods.
    /// Who may not read them learns less.
    async fn workloads(&self, reading: &mut Reading, namespace: Option<&str>) -> Result<(), ReadError> {
        // Nothing but manifests has these, so no request to a server is worth it.
        let old = (!self.reads_again).then_some(REPLICATION_CONTROLLERS);
        for kind in workloads().chain(old) {
            self.add_optional(&mut reading.objects, kind, namespace).await?;
        }
        Ok(())
    }

    /// Reads the workloads of files, for the check of all Services: of files, a list costs no
    /// request.
    pub(crate) async fn workloads_of_files(
        &self,
        reading: &mut Reading,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        if self.reads_again { Ok(()) } else { self.workloads(reading, namespace).await }
    }

    /// Reads from files the pods that have an address of a pod that was read, and their nodes, so
    /// that explanations and checks tell of the same. A server would have to be asked about each
    /// address.
    pub(crate) async fn pods_at_their_addresses(&self, reading: &mut Reading) -> Result<(), ReadError> {
        if self.reads_again || !reading.known.pods || !reading.known.nodes {
            return Ok(());
        }
        let addresses: BTreeSet<String> =
            reading.objects.addresses_of_pods().map(|it| it.to_string()).collect();
        if addresses.is_empty() {
            return Ok(());
        }
        let add = |others: &mut Objects, pod: Value| {
            let ips = pod["status"]["podIPs"].as_array().into_iter().flatten();
            match ips.filter_map(|it| it["ip"].as_str()).any(|ip| addresses.contains(ip)) {
                true => Ok(others.add(pod)?),
                false => Ok(()),
            }
        };
        let listed = self.list_objects(Resource::PODS, None, ListParams::default(), add).await?;
        let Ok(others) = listed else { return Ok(()) };
        let nodes = others.node_names();
        reading.objects.extend(others);
        let here: BTreeSet<String> =
            reading.objects.nodes().iter().map(|node| node.name.to_string()).collect();
        let missing = nodes.iter().map(|name| name.to_string()).filter(|name| !here.contains(name));
        self.nodes(reading, missing.collect(), false).await
    }

    /// Reads the pods that slices of a Service name and that are not read, those at the addresses
    /// of its endpoints, and the nodes of its endpoints: what somebody wrote is compared with them,
    /// and a hand-over looks at them.
    pub(crate) async fn pods_of_slices(
        &self,
        reading: &mut Reading,
        service: &Service,
        all_nodes: bool,
    ) -> Result<(), ReadError> {
        let namespace = &*service.key.namespace;
        if reading.known.pods {
            let names = reading.objects.missing_pods(service);
            let read = match names.len() {
                0..=PODS_OF_SLICES => {
                    let names = names.iter().map(|name| &**name).collect();
                    self.add_named(&mut reading.objects, Resource::PODS, namespace, names).await
                }
                _ => {
                    let all = ListParams::default();
                    self.add(&mut reading.objects, Resource::PODS, Some(namespace), all).await
                }
            };
            match forbidden(read, Resource::PODS, Some(namespace))? {
                Some(note) if service.selects_pods() || service.endpoint_selector().is_some() => {
                    reading.not_read(Resource::PODS, &note);
                }
                Some(note) => {
                    reading.known.pods = false;
                    reading
                        .notes
                        .push(format!("{note} Endpoints are not compared with the pods that they name."));
                }
                None => {}
            }
        }
        if reading.known.pods {
            let addresses = reading.objects.addresses_of_no_pod(&service.key);
            for address in addresses.into_iter().take(ADDRESSES) {
                let params = ListParams::default().fields(&format!("status.podIP={address}")).limit(PAGE);
                let read = self.add(&mut reading.objects, Resource::PODS, Some(namespace), params).await;
                // Without them, the explanation says less.
                if forbidden(read, Resource::PODS, Some(namespace))?.is_some() {
                    break;
                }
            }
        }
        let nodes = reading.objects.missing_nodes(&service.key);
        if all_nodes || !reading.known.nodes || nodes.is_empty() {
            return Ok(());
        }
        self.nodes(reading, nodes.iter().map(|name| name.to_string()).collect(), false).await
    }

    /// Reads the slices that name no Service, if a Service without a selector has no slice: one of
    /// them may be meant for it.
    pub(crate) async fn unlabelled_slices(
        &self,
        reading: &mut Reading,
        service: &Service,
    ) -> Result<(), ReadError> {
        let has_slices = !reading.objects.slices_of(&service.key).is_empty();
        let is_written = service.selector.is_none() && service.endpoint_selector().is_none();
        if !is_written || has_slices || !reading.known.slices {
            return Ok(());
        }
        let namespace = Some(&*service.key.namespace);
        let params = ListParams::default().labels(&format!("!{LABEL_SERVICE_NAME}"));
        let read = self.add(&mut reading.objects, Resource::SLICES, namespace, params).await;
        if let Some(note) = forbidden(read, Resource::SLICES, namespace)? {
            reading.not_read(Resource::SLICES, &note);
        }
        self.similar_endpoints(reading, &service.key).await
    }

    /// Reads the Endpoints of similar names that no controller made and that have no Service, among
    /// those of a page, if there are none of this name. Who may not read them learns less.
    async fn similar_endpoints(&self, reading: &mut Reading, key: &ObjectKey) -> Result<(), ReadError> {
        if reading.objects.endpoints_of(key).is_some() || !reading.known.endpoints {
            return Ok(());
        }
        let params = ListParams::default().labels(&format!("!{LABEL_ENDPOINTS_MANAGED_BY}")).limit(PAGE);
        let api = self.api(Resource::ENDPOINTS, Some(&*key.namespace));
        let Ok(page) = api.list_metadata(&params).await else { return Ok(()) };
        let names = page.items.iter().filter_map(|object| object.metadata.name.as_deref());
        for name in nearest_names(&key.name, names) {
            let other = ObjectKey::new(&*key.namespace, name);
            if !matches!(self.uid(Resource::SERVICES, &other).await, Ok(None)) {
                continue;
            }
            if let Ok(Some(endpoints)) = self.get(Resource::ENDPOINTS, &key.namespace, name).await {
                reading.objects.add(endpoints)?;
            }
        }
        Ok(())
    }
}

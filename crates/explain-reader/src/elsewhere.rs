//! Reads what a user may have meant: objects of similar names, and what may be in another namespace
//! than the one that the user asks about. Each request for the latter needs the permission for all
//! namespaces. Who lacks it reads less, and gets no note.

use futures::FutureExt;
use kube::Error;
use kube::api::{DynamicObject, ListParams, ObjectList};
use kube::core::PartialObjectMeta;
use kube_endpoint_core_model::{ObjectKey, StringMap};
use kube_endpoint_explain::nearest_names;
use serde_json::json;

use crate::error::is_forbidden;
use crate::reader::{as_text, at_once, can_be_a_name, json_of};
use crate::{PAGE, ReadError, Reader, Reading, Resource};

/// The most endpoints to look up, each with a request of its own. Somebody writes them by hand.
const ENDPOINTS: usize = 20;

impl Reader {
    /// Returns a text with the similar names of the namespace, among those of a page, or an empty
    /// one.
    pub(crate) async fn similar_names(&self, kind: Resource, key: &ObjectKey) -> String {
        let params = ListParams::default().limit(PAGE);
        let api = self.api(kind, Some(&*key.namespace));
        let listed: Result<ObjectList<PartialObjectMeta<DynamicObject>>, Error> =
            api.list_metadata(&params).await;
        let Ok(found) = listed else { return String::new() };
        let names = found.items.iter().filter_map(|object| object.metadata.name.as_deref());
        match nearest_names(&key.name, names).as_slice() {
            [] => String::new(),
            [one] => format!("; a similar name in {} is {one}", key.namespace),
            all => format!("; similar names in {} are {}", key.namespace, all.join(", ")),
        }
    }

    /// Returns a text that names the namespaces with an object of this name, or an empty one.
    pub(crate) async fn namespaces_with(&self, kind: Resource, word: &str, key: &ObjectKey) -> String {
        if !self.looks_elsewhere || !can_be_a_name(&key.name) {
            return String::new();
        }
        let params = ListParams::default().fields(&format!("metadata.name={}", key.name)).limit(PAGE);
        let Ok(found) = self.api(kind, None).list_metadata(&params).await else { return String::new() };
        let mut namespaces: Vec<String> =
            found.items.into_iter().filter_map(|object| object.metadata.namespace).collect();
        namespaces.sort_unstable();
        match namespaces.as_slice() {
            [] => String::new(),
            [one] => format!("; the namespace {one} has a {word} of this name: give -n {one}"),
            [first, ..] => {
                let shown = namespaces.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
                let more = match namespaces.len().saturating_sub(5) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!(
                    "; the namespaces {shown}{more} have a {word} of this name: give one of them, such as -n {first}"
                )
            }
        }
    }

    /// Reads names and labels of pods of other namespaces that a selector would select, at most a
    /// page.
    pub(crate) async fn pods_elsewhere(
        &self,
        reading: &mut Reading,
        namespace: &str,
        selector: &StringMap,
    ) -> Result<(), ReadError> {
        if !self.looks_elsewhere {
            return Ok(());
        }
        let have_not_ended = "status.phase!=Succeeded,status.phase!=Failed";
        let params = ListParams::default().labels(&as_text(selector)).fields(have_not_ended).limit(PAGE);
        let api = self.api(Resource::PODS, None);
        let listed: Result<ObjectList<PartialObjectMeta<DynamicObject>>, Error> =
            api.list_metadata(&params).await;
        let Ok(found) = listed else { return Ok(()) };
        for pod in found.items.into_iter().map(|pod| pod.metadata) {
            if pod.namespace.as_deref() != Some(namespace) {
                let metadata = json!({"name": pod.name, "namespace": pod.namespace, "labels": pod.labels});
                reading.objects.add(json!({"kind": "Pod", "metadata": metadata}))?;
            }
        }
        Ok(())
    }

    /// Reads the EndpointSelectors of other namespaces that have a name.
    pub(crate) async fn selectors_elsewhere(
        &self,
        reading: &mut Reading,
        namespace: &str,
        name: &str,
    ) -> Result<(), ReadError> {
        if !self.looks_elsewhere || !can_be_a_name(name) {
            return Ok(());
        }
        let kind = Resource::ENDPOINT_SELECTORS;
        let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(PAGE);
        let Ok(found) = self.api(kind, None).list(&params).await else { return Ok(()) };
        for object in &found.items {
            if object.metadata.namespace.as_deref() != Some(namespace) {
                reading.objects.add(json_of(kind, object))?;
            }
        }
        Ok(())
    }

    /// Reads the Service with this cluster IP, of all namespaces if the user may.
    async fn services_at(
        &self,
        namespace: &str,
        address: std::net::IpAddr,
    ) -> Result<ObjectList<DynamicObject>, Error> {
        let params = ListParams::default().fields(&format!("spec.clusterIP={address}")).limit(1);
        let of_namespace = self.api(Resource::SERVICES, Some(namespace));
        if !self.looks_elsewhere {
            return of_namespace.list(&params).await;
        }
        match self.api(Resource::SERVICES, None).list(&params).await {
            Err(error) if is_forbidden(&error) => of_namespace.list(&params).await,
            listed => listed,
        }
    }

    /// Reads the Services whose cluster IPs are endpoints that somebody has written for a Service.
    /// Servers find only the first cluster IP of a Service.
    pub(crate) async fn services_at_endpoints(
        &self,
        reading: &mut Reading,
        key: &ObjectKey,
    ) -> Result<(), ReadError> {
        let addresses = reading.objects.written_addresses(key);
        let requests = addresses
            .into_iter()
            .take(ENDPOINTS)
            .map(|address| self.services_at(&key.namespace, address).boxed())
            .collect();
        let listed: Result<Vec<_>, Error> = at_once(requests).await.into_iter().collect();
        let Ok(listed) = listed else { return Ok(()) };
        for service in listed.iter().flat_map(|list| &list.items) {
            let json = json_of(Resource::SERVICES, service);
            let is_known =
                json["metadata"]["namespace"] == *key.namespace && json["metadata"]["name"] == *key.name;
            if !is_known {
                reading.objects.add(json)?;
            }
        }
        Ok(())
    }
}

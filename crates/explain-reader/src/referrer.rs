//! Reads an object that sends clients to Services, and what explains each Service.

use kube::Error;
use kube::api::ListParams;
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::references::{REFERRERS, Referrer};
use kube_endpoint_explain::{BackendsExplanation, Known, Options, explain_backends};
use serde_json::{Value, json};

use crate::error::is_forbidden;
use crate::{PAGE, ReadError, Reader, Reading, Resource};

/// The most Services of one object that are read.
const SERVICES: usize = 10;

const GRANTS: [Resource; 2] = [
    Resource::of("gateway.networking.k8s.io", "v1", "ReferenceGrant", "referencegrants"),
    Resource::of("gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "referencegrants"),
];

/// The resources of the kinds that send clients to Services, the newest version first.
const RESOURCES: [Resource; 12] = [
    Resource::of("networking.k8s.io", "v1", "Ingress", "ingresses"),
    Resource::of("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"),
    Resource::of("gateway.networking.k8s.io", "v1beta1", "HTTPRoute", "httproutes"),
    Resource::of("gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes"),
    Resource::of("gateway.networking.k8s.io", "v1", "TLSRoute", "tlsroutes"),
    Resource::of("gateway.networking.k8s.io", "v1alpha3", "TLSRoute", "tlsroutes"),
    Resource::of("gateway.networking.k8s.io", "v1alpha2", "TLSRoute", "tlsroutes"),
    Resource::of("gateway.networking.k8s.io", "v1", "TCPRoute", "tcproutes"),
    Resource::of("gateway.networking.k8s.io", "v1alpha2", "TCPRoute", "tcproutes"),
    Resource::of("apiregistration.k8s.io", "v1", "APIService", "apiservices"),
    Resource::of(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    Resource::of(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
];

/// Returns the kind of objects that send clients to Services by a name that kubectl takes, such as
/// `ingress`, `ing` or `httproutes`.
pub fn referrer_kind(word: &str) -> Option<&'static str> {
    let short = match word {
        "ing" => "ingresses",
        word => word,
    };
    let by_name = |it: &&Resource| it.plural == short || it.kind.to_lowercase() == short;
    RESOURCES.iter().find(by_name).map(|it| it.kind)
}

/// Returns the newest resource of a kind that sends clients to Services.
pub fn newest_resource(kind: &str) -> Option<Resource> {
    RESOURCES.into_iter().find(|it| it.kind == kind)
}

impl Reader {
    /// Reads the object in the newest version that the server has. Returns `None` if there is no
    /// such object, and an error if the server has no such kind.
    async fn newest(&self, of: &Referrer) -> Result<Option<Value>, ReadError> {
        let mut last = None;
        for resource in RESOURCES.into_iter().filter(|it| it.kind == of.kind) {
            match self.get(resource, &of.object.namespace, &of.object.name).await {
                Ok(found) => return Ok(found),
                Err(error) if says_not_there(&error) => last = Some(error),
                Err(error) => return Err(unread(of, &error)),
            }
        }
        let why = last.as_ref().map(why_request_failed).unwrap_or_default();
        Err(ReadError::NotFound(format!("the server has no {}: {why}", of.kind)))
    }

    /// Reads an object that sends clients to Services, and what explains each Service.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotFound`] if there is no such object or no such kind, and others if reading
    /// fails.
    pub async fn referrer(&self, of: &Referrer) -> Result<Reading, ReadError> {
        let Some(object) = self.newest(of).await? else {
            return Err(ReadError::NotFound(format!("there is no {of}")));
        };
        let mut reading = Reading::default();
        reading.objects.add(object)?;
        let mut services: Vec<ObjectKey> =
            reading.objects.references().map(|it| it.service.clone()).collect();
        services.dedup();
        if services.len() > SERVICES {
            let more = services.len() - SERVICES;
            reading.notes.push(format!("{more} more Services are not read."));
            services.truncate(SERVICES);
        }
        for service in &services {
            match self.service(service).await {
                Ok(other) => reading.extend(other),
                Err(ReadError::NotFound(_)) => self.names_near(&mut reading, service).await?,
                Err(error) => return Err(error),
            }
            if *service.namespace != *of.object.namespace && of.kind.ends_with("Route") {
                self.grants(&mut reading, &service.namespace).await?;
            }
        }
        Ok(reading)
    }

    /// Reads the names of the Services of a namespace: one of them may be meant.
    async fn names_near(&self, reading: &mut Reading, key: &ObjectKey) -> Result<(), ReadError> {
        let api = self.api(Resource::SERVICES, Some(&*key.namespace));
        let Ok(page) = api.list_metadata(&ListParams::default().limit(PAGE)).await else { return Ok(()) };
        for name in page.items.into_iter().filter_map(|item| item.metadata.name) {
            if reading.objects.service(&ObjectKey::new(&*key.namespace, &*name)).is_none() {
                let metadata = json!({"namespace": &*key.namespace, "name": name});
                reading.objects.add(json!({"kind": "Service", "metadata": metadata}))?;
            }
        }
        Ok(())
    }

    async fn grants(&self, reading: &mut Reading, namespace: &str) -> Result<(), ReadError> {
        for resource in GRANTS {
            match self.api(resource, Some(namespace)).list(&ListParams::default()).await {
                Ok(page) => {
                    let mut grants = page.items.iter().map(|it| crate::reader::json_of(resource, it));
                    return Ok(grants.try_for_each(|grant| reading.objects.add(grant))?);
                }
                Err(error) if says_not_there(&error) => {}
                Err(error) => {
                    let note = if is_forbidden(&error) { "You may not read" } else { "Nobody could read" };
                    reading.notes.push(format!("{note} {resource}: {}.", why_request_failed(&error)));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Reads and explains an object that sends clients to Services. `now` reads the current time.
    ///
    /// # Errors
    ///
    /// As [`Self::referrer`].
    pub async fn explain_referrer(
        &self,
        of: &Referrer,
        options: &Options,
        now: &(dyn Fn() -> kube_endpoint_core_model::Timestamp + Sync),
    ) -> Result<BackendsExplanation, ReadError> {
        let Reading { objects, mut notes, known, .. } = self.referrer(of).await?;
        notes.sort();
        notes.dedup();
        let options = options.clone().with_known(known);
        let explained = explain_backends(&objects, of, now(), &options);
        let explained =
            explained.ok_or_else(|| ReadError::Request(format!("the answer for {of} is another object")))?;
        Ok(explained.with_not_read(notes))
    }

    /// Reads all objects of a namespace, or of all, that send clients to Services. A kind that the
    /// server does not have, or that the user may not read, is left out.
    pub(crate) async fn referrers(
        &self,
        reading: &mut Reading,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        for kind in REFERRERS {
            let of_cluster = !kube_endpoint_explain::references::is_namespaced(kind);
            if of_cluster && namespace.is_some() {
                continue;
            }
            for resource in RESOURCES.into_iter().filter(|it| it.kind == kind) {
                let listed = self.add(&mut reading.objects, resource, namespace, ListParams::default()).await;
                match listed {
                    Err(crate::error::Failed::Request(error))
                        if says_not_there(&error) || is_forbidden(&error) => {}
                    listed => {
                        listed.map_err(|failed| failed.of(resource, namespace))?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

fn unread(of: &Referrer, error: &Error) -> ReadError {
    ReadError::Request(format!("{of} cannot be read: {}", why_request_failed(error)))
}

impl Reading {
    /// Adds another reading. A kind is known if both know it.
    fn extend(&mut self, other: Self) {
        let Self { objects, metadata: _, notes, known } = other;
        self.objects.extend(objects);
        self.notes.extend(notes);
        self.known = Known {
            pods: self.known.pods && known.pods,
            nodes: self.known.nodes && known.nodes,
            slices: self.known.slices && known.slices,
            endpoints: self.known.endpoints && known.endpoints,
            selectors: self.known.selectors && known.selectors,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_of_kubectl() {
        for (word, want) in [
            ("ingress", Some("Ingress")),
            ("ing", Some("Ingress")),
            ("ingresses", Some("Ingress")),
            ("httproute", Some("HTTPRoute")),
            ("apiservices", Some("APIService")),
            ("deployment", None),
            ("", None),
        ] {
            assert_eq!(referrer_kind(word), want, "{word}");
        }
        assert!(RESOURCES.iter().all(|it| REFERRERS.contains(&it.kind)));
    }
}

//! Reads an object that sends clients to Services, and what explains each Service.

use std::collections::BTreeSet;

use kube::Error;
use kube::api::ListParams;
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use kube_endpoint_explain::references::{REFERRERS, Reference, Referrer, is_namespaced};
use kube_endpoint_explain::{BackendsExplanation, Code, Options, explain_backends};
use serde_json::{Value, json};

use crate::explained::BETWEEN_READINGS;
use crate::{PAGE, ReadError, Reader, Reading, Resource, may_tell_more};

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
            match self.add_service(&mut reading, service).await {
                Err(ReadError::NotFound(_)) => self.names_near(&mut reading, service).await?,
                read => read?,
            }
        }
        let namespaces: BTreeSet<Text> = services.into_iter().map(|service| service.namespace).collect();
        for namespace in namespaces {
            self.policies(&mut reading, Some(&namespace)).await?;
            let needs_grant = |it: &Reference| it.needs_grant() && it.service.namespace == namespace;
            if reading.objects.references().any(needs_grant) {
                self.grants(&mut reading, Some(&namespace)).await?;
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

    /// Reads the ReferenceGrants of a namespace, or of all.
    async fn grants(&self, reading: &mut Reading, namespace: Option<&str>) -> Result<(), ReadError> {
        for resource in GRANTS {
            if self.add_optional(&mut reading.objects, resource, namespace).await? {
                return Ok(());
            }
        }
        reading.objects.note_grants_unread();
        let consequence = "It is not known which references from other namespaces are permitted.";
        reading.notes.push(format!("ReferenceGrants cannot be read. {consequence}"));
        Ok(())
    }

    /// Reads and explains an object that sends clients to Services, and reads once more if a write
    /// may be under way. `now` reads the current time.
    ///
    /// # Errors
    ///
    /// As [`Self::referrer`].
    pub async fn explain_referrer(
        &self,
        of: &Referrer,
        options: &Options,
        now: &(dyn Fn() -> Timestamp + Sync),
    ) -> Result<BackendsExplanation, ReadError> {
        let has = |explained: &BackendsExplanation, is_such: fn(Code) -> bool| {
            explained.to_do.iter().find(|it| is_such(it.advice.code)).map(|it| it.service.clone())
        };
        let explain = |reading: &Reading| {
            let options = options.clone().with_known(reading.known);
            explain_backends(&reading.objects, of, now(), &options)
                .ok_or_else(|| ReadError::Request(format!("the answer for {of} is another object")))
        };
        let mut reading = self.referrer(of).await?;
        let mut explained = explain(&reading)?;
        if self.reads_again && has(&explained, Code::may_be_under_way).is_some() {
            tokio::time::sleep(BETWEEN_READINGS).await;
            let gone = reading.objects.gone_pods();
            reading = self.referrer(of).await?;
            reading.objects.note_gone_before(gone);
            explained = explain(&reading)?;
        }
        if let Some(service) = has(&explained, may_tell_more) {
            self.signs(&mut reading.objects, &service).await;
            explained = explain(&reading)?;
        }
        reading.notes.sort();
        reading.notes.dedup();
        Ok(explained.with_not_read(reading.notes))
    }

    /// Reads all objects of a namespace, or of all, that send clients to Services. A kind that the
    /// server does not have, or that the user may not read, is left out.
    pub(crate) async fn referrers(
        &self,
        reading: &mut Reading,
        namespace: Option<&str>,
    ) -> Result<(), ReadError> {
        for kind in REFERRERS {
            if !is_namespaced(kind) && namespace.is_some() {
                continue;
            }
            for resource in RESOURCES.into_iter().filter(|it| it.kind == kind) {
                if self.add_optional(&mut reading.objects, resource, namespace).await? {
                    break;
                }
            }
        }
        // Without a namespace, these are all routes to the Services that were read.
        if namespace.is_none() && reading.objects.references().any(Reference::needs_grant) {
            self.grants(reading, None).await?;
        }
        Ok(())
    }
}

fn unread(of: &Referrer, error: &Error) -> ReadError {
    ReadError::Request(format!("{of} cannot be read: {}", why_request_failed(error)))
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

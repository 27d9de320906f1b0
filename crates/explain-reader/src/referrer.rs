//! Reads an object that sends clients to Services, and what explains each Service.

use std::collections::BTreeSet;

use kube::Error;
use kube::api::ListParams;
use kube_endpoint_api_client::{says_not_there, why_request_failed};
use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use kube_endpoint_explain::references::{GATEWAY, REFERRERS, Reference, Referrer, is_namespaced};
use kube_endpoint_explain::{BackendsExplanation, Code, Options, explain_backends, services_of};
use serde_json::{Value, json};

use crate::around::AROUND;
use crate::explained::BETWEEN_READINGS;
use crate::{PAGE, ReadError, Reader, Reading, Resource, may_tell_more};

/// The most Services of one object that are read.
const SERVICES: usize = 10;

const GRANTS: [Resource; 2] = [
    Resource::of("gateway.networking.k8s.io", "v1", "ReferenceGrant", "referencegrants"),
    Resource::of("gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "referencegrants"),
];

/// The resources of the kinds that send clients to Services, the newest version first.
pub(crate) const RESOURCES: [Resource; 12] = [
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

/// Returns the kind of objects that send clients to Services, or make their pods, by a name that
/// kubectl takes, such as `ingress`, `ing` or `deployments`.
pub fn referrer_kind(word: &str) -> Option<&'static str> {
    let name = match word {
        "cj" => "cronjobs",
        "deploy" => "deployments",
        "ds" => "daemonsets",
        "gtw" => "gateways",
        "ing" => "ingresses",
        "rs" => "replicasets",
        "sts" => "statefulsets",
        word => word,
    };
    let by_name = |it: &Resource| it.plural == name || it.kind.to_lowercase() == name;
    RESOURCES.into_iter().chain(AROUND).find(by_name).map(|it| it.kind)
}

/// Returns the newest resource of such a kind.
pub fn newest_resource(kind: &str) -> Option<Resource> {
    RESOURCES.into_iter().chain(AROUND).find(|it| it.kind == kind)
}

impl Reader {
    /// Reads the object in the newest version that the server has.
    async fn newest(&self, of: &Referrer) -> Result<Value, ReadError> {
        let mut last = None;
        for resource in RESOURCES.into_iter().chain(AROUND).filter(|it| it.kind == of.kind) {
            match self.get(resource, &of.object.namespace, &of.object.name).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => return Err(ReadError::NotFound(format!("there is no {of}"))),
                Err(error) if says_not_there(&error) => last = Some(error),
                Err(error) => return Err(unread(of, &error)),
            }
        }
        let why = last.as_ref().map(why_request_failed).unwrap_or_default();
        Err(ReadError::NotFound(format!("the server has no {}: {why}", of.kind)))
    }

    /// Reads an object that sends clients to Services, a Gateway or a workload, and what explains
    /// each Service.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotFound`] if there is no such object or no such kind, and others if reading
    /// fails.
    pub async fn referrer(&self, of: &Referrer) -> Result<Reading, ReadError> {
        let object = self.newest(of).await?;
        if of.is_workload() {
            return Box::pin(self.workload(of, object)).await;
        }
        if of.kind == GATEWAY {
            return self.gateway(of, object).await;
        }
        let mut reading = Reading::default();
        reading.objects.add(object)?;
        self.parents(&mut reading.objects).await?;
        let services = reading.objects.references().map(|it| it.service.clone()).collect();
        self.behind(&mut reading, services).await?;
        Ok(reading)
    }

    /// Reads what explains some Services, at most ten.
    pub(crate) async fn behind(
        &self,
        reading: &mut Reading,
        mut services: Vec<ObjectKey>,
    ) -> Result<(), ReadError> {
        services.dedup();
        let left_out = services.split_off(services.len().min(SERVICES));
        if !left_out.is_empty() {
            reading.notes.push(format!("{} more Services are not read.", left_out.len()));
        }
        left_out.into_iter().for_each(|service| reading.objects.note_unread_service(service));
        for service in &services {
            match self.add_service(reading, service).await {
                Err(ReadError::NotFound(_)) => self.names_near(reading, service).await?,
                Err(ReadError::NotInFiles(why)) => {
                    reading.notes.push(capital(&why));
                    reading.objects.note_unread_service(service.clone());
                }
                read => read?,
            }
        }
        let namespaces: BTreeSet<Text> = services.into_iter().map(|service| service.namespace).collect();
        for namespace in namespaces {
            self.policies(reading, Some(&namespace)).await?;
            let needs_grant = |it: &Reference| it.needs_grant() && it.service.namespace == namespace;
            if reading.objects.references().any(needs_grant) {
                self.grants(reading, Some(&namespace)).await?;
            }
        }
        Ok(())
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

    /// Reads and explains an object that sends clients to Services, a Gateway or a workload, and
    /// reads once more if a write may be under way. A Deployment, or a Rollout, stands for its
    /// ReplicaSets. `now` reads the current time.
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
        let maker = self.maker_of(of).await?;
        let of = maker.as_ref().unwrap_or(of);
        let has = |explained: &BackendsExplanation, is_such: fn(Code) -> bool| {
            explained.to_do.iter().find(|it| is_such(it.advice.code)).and_then(|it| it.service.clone())
        };
        let explain = |reading: &Reading| {
            let options = options.clone().with_known(reading.known);
            let explained = explain_backends(&reading.objects, of, now(), &options)
                .ok_or_else(|| ReadError::Request(format!("the answer for {of} is another object")))?;
            let of_namespace = reading.of_namespace.as_ref();
            let services = of_namespace.and_then(|objects| services_of(objects, of, options.known));
            Ok::<_, ReadError>(match services {
                Some(services) => explained.with_near(services),
                None => explained,
            })
        };
        let mut reading = Box::pin(self.referrer(of)).await?;
        let mut explained = explain(&reading)?;
        if self.reads_again && has(&explained, Code::may_be_under_way).is_some() {
            tokio::time::sleep(BETWEEN_READINGS).await;
            let gone = reading.objects.gone_pods();
            reading = Box::pin(self.referrer(of)).await?;
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
        self.parents(&mut reading.objects).await?;
        // Without a namespace, these are all routes to the Services that were read.
        if namespace.is_none() && reading.objects.references().any(Reference::needs_grant) {
            self.grants(reading, None).await?;
        }
        Ok(())
    }
}

/// Returns a text as a sentence.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
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
            ("deployment", Some("Deployment")),
            ("deploy", Some("Deployment")),
            ("sts", Some("StatefulSet")),
            ("ds", Some("DaemonSet")),
            ("rs", Some("ReplicaSet")),
            ("jobs", Some("Job")),
            ("cj", Some("CronJob")),
            ("rollout", Some("Rollout")),
            ("gateway", Some("Gateway")),
            ("configmap", None),
            ("", None),
        ] {
            assert_eq!(referrer_kind(word), want, "{word}");
        }
        assert!(RESOURCES.iter().all(|it| REFERRERS.contains(&it.kind)));
    }
}

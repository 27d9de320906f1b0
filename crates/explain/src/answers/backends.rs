//! Explains objects that send clients to Services: each backend, with the verdict on its Service.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::answers::explain::explain;
use crate::answers::explanation::{Advice, Explanation, ServiceVerdict, Status};
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::facts::references::{AskedPort, Reference, Referrer};
use crate::findings::finding::Problem;
use crate::findings::{BackendNotFound, Fault};
use crate::models::near::nearest_names;

/// The explanation of an object that sends clients to Services.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BackendsExplanation {
    pub of: Referrer,
    /// The worst status of the backends.
    pub status: Status,
    /// One sentence, without a full stop.
    pub message: String,
    pub backends: Vec<Backend>,
    /// The words of its controllers: conditions that are not met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<String>,
    /// The advice, the worst first, each with its Service.
    pub to_do: Vec<Advised>,
    /// Sentences about what could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// A Service to which the object sends clients.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// The clients: hosts and paths, rules or webhooks.
    pub routes: Vec<String>,
    pub service: ObjectKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<AskedPort>,
    pub verdict: ServiceVerdict,
}

/// An advice about a Service.
#[derive(Clone, Debug, Serialize)]
pub struct Advised {
    pub service: ObjectKey,
    #[serde(flatten)]
    pub advice: Advice,
}

/// Returns the references to Services that do not exist. `namespace` is the only one whose Services
/// are known, or `None` if all are.
pub(crate) fn without_service(objects: &Objects, namespace: Option<&str>) -> Vec<BackendNotFound> {
    let is_known = |it: &Reference| namespace.is_none_or(|namespace| *it.service.namespace == *namespace);
    let missing = objects.references().filter(|it| is_known(it) && objects.service(&it.service).is_none());
    missing.map(|reference| not_found(objects, reference)).collect()
}

fn not_found(objects: &Objects, reference: &Reference) -> BackendNotFound {
    let ObjectKey { namespace, name } = &reference.service;
    let of_namespace = objects.services().filter(|key| key.namespace == *namespace).map(|key| &*key.name);
    let elsewhere = objects.services().filter(|key| key.name == *name).map(|key| key.namespace.clone());
    BackendNotFound {
        reference: reference.clone(),
        similar: nearest_names(name, of_namespace).into_iter().map(Text::from).collect(),
        elsewhere: elsewhere.collect(),
    }
}

/// Explains an object that sends clients to Services. Returns `None` if it was not read.
pub fn explain_backends(
    objects: &Objects,
    of: &Referrer,
    now: Timestamp,
    options: &Options,
) -> Option<BackendsExplanation> {
    let (of, reported) = objects.referrers.get_key_value(of)?;
    let topology = objects.topology(options.slices.topology_node_tolerance);
    let mut backends: BTreeMap<(ObjectKey, Option<AskedPort>), Backend> = BTreeMap::new();
    let mut to_do: Vec<Advised> = Vec::new();
    for reference in objects.references().filter(|it| it.from == *of) {
        let key = (reference.service.clone(), reference.port.clone());
        if let Some(backend) = backends.get_mut(&key) {
            backend.routes.push(reference.route.clone());
            continue;
        }
        let explained = explain(objects, &reference.service, &topology, now, None, options);
        let (verdict, advice) = match explained {
            Some(explanation) => (of_reference(&explanation, reference), explanation.to_do),
            None => {
                let fault = not_found(objects, reference).into();
                (of_fault(&fault), vec![Advice::of_fault(&fault, &reference.service, true, 0)])
            }
        };
        if !backends.keys().any(|(service, _)| *service == reference.service) {
            let of_service = |advice| Advised { service: reference.service.clone(), advice };
            to_do.extend(advice.into_iter().map(of_service));
        }
        let Reference { route, service, port, .. } = reference.clone();
        backends.insert(key, Backend { routes: vec![route], service, port, verdict });
    }
    to_do.sort_by_key(|it| it.advice.rank());
    let backends: Vec<Backend> = backends.into_values().collect();
    let status = backends.iter().map(|it| it.verdict.status).max().unwrap_or(Status::NoEndpoints);
    let message = summary(&backends);
    let (of, reported, not_read) = (of.clone(), reported.clone(), Vec::new());
    Some(BackendsExplanation { of, status, message, backends, reported, to_do, not_read })
}

/// Returns the verdict on a Service for the clients of one reference.
fn of_reference(explanation: &Explanation, reference: &Reference) -> ServiceVerdict {
    let is_own = |fault: &&Fault| match fault {
        Fault::BackendPortNotFound(it) => it.reference == *reference,
        Fault::BackendNotPermitted(it) => it.reference == *reference,
        _ => false,
    };
    match explanation.faults.iter().find(is_own) {
        Some(fault) => of_fault(fault),
        None => explanation.verdict.clone(),
    }
}

/// Returns the verdict for clients whom a fault keeps from the Service.
fn of_fault(fault: &Fault) -> ServiceVerdict {
    ServiceVerdict {
        status: Status::Down,
        code: fault.code(),
        severity: fault.severity(),
        message: fault.to_string(),
    }
}

fn summary(backends: &[Backend]) -> String {
    let is_served = |backend: &&Backend| matches!(backend.verdict.status, Status::Ok | Status::Degraded);
    match (backends.len(), backends.iter().filter(is_served).count()) {
        (0, _) => "it sends clients to no Service".to_owned(),
        (all, served) if served == all => match all {
            1 => "its Service receives traffic".to_owned(),
            all => format!("its {all} Services receive traffic"),
        },
        (1, _) => "its Service receives no traffic".to_owned(),
        (all, served) => format!("{} of its {all} Services receive no traffic", all - served),
    }
}

impl BackendsExplanation {
    /// Sets [`not_read`](Self::not_read).
    pub fn with_not_read(self, not_read: Vec<String>) -> Self {
        Self { not_read, ..self }
    }

    /// Returns the exit code of a program that explains the object: 2 if the answer is not known,
    /// otherwise 0.
    pub fn exit_code(&self) -> u8 {
        if self.status == Status::Unknown { 2 } else { 0 }
    }
}

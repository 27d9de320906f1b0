//! Explains objects that send clients to Services: each backend, with the verdict on its Service.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::answers::explain::explain;
use crate::answers::explanation::{Advice, Explanation, ServiceVerdict, Status};
use crate::answers::links::{self, Link};
use crate::answers::near_services::{NearService, NotSelecting, ServicesOf, services_of};
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::facts::references::{AskedPort, GATEWAY, INGRESS, Reference, Referrer};
use crate::facts::workload::{Idle, IdleWorkload, Workload};
use crate::findings::evidence::Read;
use crate::findings::finding::Problem;
use crate::findings::{BackendNotFound, Code, Fault, NotAttached};
use crate::models::near::nearest_names;

/// The explanation of an object that sends clients to Services, of a Gateway, or of a workload
/// whose pods are behind Services.
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
    /// The reason why a workload makes no pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleWorkload>,
    /// Services that do not select the pods of a workload because of one label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearly: Vec<NearService>,
    /// Services whose EndpointSelector does not select the pods of a workload because of one
    /// requirement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_selecting: Vec<NotSelecting>,
    /// The words of its controllers: conditions that are not met.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<String>,
    /// The advice, the worst first, each with its Service.
    pub to_do: Vec<Advised>,
    /// Sentences about what could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

/// A Service to which the object sends clients, or that selects its pods.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backend {
    /// The clients: hosts and paths, rules or webhooks, and the objects that send them if these are
    /// others.
    pub routes: Vec<String>,
    pub service: ObjectKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<AskedPort>,
    pub verdict: ServiceVerdict,
}

/// An advice about a Service, or about the object itself.
#[derive(Clone, Debug, Serialize)]
pub struct Advised {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ObjectKey>,
    #[serde(flatten)]
    pub advice: Advice,
}

/// Returns the references to Services that do not exist. `namespace` is the only one whose Services
/// were read, or `None` if all were.
pub(crate) fn without_service(
    objects: &Objects,
    namespace: Option<&str>,
    options: &Options,
) -> Vec<BackendNotFound> {
    let is_known = |it: &Reference| {
        let of = &it.service.namespace;
        namespace.is_none_or(|namespace| **of == *namespace) && options.knows_services_of(of)
    };
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

/// Explains an object that sends clients to Services, a Gateway by the routes that name it, or a
/// workload by the Services that select its pods. Returns `None` if it was not read.
pub fn explain_backends(
    objects: &Objects,
    of: &Referrer,
    now: Timestamp,
    options: &Options,
) -> Option<BackendsExplanation> {
    let services = services_of(objects, of, options.known);
    let mut links = match &services {
        Some(services) => links::to(objects, &services.selecting),
        None => links::from(objects, of),
    };
    let all = links.len();
    links.retain(|link| !objects.raw.unread_services.contains(link.service));
    let are_unread = links.is_empty() && all > 0;
    let mut reported = match &services {
        Some(_) => Vec::new(),
        None => reported(objects, of)?,
    };
    let Behind { backends, own, mut to_do } = Behind::of(objects, links, now, options);
    let worst = backends.iter().map(|it| it.verdict.status).max().unwrap_or(Status::NoEndpoints);
    let (status, summary) = match of.is_workload() {
        _ if are_unread => (Status::Unknown, "what its clients get is not known".to_owned()),
        true => of_workload(&backends, &own),
        false => (worst, summary(objects, of, &backends, &own)),
    };
    let idle = objects.workload(of.kind, &of.object).and_then(Workload::why_idle);
    // It may have pods from before: the status that is missing does not tell.
    let idle = idle.filter(|idle| idle.idle != Idle::Unseen);
    let not_attached = NotAttached::all_of(objects, of, now);
    let (status, message) = match (&idle, &*not_attached) {
        (Some(idle), _) => (status, format!("{idle}; {summary}")),
        (None, []) => (status, summary),
        (None, [first, ..]) => (status.max(of_attachment(first)), format!("{first}; {summary}")),
    };
    reported.retain(|said| !not_attached.iter().any(|it| it.repeats(said)));
    to_do.sort_by_key(|it| it.advice.rank());
    let own = not_attached.into_iter().map(|it| {
        let read = Read::new(objects, &of.object);
        Advised { service: None, advice: Advice::of_fault(&it.into(), &read, true, 0) }
    });
    // Nobody gets further, whatever the Services do.
    to_do.splice(..0, own);
    let (nearly, not_selecting) =
        services.map_or_else(Default::default, |services| (services.nearly, services.not_selecting));
    let (of, not_read) = (of.clone(), Vec::new());
    Some(BackendsExplanation {
        of,
        status,
        message,
        backends,
        idle,
        nearly,
        not_selecting,
        reported,
        to_do,
        not_read,
    })
}

/// Returns the status of an object that is not attached. A controller may serve Ingresses of a
/// class that does not exist.
fn of_attachment(it: &NotAttached) -> Status {
    if it.is_partly || it.from.kind == INGRESS { Status::Degraded } else { Status::Down }
}

/// Returns what controllers report about an object, and about the routes that name a Gateway.
/// Returns `None` if the object was not read.
fn reported(objects: &Objects, of: &Referrer) -> Option<Vec<String>> {
    let own = objects.referrers.get(of)?;
    if of.kind != GATEWAY {
        return Some(own.clone());
    }
    let routes = objects.raw.routes.get(&of.object).into_iter().flatten();
    let all = std::iter::once(of).chain(routes).filter_map(|it| Some((it, objects.referrers.get(it)?)));
    let said = all.flat_map(|(it, said)| said.iter().map(move |said| format!("{it}: {said}")));
    Some(said.collect())
}

/// The Services at the end of ways.
struct Behind {
    /// One for all references to a port of a Service with one verdict.
    backends: Vec<Backend>,
    /// The states of the Services, whoever asks.
    own: BTreeMap<ObjectKey, Status>,
    to_do: Vec<Advised>,
}

impl Behind {
    fn of(objects: &Objects, links: Vec<Link<'_>>, now: Timestamp, options: &Options) -> Self {
        let topology = objects.topology();
        let mut explained: BTreeMap<&ObjectKey, Option<Explanation>> = BTreeMap::new();
        let mut backends: BTreeMap<(&ObjectKey, Option<AskedPort>, Code), Backend> = BTreeMap::new();
        let (mut own, mut to_do) = (BTreeMap::new(), Vec::new());
        for Link { service, reference, route } in links {
            let explanation = explained
                .entry(service)
                .or_insert_with(|| explain(objects, service, &topology, now, None, options));
            let (status, verdict, advice) = match (explanation, reference) {
                (Some(explanation), reference) => {
                    let verdict = of_reference(explanation, reference);
                    (explanation.verdict.status, verdict, std::mem::take(&mut explanation.to_do))
                }
                (None, Some(reference)) => {
                    let fault = not_found(objects, reference).into();
                    let advice = Advice::of_fault(&fault, &Read::new(objects, service), true, 0);
                    (Status::Down, of_fault(&fault), vec![advice])
                }
                (None, None) => continue,
            };
            if own.insert(service.clone(), status).is_none() {
                let of = |advice| Advised { service: Some(service.clone()), advice };
                to_do.extend(advice.into_iter().map(of));
            }
            let port = reference.and_then(|reference| reference.port.clone());
            let key = (service, port.clone(), verdict.code);
            let new = || Backend { routes: Vec::new(), service: service.clone(), port, verdict };
            backends.entry(key).or_insert_with(new).routes.extend(route);
        }
        Self { backends: backends.into_values().collect(), own, to_do }
    }
}

/// Returns the verdict on a Service for the clients of one reference, or for those that are not
/// known.
fn of_reference(explanation: &Explanation, reference: Option<&Reference>) -> ServiceVerdict {
    let is_own = |fault: &&Fault| match fault {
        Fault::BackendPortNotFound(it) => Some(&it.reference) == reference,
        Fault::BackendNotPermitted(it) => Some(&it.reference) == reference,
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

fn is_served(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Degraded)
}

/// Summarises the Services of a workload, and the ways to them.
fn of_workload(backends: &[Backend], own: &BTreeMap<ObjectKey, Status>) -> (Status, String) {
    let Some(worst) = own.values().max() else {
        return (Status::NoEndpoints, "no Service selects its pods".to_owned());
    };
    let summary = counted(own.values().copied(), "Services", Lost::All);
    let is_cut_off =
        |it: &&Backend| !is_served(it.verdict.status) && own.get(&it.service).copied().is_some_and(is_served);
    let cut_off: Vec<&String> = backends.iter().filter(is_cut_off).flat_map(|it| &it.routes).collect();
    match &*cut_off {
        [] => (*worst, summary),
        [one] => ((*worst).max(Status::Degraded), format!("{summary}, but not from {one}")),
        [first, rest @ ..] => {
            let more = format!("{summary}, but not from {first} and {} more", rest.len());
            ((*worst).max(Status::Degraded), more)
        }
    }
}

fn summary(
    objects: &Objects,
    of: &Referrer,
    backends: &[Backend],
    own: &BTreeMap<ObjectKey, Status>,
) -> String {
    if backends.is_empty() {
        return match of.kind {
            GATEWAY if !objects.raw.routes.contains_key(&of.object) => "no route names it",
            GATEWAY => "its routes send clients to no Service",
            _ => "it sends clients to no Service",
        }
        .to_owned();
    }
    let (aliases, backends): (Vec<_>, Vec<_>) =
        backends.iter().partition(|it| it.verdict.code == Code::ExternalName);
    if backends.is_empty() {
        return match &*aliases {
            [_] => "its Service is an alias of a DNS name",
            _ => "its Services are aliases of DNS names",
        }
        .to_owned();
    }
    let services: BTreeSet<_> = backends.iter().map(|it| &it.service).collect();
    let what = if services.len() == backends.len() { "Services" } else { "backends" };
    // Other clients are served.
    let is_cut_off =
        |it: &&Backend| !is_served(it.verdict.status) && own.get(&it.service).copied().is_some_and(is_served);
    let lost = if backends.iter().any(is_cut_off) { Lost::FromIt } else { Lost::All };
    counted(backends.iter().map(|it| it.verdict.status), what, lost)
}

/// The clients that backends lose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    All,
    /// Only those that the explained object sends.
    FromIt,
}

/// Says how many of some Services, or of the backends that are ports of them, receive traffic.
fn counted(statuses: impl Iterator<Item = Status>, what: &str, lost: Lost) -> String {
    let statuses: Vec<Status> = statuses.collect();
    let all = statuses.len();
    let served = statuses.iter().filter(|status| is_served(**status)).count();
    let unknown = statuses.iter().filter(|status| **status == Status::Unknown).count();
    let (own, receive) = match all {
        1 => ("its Service".to_owned(), "receives"),
        _ => (format!("its {all} {what}"), "receive"),
    };
    let of = |some: usize| if some == all { own.clone() } else { format!("{some} of {own}") };
    let nothing = match (lost, all) {
        (Lost::All, _) => format!("{receive} no traffic"),
        (Lost::FromIt, 1) => "gets no clients from it".to_owned(),
        (Lost::FromIt, _) => "get no clients from it".to_owned(),
    };
    match (unknown, all - served - unknown) {
        (0, 0) => format!("{own} {receive} traffic"),
        (0, lost) => format!("{} {nothing}", of(lost)),
        (unknown, 0) => format!("it is not known if {} {receive} traffic", of(unknown)),
        (unknown, lost) => format!("{} {nothing}, and of {unknown} more it is not known", of(lost)),
    }
}

impl BackendsExplanation {
    /// Sets [`not_read`](Self::not_read).
    pub fn with_not_read(self, not_read: Vec<String>) -> Self {
        Self { not_read, ..self }
    }

    /// Sets the Services that nearly select the pods of a workload, from all those of its
    /// namespace.
    pub fn with_near(self, services: ServicesOf) -> Self {
        let ServicesOf { nearly, not_selecting, .. } = services;
        Self { nearly, not_selecting, ..self }
    }

    /// Returns the exit code of a program that explains the object: 2 if the answer is not known,
    /// otherwise 0.
    pub fn exit_code(&self) -> u8 {
        if self.status == Status::Unknown { 2 } else { 0 }
    }
}

//! A targetPort is a number that containers of the pods do not declare.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::Service;
use kube_endpoint_core_model::service::{ServicePort, TargetPort};

use crate::facts::raw::Serving;
use crate::findings::evidence;
use crate::findings::inputs::ReadyPod;
use crate::findings::prelude::*;

about! {
    /// Kubernetes does not check the number: a container may listen on ports that it does not
    /// declare. So this is a finding only if each pod declares ports and none of them is this
    /// number, whatever their protocols are; if some pods declare only others; or if all declare it
    /// for another protocol than that of the Service's port. It is a warning if something else
    /// shows that clients are refused: all pods declare one port for clients only, to which no port
    /// of the Service leads, and no probe asks the targetPort; some pods are ready through a probe
    /// of another port, a Job owns a pod, or the protocols differ. A pod that declares several
    /// ports, such as a gateway, may listen on more, so then it is information.
    EP064 "port-not-declared" Info
    "A targetPort is a number that containers of the pods do not declare."
}

/// A port of the Service whose targetPort some pods do not declare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortNotDeclared {
    /// The port of the Service.
    pub port: i32,
    /// Its name, or empty.
    pub name: Text,
    /// Its targetPort.
    pub target: i32,
    /// The numbers of the container ports of these pods.
    pub declared: Vec<i32>,
    #[serde(flatten)]
    pub not_declared: NotDeclared,
}

/// The pods that do not declare a targetPort. Serialises with the tag `by`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum NotDeclared {
    /// No pod declares it.
    All {
        /// The only port for clients that all pods declare, if no port of the Service leads to it
        /// and no probe asks the targetPort.
        #[serde(skip_serializing_if = "Option::is_none")]
        only: Option<i32>,
    },
    /// Other pods of the Service declare it.
    Some {
        pods: Vec<Text>,
        /// The port through whose probe they are ready.
        #[serde(skip_serializing_if = "Option::is_none")]
        probed: Option<i32>,
    },
    /// These pods of a Job do not, and pods of other workloads do.
    Job { job: Text, pods: Vec<Text> },
    /// All declare it for another protocol only.
    Protocol { has: Text, wanted: Text },
}

impl Finding for PortNotDeclared {
    /// A container may listen on ports that it does not declare, so this asks for other signs
    /// before it warns.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let ready = inputs.ready_pods().map(Declarations::of);
        let ready = ready.as_ref();
        let of_ready = |ready| [by_some(inputs, ready), of_other_protocol(inputs, ready)].concat();
        [by_any(inputs, ready), ready.map(of_ready).unwrap_or_default()].concat()
    }

    /// It is a warning if something else than the missing declaration shows that clients are
    /// refused.
    fn severity(&self) -> Option<Severity> {
        match &self.not_declared {
            NotDeclared::All { only: Some(_) }
            | NotDeclared::Some { probed: Some(_), .. }
            | NotDeclared::Protocol { .. }
            | NotDeclared::Job { .. } => Some(Severity::Warning),
            _ => None,
        }
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.service(evidence::item(".spec.ports", "port", self.port, ".targetPort"), self.target)]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let target = self.target;
        match &self.not_declared {
            NotDeclared::All { only: None } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Nothing, if the pods listen on port {target}; else set the targetPort to the port on which they listen"
                ),
            ),
            NotDeclared::All { only: Some(only) } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Set the targetPort to {only}, if the pods listen there for these clients; if they listen on {target}, declare it on the container"
                ),
            ),
            NotDeclared::Some { pods, .. } => Remedy::ask(
                PodOwner,
                format!(
                    "Give the container port that serves these clients the same name in all pods, and set the targetPort to the name; if {} {} on {target}, too, declare it on the container",
                    names(pods),
                    if pods.len() == 1 { "listens" } else { "listen" }
                ),
            ),
            NotDeclared::Job { job, .. } => Remedy::ask(
                PodOwner,
                format!(
                    "Take a label that the Service selects out of the pod template of Job {job}, or add a label to spec.selector that only the serving pods have"
                ),
            ),
            NotDeclared::Protocol { has, wanted } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Nothing, if the pods listen on port {target} for {wanted}, too; else set the protocol of the Service's port to {has}"
                ),
            ),
        }
    }

    fn traffic_lost(&self) -> TrafficLost {
        if self.severity().is_some() { TrafficLost::Some } else { TrafficLost::None }
    }
}

impl fmt::Display for PortNotDeclared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, name, target, declared, not_declared } = self;
        let port = if name.is_empty() { format!("port {port}") } else { format!("port {port} ({name})") };
        let declared: Vec<Text> = declared.iter().map(|number| Text::from(number.to_string())).collect();
        let declared = names(&declared);
        let target_port = format!("{port} of the Service has the targetPort {target}");
        match not_declared {
            NotDeclared::All { only } => {
                write!(f, "{target_port}, and the containers of the pods declare only {declared}")?;
                only.iter().try_for_each(|_| write!(f, ", so clients are likely refused"))
            }
            NotDeclared::Some { pods, probed } => {
                let (pod, declare, are, refuse) = match pods.len() {
                    1 => ("pod", "declares", "it is", "refuses"),
                    _ => ("pods", "declare", "they are", "refuse"),
                };
                let pods = names(pods);
                write!(f, "{target_port}, which other pods declare; {pod} {pods} {declare} only {declared}")?;
                probed.iter().try_for_each(|probed| {
                    write!(f, "; {are} ready through a probe of port {probed}, so likely {refuse} clients")
                })
            }
            NotDeclared::Job { job, pods } => {
                let (pod, get, do_it) = match pods.len() {
                    1 => ("pod", "gets", "it does"),
                    _ => ("pods", "get", "they do"),
                };
                write!(
                    f,
                    "{pod} {} of Job {job} {get} clients of the Service, whose targetPort {target} other pods declare and {do_it} not",
                    names(pods)
                )
            }
            NotDeclared::Protocol { has, wanted } => write!(
                f,
                "{port} of the Service is for {wanted}, and the containers of the pods declare its targetPort {target} for {has} only"
            ),
        }
    }
}

impl PortNotDeclared {
    fn of(port: &ServicePort, target: i32, declared: Vec<i32>, not_declared: NotDeclared) -> Self {
        Self { port: port.port, name: port.name.clone(), target, declared, not_declared }
    }
}

/// The ports that the ready pods declare, by number: a Service may have as many ports as its pods.
struct Declarations<'a> {
    pods: Vec<ReadyPod<'a>>,
    /// The positions of the pods that declare a number, with any protocol.
    by_number: BTreeMap<i32, BTreeSet<usize>>,
    /// The protocols for which a number is declared.
    protocols: BTreeMap<i32, BTreeSet<&'a Text>>,
    /// The names of a number.
    names: BTreeMap<i32, BTreeSet<&'a Text>>,
    /// The numbers that probes ask.
    probed: BTreeSet<i32>,
}

impl<'a> Declarations<'a> {
    fn of(pods: Vec<ReadyPod<'a>>) -> Self {
        let (mut by_number, mut protocols, mut names, mut probed): (BTreeMap<_, BTreeSet<_>>, _, _, _) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        for (at, (_, serving)) in pods.iter().enumerate() {
            for port in serving.ports() {
                let number = port.container_port;
                by_number.entry(number).or_default().insert(at);
                protocols.entry(number).or_insert_with(BTreeSet::new).insert(&port.protocol);
                names.entry(number).or_insert_with(BTreeSet::new).insert(&port.name);
            }
            probed.extend(serving.containers.iter().filter_map(|it| it.probe));
        }
        Self { pods, by_number, protocols, names, probed }
    }

    /// Returns the only port for clients that all pods declare for a protocol.
    fn only(&self, protocol: &Text) -> Option<i32> {
        let only = |(_, serving): &ReadyPod<'_>| {
            let for_clients = serving.ports().filter(|it| it.protocol == *protocol && !is_internal(&it.name));
            let numbers: BTreeSet<i32> = for_clients.map(|it| it.container_port).collect();
            numbers.first().copied().filter(|_| numbers.len() == 1 && serving.declares_all())
        };
        let all: BTreeSet<i32> = self.pods.iter().map(only).collect::<Option<_>>()?;
        all.first().copied().filter(|_| all.len() == 1)
    }
}

/// Returns the target ports whose number no container of the pods declares. This says nothing if a
/// pod declares none; and most declare the wrong protocol, so it looks at the number alone.
fn by_any(inputs: &FaultInputs<'_>, ready: Option<&Declarations<'_>>) -> Vec<PortNotDeclared> {
    let mut declared: BTreeSet<i32> = BTreeSet::new();
    for pod in inputs.pods.iter().filter(|pod| !pod.is_terminal()) {
        if pod.ports.is_empty() {
            return Vec::new();
        }
        declared.extend(pod.ports.iter().map(|port| port.container_port));
    }
    if declared.is_empty() {
        return Vec::new();
    }
    let mut only_of: BTreeMap<&Text, Option<i32>> = BTreeMap::new();
    let not_declared = numbers(inputs.service).filter(|(_, number)| !declared.contains(number));
    let found = not_declared.map(|(port, number)| {
        let only = || only_port(inputs.service, ready?, &port.protocol);
        let only = only_of.entry(&port.protocol).or_insert_with(only).filter(|_| {
            // Operators do not declare the port of their metrics.
            let is_internal = is_internal(&port.name) || is_internal(&inputs.service.key.name);
            !is_internal && ready.is_some_and(|ready| !ready.probed.contains(&number))
        });
        let declared = declared.iter().copied().collect();
        PortNotDeclared::of(port, number, declared, NotDeclared::All { only })
    });
    found.collect()
}

/// Returns the only port for clients that all ready pods declare, if no port of the Service leads
/// to it: the targetPort is then likely wrong. A pod with several ports listens where its
/// configuration says, as gateways do.
fn only_port(service: &Service, ready: &Declarations<'_>, protocol: &Text) -> Option<i32> {
    let only = ready.only(protocol)?;
    let names = ready.names.get(&only);
    let is_led_to = service.ports.iter().any(|other| match &other.target_port {
        TargetPort::Number(other) => *other == only,
        TargetPort::Name(name) => names.is_some_and(|names| names.contains(name)),
    });
    (!is_led_to).then_some(only)
}

/// Returns true if a port or a Service with this name is not for the clients of a program.
fn is_internal(name: &str) -> bool {
    ["metric", "prom", "health", "probe", "ready", "live", "admin", "debug", "pprof", "status", "webhook"]
        .iter()
        .any(|word| name.contains(word))
}

/// Returns the target ports that some pods declare and others do not, if these declare others, or a
/// Job owns them.
fn by_some(inputs: &FaultInputs<'_>, ready: &Declarations<'_>) -> Vec<PortNotDeclared> {
    let mut found = Vec::new();
    for (port, target) in numbers(inputs.service) {
        let Some(with) = ready.by_number.get(&target).filter(|with| with.len() < ready.pods.len()) else {
            continue;
        };
        let is_served = |at: &usize| ready.pods.get(*at).is_some_and(|(_, serving)| job(serving).is_none());
        if !with.iter().any(is_served) {
            continue;
        }
        let without = ready.pods.iter().enumerate().filter(|(at, _)| !with.contains(at));
        let (of_jobs, others): (Vec<ReadyPod<'_>>, Vec<_>) =
            without.map(|(_, pod)| *pod).partition(|(_, serving)| job(serving).is_some());
        let jobs: BTreeSet<&Text> = of_jobs.iter().filter_map(|(_, serving)| job(serving)).collect();
        found.extend(jobs.into_iter().map(|name| {
            let own: Vec<_> =
                of_jobs.iter().filter(|(_, serving)| job(serving) == Some(name)).copied().collect();
            let of_job = NotDeclared::Job { job: name.clone(), pods: names_of(&own) };
            PortNotDeclared::of(port, target, declared(&own), of_job)
        }));
        let others: Vec<_> = others.into_iter().filter(|(_, it)| it.declares_all()).collect();
        if !others.is_empty() {
            let is_tcp = *port.protocol == *"TCP";
            let probed = others.iter().map(|(_, it)| it.probed_instead_of(target).filter(|_| is_tcp));
            let probed: Option<Vec<i32>> = probed.collect();
            let probed = probed.and_then(|all| all.first().copied());
            let of_others = NotDeclared::Some { pods: names_of(&others), probed };
            found.push(PortNotDeclared::of(port, target, declared(&others), of_others));
        }
    }
    found
}

/// Returns the ports whose number all pods that declare it declare for another protocol. A Service
/// that has the number for both protocols does so on purpose.
fn of_other_protocol(inputs: &FaultInputs<'_>, ready: &Declarations<'_>) -> Vec<PortNotDeclared> {
    let mut asked: BTreeMap<i32, usize> = BTreeMap::new();
    numbers(inputs.service).for_each(|(_, number)| *asked.entry(number).or_default() += 1);
    let mut found = Vec::new();
    for (port, target) in numbers(inputs.service) {
        let mut protocols = ready.protocols.get(&target).into_iter().flatten();
        let (Some(has), None) = (protocols.next(), protocols.next()) else { continue };
        let has_both = asked.get(&target).is_some_and(|ports| *ports > 1);
        // A probe shows that the container listens for TCP.
        let is_tcp = *port.protocol == *"TCP" && ready.probed.contains(&target);
        if has_both || **has == port.protocol || is_tcp {
            continue;
        }
        let protocol = NotDeclared::Protocol { has: (*has).clone(), wanted: port.protocol.clone() };
        found.push(PortNotDeclared::of(port, target, vec![target], protocol));
    }
    found
}

/// Returns the ports of the Service whose target is a number.
fn numbers(service: &Service) -> impl Iterator<Item = (&ServicePort, i32)> {
    service.ports.iter().filter_map(|port| match port.target_port {
        TargetPort::Number(number) => Some((port, number)),
        TargetPort::Name(_) => None,
    })
}

/// Returns the name of the Job that owns a pod.
fn job(serving: &Serving) -> Option<&Text> {
    serving.owner.as_ref().filter(|(kind, _)| **kind == *"Job").map(|(_, name)| name)
}

fn names_of(pods: &[ReadyPod<'_>]) -> Vec<Text> {
    pods.iter().map(|(pod, _)| pod.key.name.clone()).collect()
}

fn declared(pods: &[ReadyPod<'_>]) -> Vec<i32> {
    let ports = pods.iter().flat_map(|(_, serving)| serving.ports());
    let numbers: BTreeSet<i32> = ports.map(|port| port.container_port).collect();
    numbers.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_container_that_declares_nothing_may_listen_on_any_port() {
        let other = example("ep064-port-not-declared");
        assert!(other.finds(Code::PortNotDeclared));
        let silent = json!({"spec": {"containers": [{"name": "app", "image": "example.com/web"}]}});
        assert!(!other.with("Pod/web-1", silent).finds(Code::PortNotDeclared));
    }

    #[test]
    fn a_number_for_both_protocols_is_on_purpose() {
        let tcp = example("ep064-with-other-protocol");
        assert!(tcp.finds(Code::PortNotDeclared));
        let port =
            |protocol: &str| json!({"name": protocol, "port": 514, "targetPort": 514, "protocol": protocol});
        let both = json!({"spec": {"ports": [port("TCP"), port("UDP")]}});
        assert!(!tcp.with("Service/web", both).finds(Code::PortNotDeclared));
    }
}

//! Looks for ports that only some pods declare, that they declare for another protocol, or that
//! several containers name alike. A container may listen on ports that it does not declare, so
//! this asks for other signs before it warns.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::{Pod, Text};

use super::Looked;
use crate::Fault;
use crate::fault::{NotDeclared, OfContainer};
use crate::pod::Publication;
use crate::unviewed::Serving;

/// A pod that receives traffic, and its ports.
type Served<'a> = (&'a Arc<Pod>, &'a Serving);

impl Looked<'_> {
    /// Returns the pods that should receive traffic with their ports, or `None` if those of some
    /// are not known.
    fn ready_pods(&self) -> Option<Vec<Served<'_>>> {
        let ready = self.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let ready: BTreeSet<&Text> = ready.map(|pod| &pod.name).collect();
        let pods = self.pods.iter().filter(|pod| ready.contains(&pod.key.name));
        pods.map(|pod| Some((pod, self.objects.unviewed.serving(&pod.key)?))).collect()
    }

    /// Returns the sign that pods do not listen on a target port that no container declares. If
    /// another port of the Service leads to the probed port, the Service has both on purpose.
    pub(super) fn not_declared_by_all(&self, port: &ServicePort, number: i32) -> NotDeclared {
        let is_led_to = |serving: &Serving, probed: i32| {
            self.service.ports.iter().any(|other| match &other.target_port {
                TargetPort::Number(number) => *number == probed,
                TargetPort::Name(name) => {
                    serving.ports().any(|one| one.name == *name && one.container_port == probed)
                }
            })
        };
        let probed = |(_, serving): &Served<'_>| {
            let probed = serving.probed_instead_of(number)?;
            (!is_led_to(serving, probed)).then_some(probed)
        };
        let pods = self.ready_pods().filter(|_| *port.protocol == *"TCP").unwrap_or_default();
        let all: Option<Vec<i32>> = pods.iter().map(probed).collect();
        NotDeclared::All { probed: all.and_then(|all| all.first().copied()) }
    }

    /// Returns a fault for each target port that some pods declare and others do not, if these
    /// declare others, or a Job owns them.
    pub(super) fn ports_not_declared_by_some(&self) -> Vec<Fault> {
        let Some(pods) = self.ready_pods() else { return Vec::new() };
        let mut faults = Vec::new();
        for (port, target) in self.numbers() {
            let (with, without): (Vec<Served<'_>>, Vec<_>) =
                pods.iter().copied().partition(|(_, serving)| serving.declares(target));
            if with.iter().all(|(_, serving)| job(serving).is_some()) {
                continue;
            }
            let fault = |declared: Vec<i32>, not_declared| Fault::PortNotDeclared {
                port: port.port,
                name: port.name.clone(),
                target,
                declared,
                not_declared,
            };
            let (of_jobs, others): (Vec<_>, Vec<_>) =
                without.into_iter().partition(|(_, serving)| job(serving).is_some());
            let jobs: BTreeSet<&Text> = of_jobs.iter().filter_map(|(_, serving)| job(serving)).collect();
            faults.extend(jobs.into_iter().map(|name| {
                let own: Vec<_> =
                    of_jobs.iter().filter(|(_, serving)| job(serving) == Some(name)).copied().collect();
                fault(declared(&own), NotDeclared::Job { job: name.clone(), pods: names(&own) })
            }));
            let others: Vec<_> = others.into_iter().filter(|(_, it)| it.declares_all()).collect();
            if !others.is_empty() {
                let is_tcp = *port.protocol == *"TCP";
                let probed = others.iter().map(|(_, it)| it.probed_instead_of(target).filter(|_| is_tcp));
                let probed: Option<Vec<i32>> = probed.collect();
                let probed = probed.and_then(|all| all.first().copied());
                faults.push(fault(declared(&others), NotDeclared::Some { pods: names(&others), probed }));
            }
        }
        faults
    }

    /// Returns a fault for each TCP port whose number all pods that declare it declare for another
    /// protocol. Most declarations of TCP are omissions of another protocol, and a Service that has
    /// the number for both protocols does so on purpose.
    pub(super) fn ports_of_other_protocol(&self) -> Vec<Fault> {
        let Some(pods) = self.ready_pods() else { return Vec::new() };
        let mut faults = Vec::new();
        for (port, target) in self.numbers().into_iter().filter(|(port, _)| *port.protocol == *"TCP") {
            let of_number = |number: &TargetPort| *number == TargetPort::Number(target);
            let has_both = self.service.ports.iter().filter(|it| of_number(&it.target_port)).count() > 1;
            let is_probed = |serving: &Serving| serving.containers.iter().any(|it| it.probe == Some(target));
            let ports = pods.iter().flat_map(|(_, serving)| serving.ports());
            let protocols: BTreeSet<&Text> =
                ports.filter(|one| one.container_port == target).map(|one| &one.protocol).collect();
            let mut protocols = protocols.into_iter();
            let (Some(has), None) = (protocols.next(), protocols.next()) else { continue };
            if has_both || *has == port.protocol || pods.iter().any(|(_, serving)| is_probed(serving)) {
                continue;
            }
            faults.push(Fault::PortNotDeclared {
                port: port.port,
                name: port.name.clone(),
                target,
                declared: vec![target],
                not_declared: NotDeclared::Protocol { has: has.clone(), wanted: port.protocol.clone() },
            });
        }
        faults
    }

    /// Returns a fault for each name of a target port that several containers of a pod have, with
    /// different numbers. The first one counts.
    pub(super) fn ambiguous_names(&self) -> Vec<Fault> {
        let Some(pods) = self.ready_pods() else { return Vec::new() };
        let mut asked: Vec<(&Text, &Text)> = Vec::new();
        for port in &self.service.ports {
            if let TargetPort::Name(name) = &port.target_port
                && !asked.contains(&(name, &port.protocol))
            {
                asked.push((name, &port.protocol));
            }
        }
        let mut faults = Vec::new();
        for (name, protocol) in asked {
            let holders = |serving: &Serving| -> Vec<OfContainer> {
                let of = serving.containers.iter().flat_map(|container| {
                    let ports = container.ports.iter();
                    let own = ports.filter(|port| port.name == *name && port.protocol == *protocol);
                    own.map(|port| OfContainer {
                        container: container.name.clone(),
                        port: port.container_port,
                    })
                });
                of.collect()
            };
            let is_ambiguous = |holders: &[OfContainer]| match holders {
                [first, others @ ..] => others.iter().any(|it| it.port != first.port),
                [] => false,
            };
            let ambiguous: Vec<(&Arc<Pod>, Vec<OfContainer>)> = pods
                .iter()
                .map(|(pod, serving)| (*pod, holders(serving)))
                .filter(|(_, holders)| is_ambiguous(holders))
                .collect();
            let Some((_, all)) = ambiguous.first() else { continue };
            let Some((first, others)) = all.split_first() else { continue };
            faults.push(Fault::PortNameAmbiguous {
                name: name.clone(),
                first: first.clone(),
                others: others.to_vec(),
                pods: ambiguous
                    .iter()
                    .filter(|(_, it)| it == all)
                    .map(|(pod, _)| pod.key.name.clone())
                    .collect(),
            });
        }
        faults
    }

    /// Returns the ports of the Service whose target is a number.
    fn numbers(&self) -> Vec<(&ServicePort, i32)> {
        let ports = self.service.ports.iter();
        let numbers = ports.filter_map(|port| match port.target_port {
            TargetPort::Number(number) => Some((port, number)),
            TargetPort::Name(_) => None,
        });
        numbers.collect()
    }
}

/// Returns the name of the Job that owns a pod.
fn job(serving: &Serving) -> Option<&Text> {
    serving.owner.as_ref().filter(|(kind, _)| **kind == *"Job").map(|(_, name)| name)
}

fn names(pods: &[Served<'_>]) -> Vec<Text> {
    pods.iter().map(|(pod, _)| pod.key.name.clone()).collect()
}

fn declared(pods: &[Served<'_>]) -> Vec<i32> {
    let ports = pods.iter().flat_map(|(_, serving)| serving.ports());
    let numbers: BTreeSet<i32> = ports.map(|port| port.container_port).collect();
    numbers.into_iter().collect()
}

//! The programs that a selector takes in: the workloads of its pods, and the labels that tell them
//! apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::service::TargetPort;
use kube_endpoint_core_model::{Pod, Service, StringMap, Text};

use crate::facts::raw::{Serving, ServingContainer};
use crate::models::near::ROLLOUTS_HASH;

/// The labels that name a program, an installation and a part of it.
pub(crate) const NAMING: [&str; 3] =
    ["app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name"];

/// The names of labels that tell apart the releases of one program.
const TRACKS: [&str; 8] = ["version", "track", "color", "colour", "slot", "channel", "canary", "chart"];

/// The words with which names of one program's releases end.
const RELEASES: [&str; 9] =
    ["canary", "stable", "baseline", "primary", "preview", "active", "blue", "green", "next"];

/// Labels that controllers and the kubelet give to pods.
const GENERATED: [&str; 5] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "job-name",
    "controller-uid",
];

/// The prefixes of such labels. A pod gets the topology of its node with the binding.
const GENERATED_PREFIXES: [&str; 5] = [
    "statefulset.kubernetes.io/",
    "apps.kubernetes.io/",
    "batch.kubernetes.io/",
    "topology.kubernetes.io/",
    "openshift.io/",
];

const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod and what its containers declare.
pub(crate) type ServingPod<'a> = (&'a Arc<Pod>, &'a Serving);

/// Pods of one program: those of a workload, and of others that run the same.
#[derive(Debug)]
pub(crate) struct Program<'a> {
    /// Kind and name of each workload.
    pub(crate) workloads: BTreeSet<(Text, Text)>,
    pub(crate) pods: Vec<ServingPod<'a>>,
    /// The labels that all of its pods have, and none of the others.
    pub(crate) own: BTreeMap<Text, Text>,
    traits: BTreeSet<Traits>,
}

/// The properties of a pod that tell programs apart.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Traits {
    naming: [Option<String>; NAMING.len()],
    /// Name and repository of each container that serves the Service, or of all containers if none
    /// declares its ports.
    containers: BTreeSet<(String, String)>,
    /// True if a container declares a port to which the Service leads.
    declares: bool,
}

/// Returns the programs of these pods, if there are several and labels tell them apart, sorted by
/// their workloads.
///
/// The releases of one program are one: canaries, colours and versions. So are workloads whose
/// templates have the same labels, and the components that serve as peers behind a headless
/// Service, or that a label with the value `true` lets take part.
pub(crate) fn several<'a>(
    service: &Service,
    selector: Option<&StringMap>,
    pods: &[ServingPod<'a>],
) -> Vec<Program<'a>> {
    // Pods with the same owner share what their containers declare.
    let is_first = |(_, serving): &ServingPod<'_>| {
        let first = pods.first().map(|(_, first)| *first);
        serving.owner.is_some() && first.is_some_and(|first| std::ptr::eq(first, *serving))
    };
    if pods.iter().all(is_first) {
        return Vec::new();
    }
    let mut workloads: BTreeMap<(Text, Text), Vec<ServingPod<'a>>> = BTreeMap::new();
    for (pod, serving) in pods {
        workloads.entry(workload(pod, serving)).or_default().push((pod, serving));
    }
    let opts_in = selector.is_some_and(|selector| selector.iter().any(|(_, value)| **value == *"true"));
    if workloads.len() < 2 || opts_in {
        return Vec::new();
    }
    let mut programs: Vec<Program<'a>> = Vec::new();
    for (workload, pods) in workloads {
        let traits: BTreeSet<Traits> =
            pods.iter().map(|(pod, serving)| Traits::of(service, pod, serving)).collect();
        let runs_these = |program: &&mut Program<'_>| {
            let all = program.traits.iter().flat_map(|one| traits.iter().map(move |other| (one, other)));
            all.into_iter().any(|(one, other)| one.is_alike(other, service.is_headless()))
        };
        match programs.iter_mut().find(runs_these) {
            Some(program) => {
                program.workloads.insert(workload);
                program.pods.extend(pods);
                program.traits.extend(traits);
            }
            None => programs.push(Program {
                workloads: BTreeSet::from([workload]),
                pods,
                own: BTreeMap::new(),
                traits,
            }),
        }
    }
    let own: Vec<BTreeMap<Text, Text>> = (0..programs.len()).map(|at| own_labels(&programs, at)).collect();
    if programs.len() < 2 || own.iter().all(BTreeMap::is_empty) {
        return Vec::new();
    }
    programs.iter_mut().zip(own).for_each(|(program, own)| program.own = own);
    programs
}

/// Returns the position of the program that the Service is for: its labels say so, or its name, or
/// only this program declares its ports.
pub(crate) fn meant(service: &Service, programs: &[Program<'_>]) -> Option<usize> {
    let only = |is: &dyn Fn(&Program<'_>) -> bool| {
        let mut all = programs.iter().enumerate().filter(|(_, program)| is(program)).map(|(at, _)| at);
        all.next().filter(|_| all.next().is_none())
    };
    let told =
        || service.labels.iter().filter(|(key, _)| programs.iter().any(|it| it.own.contains_key(*key)));
    let has_labels = |program: &Program<'_>| {
        let has = |(key, value): (&Text, &Text)| {
            program.pods.iter().all(|(pod, _)| pod.labels.get(key) == Some(value))
        };
        told().next().is_some() && told().all(has)
    };
    let name = &service.key.name;
    let has_name = |program: &Program<'_>| {
        program.workloads.iter().any(|(_, it)| it == name) || program.own.values().any(|it| it == name)
    };
    let declares = |program: &Program<'_>| program.traits.iter().any(|one| one.declares);
    only(&has_labels).or_else(|| only(&has_name)).or_else(|| only(&declares))
}

/// Returns kind and name of the workload that makes a pod, or `None` if none does.
pub(crate) fn workload_of(pod: &Pod, serving: &Serving) -> Option<(Text, Text)> {
    Some(workload(pod, serving)).filter(|(kind, _)| **kind != *"Pod")
}

/// Returns kind and name of the workload of a pod. A pod that nobody makes again is its own.
fn workload(pod: &Pod, serving: &Serving) -> (Text, Text) {
    let label = |key: &str| pod.labels.get(key);
    let Some((kind, name)) = &serving.owner else { return ("Pod".into(), pod.key.name.clone()) };
    let without = |end: Option<&Text>| Some(name.strip_suffix(&**end?)?.strip_suffix('-')?.into());
    let of = match &**kind {
        "ReplicaSet" => {
            let deployment = without(label(POD_TEMPLATE_HASH)).map(|name| ("Deployment", name));
            deployment.or_else(|| without(label(ROLLOUTS_HASH)).map(|name| ("Rollout", name)))
        }
        "ReplicationController" => label("deploymentconfig").map(|name| ("DeploymentConfig", name.clone())),
        // A CronJob adds the minute of the schedule.
        "Job" => name.rsplit_once('-').and_then(|(stem, minute)| {
            let is_time = minute.len() >= 8 && minute.bytes().all(|c| c.is_ascii_digit());
            is_time.then(|| ("CronJob", stem.into()))
        }),
        "Node" => Some(("Pod", pod.key.name.clone())),
        _ => None,
    };
    of.map_or_else(|| (kind.clone(), name.clone()), |(kind, name)| (kind.into(), name))
}

impl Traits {
    fn of(service: &Service, pod: &Pod, serving: &Serving) -> Self {
        let releases: Vec<&str> =
            pod.labels.iter().filter(|(key, _)| is_track(key)).map(|(_, it)| &**it).collect();
        let serves = |container: &&ServingContainer| {
            container.ports.iter().any(|port| {
                service.ports.iter().any(|wanted| match &wanted.target_port {
                    TargetPort::Name(name) => *name == port.name,
                    TargetPort::Number(number) => *number == port.container_port,
                })
            })
        };
        let declares = serving.containers.iter().any(|it| serves(&it));
        let containers = serving.containers.iter().filter(|it| !declares || serves(it));
        Self {
            naming: NAMING.map(|key| pod.labels.get(key).map(|value| program_name(value, &releases))),
            containers: containers
                .map(|it| (program_name(&it.name, &releases), program_name(it.repository(), &releases)))
                .collect(),
            declares,
        }
    }

    /// Returns true if two pods run the same program.
    fn is_alike(&self, other: &Self, is_headless: bool) -> bool {
        let differs = |(at, (one, other)): (usize, (&Option<String>, &Option<String>))| {
            // The components of a headless Service are peers.
            let is_peer = is_headless && at == 0;
            !is_peer && one.is_some() && other.is_some() && one != other
        };
        let is_same = |one: &(String, String)| {
            other.containers.iter().any(|other| one.0 == other.0 && is_same_repository(&one.1, &other.1))
        };
        !self.naming.iter().zip(&other.naming).enumerate().any(differs) && self.containers.iter().any(is_same)
    }
}

/// Returns true if a label tells apart the releases of one program.
fn is_track(label: &str) -> bool {
    let name = label.rsplit('/').next().unwrap_or(label);
    TRACKS.contains(&name)
}

fn is_generated(label: &str) -> bool {
    GENERATED.contains(&label)
        || label == ROLLOUTS_HASH
        || GENERATED_PREFIXES.iter().any(|prefix| label.starts_with(prefix))
}

/// Returns a name without the release at its end, such as `web` of `web-canary` and `web-v2`.
fn program_name(name: &str, releases: &[&str]) -> String {
    let Some((stem, end)) = name.rsplit_once('-') else { return name.to_owned() };
    let number = end.strip_prefix('v').unwrap_or_default();
    let is_version = !number.is_empty() && number.bytes().all(|c| c.is_ascii_digit());
    if is_version || RELEASES.contains(&end) || releases.contains(&end) {
        return stem.to_owned();
    }
    name.to_owned()
}

/// Returns true if two repositories hold one image: a mirror puts its own names before. An image
/// that is not known may be any.
fn is_same_repository(one: &str, other: &str) -> bool {
    if one.is_empty() || other.is_empty() {
        return true;
    }
    let path = |repository: &str| match repository.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => rest.to_owned(),
        _ => repository.to_owned(),
    };
    let (one, other) = (format!("/{}", path(one)), format!("/{}", path(other)));
    one.ends_with(&other) || other.ends_with(&one)
}

/// Returns the labels that all pods of a program have, and no pod of the others.
fn own_labels(programs: &[Program<'_>], at: usize) -> BTreeMap<Text, Text> {
    let Some(program) = programs.get(at) else { return BTreeMap::new() };
    let has = |pod: &Pod, (key, value): &(&Text, &Text)| pod.labels.get(key) == Some(value);
    let others = || {
        let others = programs.iter().enumerate().filter(|(other, _)| *other != at);
        others.flat_map(|(_, other)| &other.pods)
    };
    let first = program.pods.first().map(|(pod, _)| pod.labels.iter());
    let candidates = first.into_iter().flatten().filter(|(key, _)| !is_generated(key) && !is_track(key));
    let own = candidates.filter(|label| {
        program.pods.iter().all(|(pod, _)| has(pod, label)) && !others().any(|(pod, _)| has(pod, label))
    });
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_at_the_end_of_a_name_does_not_count() {
        for (name, releases, want) in [
            ("web", &[][..], "web"),
            ("web-canary", &[], "web"),
            ("web-v12", &[], "web"),
            ("web-2", &[], "web-2"),
            ("web-2", &["2"], "web"),
            ("web-worker", &[], "web-worker"),
        ] {
            assert_eq!(program_name(name, releases), want, "{name}");
        }
    }

    #[test]
    fn a_mirror_holds_the_same_image() {
        for (one, other, want) in [
            ("nginx", "registry.example.com/library/nginx", true),
            ("registry.example.com/web", "localhost:5000/apps/web", true),
            ("registry.example.com/web", "registry.example.com/my-web", false),
            ("shop/web", "shop/worker", false),
            ("shop/web", "", true),
        ] {
            assert_eq!(is_same_repository(one, other), want, "{one} {other}");
        }
    }
}

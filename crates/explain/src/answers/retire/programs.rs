//! Programs that are known: those whose requests for Endpoints do not count, and those that read
//! Endpoints by their configuration.

use std::collections::BTreeSet;

use super::evidence::EvidenceKind;

/// The ServiceAccounts of the controllers of kube-controller-manager that ask for Endpoints.
const CONTROLLERS: [&str; 5] = [
    "endpoint-controller",
    "endpointslicemirroring-controller",
    "generic-garbage-collector",
    "namespace-controller",
    "resourcequota-controller",
];
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const MANAGER: &str = "kube-endpoint-manager";
const PLUGIN: &str = "kubectl-endpoints";
const API_SERVER: &str = "kube-apiserver";

pub(super) const PROMETHEUS_REMEDY: &str = "Set `role: endpointslice` in its kubernetes_sd_configs, with relabelling by \
     __meta_kubernetes_endpointslice_ labels, and let it get, list and watch endpointslices.discovery.k8s.io.";

/// The users of programs whose requests do not count.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Those of the pods of kube-endpoint-manager.
    pub(super) managers: BTreeSet<String>,
}

impl Known {
    /// Returns the program that sent a request, if its requests for Endpoints do not count.
    pub(super) fn of_request(&self, user: &str, agent: &str) -> Option<&'static str> {
        let program = agent.split('/').next().unwrap_or_default();
        if user == "system:apiserver" {
            Some(API_SERVER)
        } else if program == CONTROLLER_MANAGER || is_controller(user) {
            Some(CONTROLLER_MANAGER)
        } else if program == MANAGER || agent.is_empty() && self.managers.contains(user) {
            // Before its lists and watches had a user agent.
            Some(MANAGER)
        } else if program == PLUGIN {
            Some(PLUGIN)
        } else {
            None
        }
    }

    /// Returns true if a user is one of kube-controller-manager or kube-endpoint-manager.
    pub(super) fn is_user(&self, user: &str) -> bool {
        is_controller(user) || self.managers.contains(user)
    }
}

fn is_controller(user: &str) -> bool {
    let account = user.strip_prefix("system:serviceaccount:kube-system:");
    user == "system:kube-controller-manager" || account.is_some_and(|account| CONTROLLERS.contains(&account))
}

/// Returns what to do about a client with a user agent.
pub(super) fn remedy_for_agent(agent: &str) -> &'static str {
    match agent.split('/').next().unwrap_or_default() {
        "Prometheus" => PROMETHEUS_REMEDY,
        "kubectl" => "Use `kubectl get endpointslices -l kubernetes.io/service-name=NAME`.",
        "coredns" => "Update CoreDNS to 1.8.3 or later.",
        "kube-dns" => "Replace kube-dns by CoreDNS.",
        _ => "Ask its owner for a version, or a setting, that reads EndpointSlices.",
    }
}

/// A program that uses Endpoints, by the image and the arguments of its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    KubeDns,
    CoreDns,
    /// CoreDNS whose version is not known.
    SomeCoreDns,
    AwsLoadBalancerController,
    Patroni,
    AwaitElection,
    /// Prometheus. Its configuration tells what it reads.
    Prometheus,
    PrometheusOperator,
}

/// A container of a pod.
pub(super) struct Container<'p> {
    pub(super) image: &'p str,
    pub(super) arguments: Vec<&'p str>,
    /// Environment variables with their values; empty where another object has the value.
    pub(super) environment: Vec<(&'p str, &'p str)>,
}

impl Container<'_> {
    /// Returns the program.
    pub(super) fn program(&self) -> Option<Program> {
        let (name, tag) = name_and_tag(self.image);
        if self.awaits_election(name) {
            return Some(Program::AwaitElection);
        }
        if self.is_patroni(name) {
            return Some(Program::Patroni);
        }
        match without_mirror(name) {
            "k8s-dns-kube-dns" | "k8s-dns-kube-dns-amd64" | "kubedns-amd64" | "kube-dns" => {
                Some(Program::KubeDns)
            }
            "coredns" => match version(tag) {
                Some(version) if version >= [1, 8, 3] => None,
                Some(_) => Some(Program::CoreDns),
                None => Some(Program::SomeCoreDns),
            },
            "aws-load-balancer-controller" | "aws-alb-ingress-controller" => {
                (!self.has_set("enable-endpoint-slices")).then_some(Program::AwsLoadBalancerController)
            }
            "prometheus" => Some(Program::Prometheus),
            "prometheus-operator" => Some(Program::PrometheusOperator),
            _ => None,
        }
    }

    fn awaits_election(&self, name: &str) -> bool {
        let is_program = |path: &&str| path.rsplit('/').next() == Some("k8s-await-election");
        name == "k8s-await-election"
            || self.arguments.first().is_some_and(is_program)
            || self.variable("K8S_AWAIT_ELECTION_ENABLED").is_some()
    }

    /// Returns true for Patroni that keeps its leader in Endpoints.
    fn is_patroni(&self, name: &str) -> bool {
        // Spilo uses Endpoints unless it is told to use ConfigMaps.
        let is_spilo = name.starts_with("spilo") && !self.is_true("KUBERNETES_USE_CONFIGMAPS");
        let configured = ["PATRONI_CONFIGURATION", "SPILO_CONFIGURATION"];
        let configured = configured.iter().filter_map(|name| self.variable(name)).any(|text| {
            text.lines().any(|line| {
                let mut words =
                    line.split([':', ' ', '"', '\'', ',', '{', '}']).filter(|word| !word.is_empty());
                words.any(|word| word == "use_endpoints") && words.next() == Some("true")
            })
        });
        is_spilo || configured || self.is_true("PATRONI_KUBERNETES_USE_ENDPOINTS")
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn is_true(&self, name: &str) -> bool {
        let value = self.variable(name).map(str::to_ascii_lowercase);
        value.is_some_and(|value| ["true", "on", "yes", "1"].contains(&&*value))
    }

    /// Returns true if a boolean flag is set.
    fn has_set(&self, flag: &str) -> bool {
        let mut values = self.arguments.iter().filter_map(|argument| {
            let argument = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
            argument.strip_prefix(flag)
        });
        // The last one counts.
        let value = values.rfind(|rest| rest.is_empty() || rest.starts_with('='));
        value.is_some_and(|value| matches!(value, "" | "=true" | "=TRUE" | "=True" | "=t" | "=T" | "=1"))
    }
}

/// Returns the last part of the name of an image, and its tag.
fn name_and_tag(image: &str) -> (&str, &str) {
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').unwrap_or((last, ""))
}

/// Returns the name of the original of an image such as `mirrored-coredns-coredns`.
fn without_mirror(name: &str) -> &str {
    let originals =
        ["k8s-dns-kube-dns", "coredns", "aws-load-balancer-controller", "prometheus-operator", "prometheus"];
    let is_copy = |original: &&str| {
        name.strip_suffix(*original).is_some_and(|rest| rest.starts_with("mirrored-") && rest.ends_with('-'))
    };
    originals.into_iter().find(is_copy).unwrap_or(name)
}

/// Returns the version in a tag such as `v1.8.0-eksbuild.1`.
fn version(tag: &str) -> Option<[u32; 3]> {
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    let mut numbers = tag.split(['.', '-', '+', '_']).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok);
    let (major, minor) = (next()?, next()?);
    Some([major, minor, next().unwrap_or_default()])
}

impl Program {
    /// Returns true if it reads Endpoints of all namespaces, not just of its own.
    pub(super) fn is_of_cluster(self) -> bool {
        !matches!(self, Self::Patroni | Self::AwaitElection)
    }

    pub(super) fn kind(self) -> EvidenceKind {
        match self {
            Self::KubeDns | Self::CoreDns | Self::AwsLoadBalancerController | Self::Patroni => {
                EvidenceKind::Reader
            }
            Self::AwaitElection => EvidenceKind::Writer,
            Self::SomeCoreDns => EvidenceKind::Possible,
            Self::Prometheus | Self::PrometheusOperator => EvidenceKind::Note,
        }
    }

    /// Returns the reason why it counts, and what to do.
    pub(super) fn says(self) -> (&'static str, &'static str) {
        match self {
            Self::KubeDns => ("kube-dns makes its answers from Endpoints", "Replace kube-dns by CoreDNS."),
            Self::CoreDns => (
                "CoreDNS before 1.8.3 may make its answers from Endpoints",
                "Update CoreDNS to 1.8.3 or later.",
            ),
            Self::SomeCoreDns => (
                "CoreDNS, whose image does not tell its version, reads Endpoints if it is older than 1.8.3",
                "Find out its version: `coredns -version`.",
            ),
            Self::AwsLoadBalancerController => (
                "The AWS load balancer controller reads Endpoints: it does not have --enable-endpoint-slices",
                "Set --enable-endpoint-slices (enableEndpointSlices: true of its chart).",
            ),
            Self::Patroni => (
                "Patroni keeps its leader in Endpoints (use_endpoints)",
                "Let Patroni use ConfigMaps, as its documentation describes, and select the leader by its label. Its Endpoints \
                 stay until then.",
            ),
            Self::AwaitElection => (
                "k8s-await-election writes the Endpoints of a Service",
                "Select the leader with an EndpointSelector, by a pod condition or a Lease (docs/leader.md).",
            ),
            Self::Prometheus => ("Prometheus runs", ""),
            Self::PrometheusOperator => ("prometheus-operator runs", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(image: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Option<Program> {
        Container { image, arguments: arguments.to_vec(), environment: environment.to_vec() }.program()
    }

    #[test]
    fn programs_are_known_by_image_arguments_and_environment() {
        for (image, want) in [
            ("registry.k8s.io/dns/k8s-dns-kube-dns:1.23.1", Some(Program::KubeDns)),
            ("registry.k8s.io/dns/k8s-dns-node-cache:1.23.1", None),
            ("registry.k8s.io/dns/k8s-dns-dnsmasq-nanny:1.23.1", None),
            ("coredns/coredns:1.8.2", Some(Program::CoreDns)),
            ("registry:5000/coredns:v1.7.0-eksbuild.1", Some(Program::CoreDns)),
            ("registry.k8s.io/coredns/coredns:v1.8.3", None),
            ("registry.k8s.io/coredns/coredns:v1.12.1@sha256:00", None),
            ("coredns@sha256:00", Some(Program::SomeCoreDns)),
            ("coredns:latest", Some(Program::SomeCoreDns)),
            ("quay.io/prometheus/prometheus:v3.5.0", Some(Program::Prometheus)),
            ("quay.io/prometheus-operator/prometheus-operator:v0.85.0", Some(Program::PrometheusOperator)),
            ("quay.io/prometheus/node-exporter:v1", None),
            ("ghcr.io/zalando/spilo-17:4.0", Some(Program::Patroni)),
            ("rancher/mirrored-coredns-coredns:1.8.0", Some(Program::CoreDns)),
            ("rancher/mirrored-prometheus-prometheus:v3", Some(Program::Prometheus)),
            (
                "rancher/mirrored-prometheus-operator-prometheus-operator:v1",
                Some(Program::PrometheusOperator),
            ),
            ("rancher/mirrored-prometheus-node-exporter:v1", None),
            ("example/to-prometheus:v1", None),
            ("", None),
        ] {
            assert_eq!(program(image, &[], &[]), want, "{image}");
        }
        let controller = "public.ecr.aws/eks/aws-load-balancer-controller:v2.13.4";
        for (arguments, is_reader) in [
            (&["--cluster-name=c"][..], true),
            (&["--enable-endpoint-slices"], false),
            (&["--enable-endpoint-slices=true"], false),
            (&["--enable-endpoint-slices=false"], true),
            (&["--enable-endpoint-slices", "--enable-endpoint-slices=false"], true),
            (&["--enable-endpoint-slices-not"], true),
        ] {
            assert_eq!(program(controller, arguments, &[]).is_some(), is_reader, "{arguments:?}");
        }
        for (environment, want) in [
            (("PATRONI_KUBERNETES_USE_ENDPOINTS", "true"), Some(Program::Patroni)),
            (("PATRONI_KUBERNETES_USE_ENDPOINTS", "False"), None),
            (("PATRONI_CONFIGURATION", "kubernetes:\n  use_endpoints: true\n"), Some(Program::Patroni)),
            (
                ("PATRONI_CONFIGURATION", "{\"kubernetes\": {\"use_endpoints\": true}}"),
                Some(Program::Patroni),
            ),
            (("PATRONI_CONFIGURATION", "kubernetes:\n  use_endpoints: false\n  bypass: true\n"), None),
            (("K8S_AWAIT_ELECTION_ENABLED", "1"), Some(Program::AwaitElection)),
        ] {
            assert_eq!(program("example/db:1", &[], &[environment]), want, "{environment:?}");
        }
        assert_eq!(
            program("ghcr.io/zalando/spilo-17:4.0", &[], &[("KUBERNETES_USE_CONFIGMAPS", "true")]),
            None
        );
        assert_eq!(
            program("example/db:1", &["/usr/bin/k8s-await-election", "db"], &[]),
            Some(Program::AwaitElection)
        );
    }

    #[test]
    fn requests_of_controllers_do_not_count_and_names_that_look_like_theirs_do() {
        let known = Known { managers: ["system:serviceaccount:kem:kem".to_owned()].into() };
        let account = |name: &str| format!("system:serviceaccount:{name}");
        for (user, agent, want) in [
            ("system:kube-controller-manager", "k3s/v1", Some("kube-controller-manager")),
            ("admin", "kube-controller-manager/v1.36.2 (linux/amd64)", Some("kube-controller-manager")),
            (&account("kube-system:endpoint-controller"), "", Some("kube-controller-manager")),
            (&account("shop:endpoint-controller"), "", None),
            (&account("kube-system:attachdetach-controller"), "", None),
            (&account("kem:kem"), "", Some("kube-endpoint-manager")),
            (&account("kem:kem"), "another-program/1", None),
            ("jane", "", None),
            ("jane", "kubectl-endpoints/0.1", Some("kubectl-endpoints")),
            ("jane", "kubectl/v1.36", None),
            ("system:apiserver", "kube-apiserver/v1", Some("kube-apiserver")),
            ("jane", "kube-apiserver/v1", None),
            ("jane", "kube-controller-manager-2/v1", None),
        ] {
            assert_eq!(known.of_request(user, agent), want, "{user} {agent}");
        }
    }
}

//! The projects whose bugs have rows.

/// A project on GitHub.
#[derive(Clone, Copy)]
pub(super) struct Project {
    /// The name in tests, where a dash cannot be.
    word: &'static str,
    pub(super) name: &'static str,
    pub(super) repository: &'static str,
    /// The part of it that the reports are about.
    pub(super) part: &'static str,
}

const fn project(
    word: &'static str,
    name: &'static str,
    repository: &'static str,
    part: &'static str,
) -> Project {
    Project { word, name, repository, part }
}

/// In the order of the page.
pub(super) const PROJECTS: [Project; 17] = [
    project(
        "kubernetes",
        "kubernetes",
        "kubernetes/kubernetes",
        "the endpoints, endpointslice and mirroring controllers and client-go, from 1.0 to 1.37",
    ),
    project(
        "cilium",
        "cilium",
        "cilium/cilium",
        "CiliumEndpointSlices of the operator (up to 1.15), services of the agent (1.19)",
    ),
    project(
        "cloud_provider_kubevirt",
        "cloud-provider-kubevirt",
        "kubevirt/cloud-provider-kubevirt",
        "EndpointSlices of virtual machines, in the infrastructure cluster (2025)",
    ),
    project(
        "consul_k8s",
        "consul-k8s",
        "hashicorp/consul-k8s",
        "the endpoints controller of the service mesh (2022)",
    ),
    project(
        "deckhouse",
        "deckhouse",
        "deckhouse/deckhouse",
        "EndpointSlices of Services with health checks of their own",
    ),
    project(
        "fleetboard",
        "fleetboard",
        "fleetboard-io/fleetboard",
        "EndpointSlices of Services in other clusters, tested on Kubernetes 1.21",
    ),
    project(
        "ingress_gce",
        "ingress-gce",
        "kubernetes/ingress-gce",
        "network endpoint groups (GKE 1.27 and others)",
    ),
    project("istio", "istio", "istio/istio", "endpoints in istiod (1.6 to 1.23)"),
    project(
        "karmada",
        "karmada",
        "karmada-io/karmada",
        "EndpointSlices of multi-cluster Services (up to 1.14)",
    ),
    project(
        "kube_router",
        "kube-router",
        "cloudnativelabs/kube-router",
        "the service proxy, which reads slices (2023)",
    ),
    project(
        "lighthouse",
        "lighthouse",
        "submariner-io/lighthouse",
        "EndpointSlices of Submariner's service discovery (up to 0.17)",
    ),
    project(
        "linkerd2",
        "linkerd2",
        "linkerd/linkerd2",
        "the destination controller, and EndpointSlices of external workloads (2021 to 2024)",
    ),
    project("liqo", "liqo", "liqotech/liqo", "reflected EndpointSlices (2023)"),
    project(
        "patroni",
        "patroni",
        "patroni/patroni",
        "Endpoints that show the leader of PostgreSQL (1.6.3 and the first version for Kubernetes)",
    ),
    project(
        "prometheus_operator",
        "prometheus-operator",
        "prometheus-operator/prometheus-operator",
        "Endpoints and EndpointSlices of kubelets (0.92)",
    ),
    project("talos", "talos", "siderolabs/talos", "EndpointSlices of the Talos API (1.11.6)"),
    project(
        "vcluster",
        "vcluster",
        "loft-sh/vcluster",
        "EndpointSlices that are copied to the host cluster (2025)",
    ),
];

impl Project {
    /// Returns the project with this word.
    pub(super) fn of(word: &str) -> Self {
        let project = PROJECTS.iter().find(|project| project.word == word);
        *project.unwrap_or_else(|| panic!("projects.rs lacks {word}"))
    }
}

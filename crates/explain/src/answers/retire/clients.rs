//! The clients of an audit log: those whose requests for Endpoints do not count, and what to do
//! about the others.

use std::collections::BTreeSet;

use kube_endpoint_core_model::Text;

/// The ServiceAccounts of the controllers of kube-controller-manager that ask for Endpoints.
const CONTROLLERS: [&str; 5] = [
    "endpoint-controller",
    "endpointslicemirroring-controller",
    "generic-garbage-collector",
    "namespace-controller",
    "resourcequota-controller",
];
fn program(agent: &str) -> &str {
    agent.split('/').next().unwrap_or_default()
}

/// Returns true if requests of a client for Endpoints do not count: those of API servers,
/// kube-controller-manager, kube-endpoint-manager and this plugin. `managers` are the users of the
/// pods of kube-endpoint-manager.
pub(super) fn is_known(user: &str, agent: &str, managers: &BTreeSet<Text>) -> bool {
    let account = user.strip_prefix("system:serviceaccount:kube-system:");
    matches!(user, "system:apiserver" | "system:kube-controller-manager")
        || account.is_some_and(|account| CONTROLLERS.contains(&account))
        || matches!(program(agent), "kube-controller-manager" | "kube-endpoint-manager" | "kubectl-diagnose-svc")
        // An older kube-endpoint-manager lists and watches without a user agent.
        || agent.is_empty() && managers.contains(user)
}

/// Returns what to do about a client with a user agent.
pub(super) fn remedy(agent: &str) -> &'static str {
    match program(agent) {
        "Prometheus" => {
            "Set `role: endpointslice` in its kubernetes_sd_configs, with relabelling by __meta_kubernetes_endpointslice_ labels, \
             and let it get, list and watch endpointslices.discovery.k8s.io."
        }
        "kubectl" => "Use `kubectl get endpointslices -l kubernetes.io/service-name=NAME`.",
        "coredns" => "Update CoreDNS to 1.8.3 or later.",
        "kube-dns" => "Replace kube-dns by CoreDNS.",
        _ => "Ask its owner for a version, or a setting, that reads EndpointSlices.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_controllers_do_not_count_and_names_that_look_like_theirs_do() {
        let managers = ["system:serviceaccount:kem:kem".into()].into();
        let account = |name: &str| format!("system:serviceaccount:{name}");
        for (user, agent, want) in [
            ("system:kube-controller-manager", "k3s/v1", true),
            ("admin", "kube-controller-manager/v1.36.2 (linux/amd64)", true),
            (&account("kube-system:endpoint-controller"), "", true),
            (&account("shop:endpoint-controller"), "", false),
            (&account("kube-system:attachdetach-controller"), "", false),
            (&account("kem:kem"), "", true),
            (&account("kem:kem"), "another-program/1", false),
            ("jane", "", false),
            ("jane", "kubectl-diagnose-svc/0.1", true),
            ("jane", "kubectl/v1.36", false),
            ("system:apiserver", "kube-apiserver/v1", true),
            ("jane", "kube-apiserver/v1", false),
            ("jane", "kube-controller-manager-2/v1", false),
        ] {
            assert_eq!(is_known(user, agent, &managers), want, "{user} {agent}");
        }
    }
}

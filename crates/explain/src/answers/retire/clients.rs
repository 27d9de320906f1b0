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
const API_SERVER: &str = "kube-apiserver";
const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const MANAGER: &str = "kube-endpoint-manager";
const PLUGIN: &str = "kubectl-endpoints";

fn program(agent: &str) -> &str {
    agent.split('/').next().unwrap_or_default()
}

/// Returns the program that sent a request, if its requests for Endpoints do not count. `managers`
/// are the users of the pods of kube-endpoint-manager.
pub(super) fn known(user: &str, agent: &str, managers: &BTreeSet<Text>) -> Option<&'static str> {
    let account = user.strip_prefix("system:serviceaccount:kube-system:");
    let is_controller = user == "system:kube-controller-manager"
        || account.is_some_and(|account| CONTROLLERS.contains(&account));
    if user == "system:apiserver" {
        Some(API_SERVER)
    } else if program(agent) == CONTROLLER_MANAGER || is_controller {
        Some(CONTROLLER_MANAGER)
    } else if program(agent) == MANAGER || agent.is_empty() && managers.contains(user) {
        // Older ones list and watch without a user agent.
        Some(MANAGER)
    } else if program(agent) == PLUGIN {
        Some(PLUGIN)
    } else {
        None
    }
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
            assert_eq!(known(user, agent, &managers), want, "{user} {agent}");
        }
    }
}

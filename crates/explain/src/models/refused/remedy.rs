//! The remedy of each refusal.

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;

use super::Refusal;
use crate::facts::remedy::Person::{ClusterAdministrator, EndpointsWriter, ServiceOwner};
use crate::facts::remedy::{Remedy, Step};

impl Refusal {
    /// Returns true if the refusal is as it should be.
    pub(crate) fn is_meant(&self) -> bool {
        matches!(self, Self::NamespaceTerminating | Self::NamespaceNotFound)
    }

    /// Returns the remedy for the Service whose slices or Endpoints the API server refuses.
    pub(crate) fn remedy(&self, service: &ObjectKey) -> Remedy {
        let namespace = &*service.namespace;
        let ask = |sentence: &str| Remedy::ask(ClusterAdministrator, sentence);
        match self {
            Self::WebhookDenied { webhook } => ask(&format!(
                "Correct what the webhook {webhook} objects to, or take endpointslices.discovery.k8s.io and endpoints out of its rules; a condition in its matchConditions can also exempt the user of the controller"
            ))
            .shown_by([webhooks()]),
            Self::WebhookUnreachable { webhook } => ask(&format!(
                "Repair the program behind the webhook {webhook}; take endpointslices.discovery.k8s.io and endpoints out of its rules, because the webhook's own Service may wait for them"
            ))
            .shown_by([webhooks()]),
            Self::PolicyDenied { policy, binding, validating } => policy_remedy(policy, binding, *validating),
            Self::Quota { quota } => {
                let which = if quota.is_empty() { "the ResourceQuota" } else { &format!("the ResourceQuota {quota}") };
                let describe = ["describe", "resourcequota", quota];
                let describe = describe.into_iter().filter(|word| !word.is_empty());
                ask(&format!(
                    "Raise {which}, or take count/endpointslices.discovery.k8s.io and count/endpoints out of it: the controllers write these objects, not the users of the namespace"
                ))
                .shown_by([Step::kubectl_in(namespace, describe)])
            }
            Self::NamespaceTerminating => Remedy::ask(
                ServiceOwner,
                "Nothing, if the namespace is to go; if it stays, look at what its conditions name, and create the Service in another namespace if it is needed",
            )
            .shown_by([Step::kubectl(["get", "namespace", namespace, "-o", "yaml"])]),
            Self::NamespaceNotFound => Remedy::ask(
                ServiceOwner,
                "Nothing, if the namespace was deleted; else create it again",
            )
            .shown_by([Step::kubectl(["get", "namespaces"])]),
            Self::NotPermitted { user, verb, resource } => ask(&format!(
                "Give {user} the permission to {verb} {resource}: a ClusterRole or its ClusterRoleBinding is missing or has been changed"
            ))
            .shown_by([Step::kubectl_in(
                namespace,
                ["auth", "can-i", verb, resource, &format!("--as={user}")],
            )]),
            Self::Forbidden => ask(
                "Look at the admission plugin of the API server whose words the message quotes, and exempt the user of the controller from it",
            ),
            Self::Unauthorized => ask(
                "Renew the credentials of the controller, a token of its ServiceAccount or a client certificate, and start it again",
            ),
            Self::Invalid => Remedy::ask(
                ServiceOwner,
                "Correct the field that the message names where the controller copies it from: the labels and ports of the Service, the pods, or the Endpoints that are mirrored",
            ),
            Self::Conflict => {
                let selector = format!("{LABEL_SERVICE_NAME}={}", service.name);
                let words =
                    ["get", "endpointslices", "-l", &selector, "-o", "yaml", "--show-managed-fields"];
                Remedy::ask(
                    EndpointsWriter,
                    "Nothing, if it does not last: the controller tries again; else stop the other client that writes these objects, which managedFields name",
                )
                .shown_by([Step::kubectl_in(namespace, words)])
            }
            Self::TooLarge => ask(
                "Shorten the labels of the Service, which its slices copy, or let a slice hold fewer endpoints with --max-endpoints-per-slice",
            ),
            Self::Busy => ask(
                "Nothing, if it does not last: the controller tries again; else find out who sends the API server so many requests",
            )
            .shown_by([Step::kubectl(["get", "--raw", "/debug/api_priority_and_fairness/dump_priority_levels"])]),
            Self::StorageFull => ask(
                "Free the database of etcd: compact and defragment it, or raise its quota, then disarm its NOSPACE alarm; until then the API server takes no writes",
            ),
            Self::ServerFailed => {
                ask("Look at the API server and at etcd: one of the checks may name what fails").shown_by([readyz()])
            }
            Self::NoAnswer => ask(
                "Look at the network between the controller and the API server, and at load balancers in between; the checks say if the API server itself is ready",
            )
            .shown_by([readyz()]),
            Self::Other => ask("Look at the words that the message quotes, and at the log of the controller"),
        }
    }
}

fn policy_remedy(policy: &str, binding: &str, validating: bool) -> Remedy {
    let kind = if validating { "validatingadmissionpolicy" } else { "mutatingadmissionpolicy" };
    let binding_kind = format!("{kind}binding");
    let of_policy = Step::kubectl(["get", kind, policy, "-o", "yaml"]);
    let of_binding =
        (!binding.is_empty()).then(|| Step::kubectl(["get", &binding_kind, binding, "-o", "yaml"]));
    let sentence = format!(
        "Correct what the policy {policy} objects to, or take endpointslices.discovery.k8s.io and endpoints out of its matchConstraints; a condition in its matchConditions can also exempt the user of the controller"
    );
    Remedy::ask(ClusterAdministrator, sentence).shown_by(std::iter::once(of_policy).chain(of_binding))
}

/// Returns a command that lists all webhooks by configuration.
fn webhooks() -> Step {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let columns = "custom-columns=KIND:.kind,NAME:.metadata.name,WEBHOOKS:.webhooks[*].name";
    Step::kubectl(["get", kinds, "-o", columns])
}

fn readyz() -> Step {
    Step::kubectl(["get", "--raw", "/readyz?verbose"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_its_advice() {
        let all = [
            Refusal::WebhookDenied { webhook: "labels.example.com".into() },
            Refusal::WebhookUnreachable { webhook: "labels.example.com".into() },
            Refusal::PolicyDenied { policy: "p".into(), binding: "b".into(), validating: true },
            Refusal::PolicyDenied { policy: "p".into(), binding: "".into(), validating: false },
            Refusal::Quota { quota: "objects".into() },
            Refusal::Quota { quota: "".into() },
            Refusal::NamespaceTerminating,
            Refusal::NamespaceNotFound,
            Refusal::NotPermitted { user: "u".into(), verb: "create".into(), resource: "endpoints".into() },
            Refusal::Forbidden,
            Refusal::Unauthorized,
            Refusal::Invalid,
            Refusal::Conflict,
            Refusal::TooLarge,
            Refusal::Busy,
            Refusal::StorageFull,
            Refusal::ServerFailed,
            Refusal::NoAnswer,
            Refusal::Other,
        ];
        let texts = all.iter().map(|refusal| {
            let remedy = refusal.remedy(&ObjectKey::new("shop", "web"));
            assert!(!remedy.steps.iter().any(Step::changes), "{refusal:?}");
            let commands: String = remedy.commands().map(|command| format!("\n  {command}")).collect();
            format!("{refusal}\n  {}{commands}", remedy.sentence)
        });
        insta::assert_snapshot!(texts.collect::<Vec<_>>().join("\n"));
    }
}

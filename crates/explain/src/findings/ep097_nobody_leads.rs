//! The readiness of the Service's EndpointSelector chooses no ready pod.

use kube_endpoint_core_model::readiness::NobodyLeads as Reason;

use crate::findings::prelude::*;
use crate::models::leader::{Leads, LeadsBy};
use crate::models::selection::{RESOURCE, Selection};

about! {
    /// Clients get no answer until a pod leads. By a Lease: it does not exist, nobody holds it, its
    /// holder no longer renews it, the identity of the holder names none of the selected pods, or
    /// several, or its containers have restarted since the last renewal. By a condition: it is
    /// `True` of no selected pod. In both cases the pod may also not be ready itself. While a leader
    /// is changing, this is normal for some seconds. A Service of followers needs no leader. The
    /// severity is warning if a pod leads that may be gone: it renewed the Lease last more than two
    /// thirds of the Lease's duration ago, by the clocks of both machines, and at most twice the
    /// duration; and as long as slices still hold pods as ready, to which clients are sent. After
    /// `spec.readiness` has been added, the status of the EndpointSelector says how long these
    /// stay.
    EP097 "nobody-leads" Error
    "The readiness of the Service's EndpointSelector chooses no ready pod, or the leader may be gone."
}

/// A readiness of an EndpointSelector that chooses no ready pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NobodyLeads {
    pub endpoint_selector: Text,
    pub leads: Leads,
    /// True if slices still hold pods as ready.
    #[serde(skip)]
    pub(crate) are_sent: bool,
}

impl Finding for NobodyLeads {
    /// If no pod is selected at all, another finding says so.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Selection::Attached { name, .. } = inputs.selection else { return Vec::new() };
        let is_chosen_from = !inputs.pods.is_empty() && !inputs.service.publish_not_ready_addresses;
        let leads = inputs.selected_by.and_then(|by| by.leads.as_ref());
        let nobody = leads.filter(|it| it.overdue.is_some() || it.without_leader().is_some());
        let found = nobody.filter(|_| is_chosen_from);
        let are_sent = inputs.counts.receiving.is_some_and(|pods| pods > 0);
        let found =
            found.map(|leads| Self { endpoint_selector: name.clone(), leads: leads.clone(), are_sent });
        found.into_iter().collect()
    }

    fn severity(&self) -> Option<Severity> {
        (self.leads.nobody.is_none() || self.are_sent).then_some(Severity::Warning)
    }

    fn since(&self) -> Option<Timestamp> {
        self.leads.since.filter(|_| self.leads.nobody.is_some())
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.names_selector(&self.endpoint_selector)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let (name, is_lease) = match &self.leads.by {
            LeadsBy::Lease { name, .. } | LeadsBy::UnreadLease { name } => (name, true),
            LeadsBy::Condition { kind, .. } => (kind, false),
        };
        let nobody = self.leads.nobody.as_ref();
        let show = match (nobody, is_lease) {
            (Some(Reason::NotReady { pod } | Reason::Ending { pod }), _) => {
                Step::kubectl_in(&service.namespace, ["describe", "pod", pod])
            }
            (_, true) => Step::kubectl_in(&service.namespace, ["get", "lease", name, "-o", "yaml"]),
            (_, false) => {
                let selector = &self.endpoint_selector;
                Step::kubectl_in(&service.namespace, ["get", RESOURCE, selector, "-o", "yaml"])
            }
        };
        Remedy::ask(PodOwner, what_to_do(nobody, name, &service.namespace)).shown_by([show])
    }
}

impl fmt::Display for NobodyLeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.leads.fmt(f)
    }
}

/// Says what to do so that a pod leads. `name` is that of the Lease or the condition.
fn what_to_do(nobody: Option<&Reason>, name: &str, namespace: &str) -> String {
    let Some(nobody) = nobody else {
        return "Nothing, if the pod renews the Lease or another one gets it; else look if its node reaches the API server".to_owned();
    };
    match nobody {
        Reason::NotFound => format!(
            "Look if the program runs and elects with a Lease of this name in the namespace {namespace}; if it uses another name, correct spec.readiness.lease.name of the EndpointSelector"
        ),
        Reason::NotHeld | Reason::NotRenewed { .. } => {
            "Look at the logs of the pods: why does none of them get the Lease?".to_owned()
        }
        Reason::NotRecognised | Reason::Ambiguous => {
            "Let the program use an identity that has the name, uid, hostname or an address of its own pod, and of no other, as one of its parts, such as POD-NAME_SUFFIX".to_owned()
        }
        Reason::NoCondition => format!("Set the condition {name} of the pod that should lead to True"),
        Reason::NotReady { pod } => format!("Look why Pod {pod} is not ready"),
        Reason::Restarted { pod } => format!(
            "Nothing, if Pod {pod} renews the Lease or another pod gets it; else look at the logs of the pods: why does none of them get it?"
        ),
        Reason::Ending { .. } => {
            "Nothing, if another pod is about to lead; else look at the logs of the others: why does none take over?".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn one_pod_with_the_condition_is_enough() {
        let nobody = example("ep097-nobody-leads");
        assert!(nobody.finds(Code::NobodyLeads));
        let conditions = ["Ready", "shop.example/leader"].map(|it| json!({"type": it, "status": "True"}));
        let led = nobody.with("Pod/web-1", json!({"status": {"conditions": conditions}}));
        assert!(!led.finds(Code::NobodyLeads));
    }

    #[test]
    fn an_endpoint_selector_without_pods_is_told_instead() {
        let none = example("ep097-nobody-leads").without("Pod/web-1");
        assert!(none.finds(Code::NoPodMatches) && !none.finds(Code::NobodyLeads));
    }
}

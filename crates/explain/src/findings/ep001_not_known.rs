//! Objects that tell whether or why the Service works could not be read.

use super::words::pairs;
use crate::findings::inputs::is_mirrored;
use crate::findings::prelude::*;
use crate::findings::{NotWritten, PodReason};
use crate::models::selection::{RESOURCE, Selection};
use crate::models::traffic::{UnansweredQuestion, is_less_than_listed};

about! {
    /// RBAC forbids you to list them, the manager's caches do not hold them, or the files that you
    /// gave do not. The explanation says what it could decide without them, and its notes name the
    /// objects that it could not read. The status is UNKNOWN if the missing objects might show that
    /// the Service works, or that it does not. It is certain otherwise: slices tell how many
    /// endpoints receive traffic, and pods tell that no endpoint does if no pod is ready.
    /// Terminating endpoints, and addresses that somebody lists as not ready, prove no fault:
    /// without pods or Endpoints the status is UNKNOWN, too. Files without slices, such as a dump
    /// of `kubectl cluster-info`, tell how many pods would be published, and not what clients get,
    /// unless the Service has no pods. Files with manifests alone do not tell of pods that an
    /// operator makes: if no workload makes pods with the labels of a selector, and none is plainly
    /// meant, they are not known. The severity is error if no endpoint receives traffic; `lint`
    /// lists only that.
    EP001 "not-known" Warning
    "Objects that tell whether or why the Service works could not be read."
}

/// A question that stays open because a kind of object could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotKnown {
    /// The kinds that could not be read, as the API names them: `pods`, `endpointslices`,
    /// `endpoints`, `endpointselectors` or `nodes`.
    pub kinds: Vec<&'static str>,
    /// The question that stays open without them.
    pub open: UnansweredQuestion,
    /// True if the objects are from files that do not have these kinds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_files: bool,
    /// The selector, if no pod of manifests has its labels: an operator may make the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

impl Finding for NotKnown {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        // An alias has no endpoints.
        if inputs.is_alias() {
            return Vec::new();
        }
        let counts = inputs.counts;
        let Some(receiving) = counts.receiving else {
            let (kinds, open) = (kinds_of_traffic(inputs), UnansweredQuestion::Traffic);
            return vec![Self::new(inputs, kinds, open)];
        };
        let kinds = kinds_of_more(inputs);
        if kinds.is_empty() {
            return Vec::new();
        }
        let selection = inputs.selection;
        let is_of_pods = selection.selects_pods() || selection.endpoint_selector().is_some();
        let open = match receiving + counts.ending + counts.others {
            0 => UnansweredQuestion::NoTraffic,
            _ if is_of_pods && is_less_than_listed(inputs.service, inputs.served, inputs.slices()) => {
                UnansweredQuestion::LessTraffic
            }
            _ => UnansweredQuestion::MoreTraffic,
        };
        vec![Self::new(inputs, kinds, open)]
    }

    fn severity(&self) -> Option<Severity> {
        (self.open == UnansweredQuestion::NoTraffic).then_some(Severity::Error)
    }

    fn evidence(&self, _: &Read<'_>) -> Vec<Evidence> {
        Vec::new()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        if self.from_files {
            let kinds =
                self.kinds.iter().map(|kind| if *kind == "endpointselectors" { RESOURCE } else { kind });
            let get = ["get", &kinds.collect::<Vec<_>>().join(","), "-o", "yaml"];
            let sentence = match &self.selector {
                None => format!("Give a file with {}, too, if there is a cluster", and(&self.kinds)),
                Some(_) => format!(
                    "Give a file with {}, too, if there is a cluster; if no operator makes the pods, correct spec.selector or give the workload",
                    and(&self.kinds)
                ),
            };
            return Remedy::ask(ServiceOwner, sentence).shown_by([Step::kubectl_in(&service.namespace, get)]);
        }
        let in_namespace = |kind| Step::kubectl_in(&service.namespace, ["auth", "can-i", "list", kind]);
        let checks = self.kinds.iter().map(|kind| match *kind {
            "nodes" => Step::kubectl(["auth", "can-i", "list", kind]),
            "endpointselectors" => in_namespace(RESOURCE),
            kind => in_namespace(kind),
        });
        let say = if self.kinds.len() == 1 { "this says" } else { "these say" };
        let ask = format!(
            "Ask for the permission to get and list {}, and explain the Service again; you have it if {say} yes",
            and(&self.kinds),
        );
        Remedy::ask(ClusterAdministrator, ask).then(checks)
    }
}

impl fmt::Display for NotKnown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| plural(kind)).collect();
        let (kinds, subject) = (and(&kinds), self.open.subject());
        let subject = match self.open {
            UnansweredQuestion::Traffic if self.from_files => "what clients get",
            _ => subject,
        };
        match &self.selector {
            Some(selector) => {
                write!(
                    f,
                    "{subject} is not known: no workload of the files makes pods with the labels {selector}"
                )
            }
            None if self.from_files => write!(f, "{subject} is not known: {kinds} are not in the files"),
            None => write!(f, "{kinds} could not be read, so {subject} is not known"),
        }
    }
}

impl NotKnown {
    fn new(inputs: &FaultInputs<'_>, kinds: Vec<&'static str>, open: UnansweredQuestion) -> Self {
        let options = inputs.options;
        let are_unmade =
            kinds.contains(&"pods") && options.has_manifests_of_pods(&inputs.service.key.namespace);
        let selector = match inputs.selection {
            Selection::Own(selector) => Some(pairs(selector)),
            Selection::Attached { selector, .. } => Some(selector.to_string()),
            _ => None,
        };
        Self { kinds, open, from_files: options.are_from_files(), selector: selector.filter(|_| are_unmade) }
    }
}

/// Returns the kinds that would tell how many endpoints receive traffic.
fn kinds_of_traffic(inputs: &FaultInputs<'_>) -> Vec<&'static str> {
    let known = inputs.options.known;
    if inputs.selection.selects_pods() {
        unread(&[
            (known.pods, "pods"),
            (known.slices, "endpointslices"),
            (known.nodes || !known.pods, "nodes"),
        ])
    } else if inputs.selection.endpoint_selector().is_some() {
        unread(&[
            (known.pods, "pods"),
            (known.slices, "endpointslices"),
            (known.selectors, "endpointselectors"),
        ])
    } else {
        unread(&[(known.slices, "endpointslices"), (known.endpoints, "endpoints")])
    }
}

/// Returns the kinds that would tell if other endpoints than the known ones should receive traffic.
fn kinds_of_more(inputs: &FaultInputs<'_>) -> Vec<&'static str> {
    let known = inputs.options.known;
    if inputs.selection.selects_pods() {
        if !known.pods {
            return unread(&[(known.pods, "pods")]);
        }
        let mut reasons = inputs.explained.iter().filter_map(|pod| pod.reason.as_ref());
        let is_due = reasons.any(|reason| matches!(reason, PodReason::NotWritten(NotWritten {})));
        unread(&[(known.nodes || !is_due, "nodes")])
    } else if inputs.selection.endpoint_selector().is_some() {
        // While a selector cannot be used, endpoints leave with their pods.
        unread(&[(known.selectors, "endpointselectors")])
    } else {
        // Only mirrored slices have a source, the Endpoints, that would tell more.
        let slices = inputs.slices();
        let matters = slices.is_empty() || slices.iter().any(|slice| is_mirrored(slice));
        unread(&[(known.endpoints || !matters, "endpoints")])
    }
}

/// Returns the kinds that are not known.
fn unread(kinds: &[(bool, &'static str)]) -> Vec<&'static str> {
    kinds.iter().filter(|(is_known, _)| !is_known).map(|(_, kind)| *kind).collect()
}

fn and(kinds: &[&str]) -> String {
    match kinds {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns how a text calls the objects of a resource.
fn plural(resource: &str) -> &str {
    match resource {
        "endpointslices" => "EndpointSlices",
        "endpoints" => "Endpoints",
        "endpointselectors" => "EndpointSelectors",
        resource => resource,
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn nothing_is_open_when_all_kinds_can_be_read() {
        for name in ["ep001-not-known", "ep001-without-endpoint-selectors"] {
            let unread = example(name);
            assert!(unread.finds(Code::NotKnown));
            assert!(!unread.readable().finds(Code::NotKnown));
        }
    }

    #[test]
    fn nothing_is_open_about_an_alias() {
        let alias = json!({"spec": {"type": "ExternalName", "externalName": "web.example.com"}});
        let unread = example("ep001-not-known").with("Service/web", alias);
        assert!(!unread.finds(Code::NotKnown));
    }
}

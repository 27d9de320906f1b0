//! Reads RBAC: who may read Endpoints, and the pods that run as them.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, Text};
use serde_json::Value;

use super::Pods;
use super::evidence::{EvidenceKind, Findings, READS, Source, Unseen};
use super::programs::Known;
use crate::facts::lease::key_of;

/// Roles and bindings, added up one by one.
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    /// The rights of each role. A ClusterRole has no namespace.
    roles: BTreeMap<ObjectKey, Allowed>,
    bindings: Vec<Binding>,
}

/// The rights of a role to Endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Allowed {
    verbs: BTreeSet<&'static str>,
    /// The names of the objects, if it is limited to some.
    names: Option<BTreeSet<String>>,
}

#[derive(Clone, Debug)]
struct Binding {
    /// The namespace; empty for a ClusterRoleBinding.
    namespace: Text,
    /// The role; a ClusterRole has no namespace.
    role: ObjectKey,
    subjects: Vec<Subject>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    kind: String,
    key: ObjectKey,
}

impl Subject {
    /// Returns the name of the user, if it is one.
    fn user(&self) -> Option<String> {
        let ObjectKey { namespace, name } = &self.key;
        match &*self.kind {
            "ServiceAccount" => Some(format!("system:serviceaccount:{namespace}:{name}")),
            "User" => Some(name.to_string()),
            _ => None,
        }
    }
}

impl Rbac {
    /// Adds a Role or a ClusterRole.
    pub fn add_role(&mut self, role: &Value) {
        let mut allowed = Allowed { verbs: BTreeSet::new(), names: Some(BTreeSet::new()) };
        for rule in role["rules"].as_array().into_iter().flatten() {
            let has =
                |field: &str, wanted: &str| texts(&rule[field]).any(|value| value == wanted || value == "*");
            if !has("apiGroups", "") || !has("resources", "endpoints") {
                continue;
            }
            let verbs: Vec<&'static str> = READS.into_iter().filter(|verb| has("verbs", verb)).collect();
            if verbs.is_empty() {
                continue;
            }
            allowed.verbs.extend(verbs);
            let names: BTreeSet<String> = texts(&rule["resourceNames"]).map(str::to_owned).collect();
            allowed.names = match allowed.names.take() {
                Some(mut known) if !names.is_empty() => {
                    known.extend(names);
                    Some(known)
                }
                _ => None,
            };
        }
        if !allowed.verbs.is_empty() {
            self.roles.insert(key_of(&role["metadata"]), allowed);
        }
    }

    /// Adds what another holds.
    pub fn extend(&mut self, other: Self) {
        self.roles.extend(other.roles);
        self.bindings.extend(other.bindings);
    }

    /// Adds a RoleBinding or a ClusterRoleBinding.
    pub fn add_binding(&mut self, binding: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = key_of(&binding["metadata"]).namespace;
        let role = &binding["roleRef"];
        let of_role = if role["kind"] == "Role" { namespace.clone() } else { Text::default() };
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        let subject = |subject: &Value| Subject { kind: text(&subject["kind"]), key: key_of(subject) };
        self.bindings.push(Binding {
            namespace,
            role: ObjectKey { namespace: of_role, name: text(&role["name"]).into() },
            subjects: subjects.map(subject).collect(),
        });
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Says who may read Endpoints.
pub(super) fn evidence(rbac: &Rbac, pods: Option<&Pods>, known: &Known) -> Findings {
    let mut findings = Findings::default();
    let mut all: BTreeMap<(&Text, &Subject), Vec<String>> = BTreeMap::new();
    for binding in &rbac.bindings {
        let Some(allowed) = rbac.roles.get(&binding.role) else { continue };
        for subject in &binding.subjects {
            if subject.user().is_some_and(|user| known.is_user(&user)) {
                continue;
            }
            let kind = if binding.role.namespace.is_empty() { "ClusterRole" } else { "Role" };
            let verbs: Vec<&str> = allowed.verbs.iter().copied().collect();
            let names = match &allowed.names {
                Some(names) => {
                    format!(" {}", names.iter().map(|name| &**name).collect::<Vec<_>>().join(", "))
                }
                None => String::new(),
            };
            let how = format!("{} Endpoints{names} by {kind} {}", verbs.join(", "), binding.role.name);
            let known = all.entry((&binding.namespace, subject)).or_default();
            if !known.contains(&how) {
                known.push(how);
            }
        }
    }
    for ((namespace, subject), how) in all {
        let ObjectKey { namespace: of, name } = &subject.key;
        let is_account = subject.kind == "ServiceAccount";
        let who = if is_account {
            format!("ServiceAccount {of}/{name}")
        } else {
            format!("{} {name}", subject.kind)
        };
        let running = match (is_account, pods) {
            (true, Some(pods)) => match pods.of_account(&subject.key) {
                Some(names) => format!("; pods that run as it: {names}"),
                None => "; no pod runs as it".to_owned(),
            },
            _ => String::new(),
        };
        let what = format!("{who} may {}{running}", how.join("; "));
        let namespace = (!namespace.is_empty()).then_some(namespace);
        findings.add(EvidenceKind::Possible, Source::Rbac, namespace, what, "");
    }
    let what = "RBAC tells who may read Endpoints, not who does; other authorizers, and the group system:masters, are not in it";
    findings.unseen.push(Unseen::new(what, false, ""));
    findings
}

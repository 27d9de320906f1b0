//! Reads roles and bindings from manifests, and decides if they allow a request, by the rules of
//! Kubernetes' RBAC authorizer.

use serde::Deserialize;
use serde_json::Value;

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(crate) non_resource_urls: Vec<String>,
}

/// The attributes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    /// The plural name, and the subresource after a slash. Empty for a request of no resource.
    pub(crate) resource: String,
    /// Empty for all namespaces and for cluster-scoped resources.
    pub(crate) namespace: String,
    /// Empty if the request names no object.
    pub(crate) name: String,
    pub(crate) path: String,
}

impl Attributes {
    /// Reads the attributes from a request's method, path and query, as kube-apiserver does.
    pub(crate) fn of(method: &str, path: &str, query: &str) -> Self {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                let verb = method.to_ascii_lowercase();
                return Self { verb, path: path.to_owned(), ..Self::default() };
            }
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let parameters: Vec<(&str, &str)> =
            query.split('&').filter_map(|parameter| parameter.split_once('=')).collect();
        let parameter = |name: &str| parameters.iter().find(|(it, _)| *it == name).map(|(_, value)| *value);
        // A list or watch of one object by its name counts as a request for that name.
        let selector = parameter("fieldSelector").map(|it| it.replace("%3D", "=")).unwrap_or_default();
        let selected =
            selector.strip_prefix("metadata.name=").map(|it| it.trim_start_matches('=').to_owned());
        let named = rest.get(1).map(|name| (*name).to_owned());
        let verb = match (method, &named) {
            ("GET", Some(_)) => "get",
            ("GET", None) if matches!(parameter("watch"), Some("1" | "true")) => "watch",
            ("GET", None) => "list",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            _ => method,
        };
        let subresource = rest.get(2).map(|subresource| format!("/{subresource}")).unwrap_or_default();
        Self {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: format!("{}{subresource}", rest[0]),
            namespace: namespace.to_owned(),
            name: named.or(selected).unwrap_or_default(),
            path: String::new(),
        }
    }
}

impl Rule {
    /// Returns true if the rule allows a request in one of its namespaces.
    pub(crate) fn allows(&self, request: &Attributes) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        if !has(&self.verbs, &request.verb) {
            return false;
        }
        if request.resource.is_empty() {
            return self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                Some(start) => request.path.starts_with(start),
                None => *url == request.path,
            });
        }
        let any_with_subresource = request.resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        has(&self.api_groups, &request.group)
            && (has(&self.resources, &request.resource)
                || any_with_subresource.is_some_and(|any| self.resources.contains(&any)))
            && (self.resource_names.is_empty() || self.resource_names.contains(&request.name))
    }

    /// Returns the rules that each allow one verb on one resource of one group, or on one path, and
    /// together what this one does.
    pub(crate) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            let of_verb = Self { verbs: vec![verb.clone()], ..Self::default() };
            for group in &self.api_groups {
                parts.extend(self.resources.iter().map(|resource| Self {
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: self.resource_names.clone(),
                    ..of_verb.clone()
                }));
            }
            parts.extend(
                self.non_resource_urls
                    .iter()
                    .map(|url| Self { non_resource_urls: vec![url.clone()], ..of_verb.clone() }),
            );
        }
        parts
    }
}

/// A rule and the only namespace in which it holds, or `None` for all.
pub(crate) type Granted = (Option<String>, Rule);

/// Returns the rules that `objects` grant to a subject. `subject` is the kind and the name, and for
/// a ServiceAccount the namespace. `existing` has the rules of Roles that are in every cluster and
/// that bindings may name.
#[track_caller]
pub(crate) fn granted(
    objects: &[Value],
    existing: &[(&str, Rule)],
    subject: (&str, &str, Option<&str>),
) -> Vec<Granted> {
    let mut granted = Vec::new();
    for binding in objects {
        let namespace = match binding["kind"].as_str() {
            Some("ClusterRoleBinding") => None,
            Some("RoleBinding") => Some(binding["metadata"]["namespace"].as_str().unwrap().to_owned()),
            _ => continue,
        };
        let is_subject = |it: &Value| {
            it["kind"] == subject.0 && it["name"] == subject.1 && it["namespace"].as_str() == subject.2
        };
        if !binding["subjects"].as_array().unwrap().iter().any(is_subject) {
            continue;
        }
        let reference = &binding["roleRef"];
        let is_role = |object: &&Value| {
            let in_namespace = reference["kind"] == "ClusterRole"
                || object["metadata"]["namespace"].as_str() == namespace.as_deref();
            object["kind"] == reference["kind"]
                && object["metadata"]["name"] == reference["name"]
                && in_namespace
        };
        let rules: Vec<Rule> = match objects.iter().find(is_role) {
            Some(role) => serde_json::from_value(role["rules"].clone()).unwrap(),
            None => existing
                .iter()
                .filter(|(name, _)| reference["name"] == *name)
                .map(|(_, rule)| rule.clone())
                .collect(),
        };
        assert!(!rules.is_empty(), "no rules for {reference}");
        granted.extend(rules.into_iter().map(|rule| (namespace.clone(), rule)));
    }
    granted
}

/// Returns true if one of the rules allows the request.
pub(crate) fn allowed(granted: &[Granted], request: &Attributes) -> bool {
    granted.iter().any(|(namespace, rule)| {
        namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace) && rule.allows(request)
    })
}

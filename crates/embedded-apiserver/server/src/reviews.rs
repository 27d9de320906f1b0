//! Answers reviews: `TokenReview`, `SelfSubjectReview`, `SubjectAccessReview` and
//! `LocalSubjectAccessReview` from a table of tokens and rules; `SelfSubjectAccessReview` and
//! `SelfSubjectRulesReview` allow everything.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

/// A user as a token review shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `system:serviceaccount:monitoring:prometheus`.
    pub name: String,
    /// Such as `system:authenticated`.
    pub groups: Vec<String>,
}

/// A rule that allows actions to subjects, after `rbac.authorization.k8s.io/v1` PolicyRule. In any
/// list `*` matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// The names of the users and groups of the rule.
    pub subjects: Vec<String>,
    /// Such as `get`.
    pub verbs: Vec<String>,
    /// API groups, `""` for the core group.
    pub api_groups: Vec<String>,
    /// Plural names, with the subresource after a slash.
    pub resources: Vec<String>,
    /// The namespaces of the rule; empty for all, and for cluster-scoped resources.
    pub namespaces: Vec<String>,
    /// Non-resource paths, such as `/metrics`; a trailing `*` matches any suffix.
    pub non_resource_urls: Vec<String>,
}

/// The table of tokens and rules.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    pub(crate) tokens: BTreeMap<String, User>,
    /// The times at which tokens expire, if they do. This server's listeners accept them for
    /// longer.
    pub(crate) expiry: BTreeMap<String, Timestamp>,
    pub(crate) rules: Vec<PolicyRule>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

impl PolicyRule {
    fn allows(&self, spec: &Value) -> bool {
        let user = spec["user"].as_str().unwrap_or_default();
        let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if !std::iter::once(user).chain(groups).any(|subject| has(&self.subjects, subject)) {
            return false;
        }
        let text = |attributes: &Value, name: &str| attributes[name].as_str().unwrap_or_default().to_owned();
        if let Some(wanted) = spec.get("nonResourceAttributes").filter(|value| value.is_object()) {
            let path = text(wanted, "path");
            return has(&self.verbs, &text(wanted, "verb"))
                && self.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
                    Some(start) => path.starts_with(start),
                    None => *url == path,
                });
        }
        let wanted = &spec["resourceAttributes"];
        let resource = match text(wanted, "subresource").as_str() {
            "" => text(wanted, "resource"),
            subresource => format!("{}/{subresource}", text(wanted, "resource")),
        };
        wanted.is_object()
            && has(&self.verbs, &text(wanted, "verb"))
            && has(&self.api_groups, &text(wanted, "group"))
            && has(&self.resources, &resource)
            && (self.namespaces.is_empty() || has(&self.namespaces, &text(wanted, "namespace")))
    }
}

impl Reviews {
    /// Returns the user of an `Authorization` header with a bearer token.
    pub(crate) fn user_of_header(&self, header: Option<&str>) -> Option<&User> {
        let (scheme, token) = header?.split_once(' ')?;
        self.tokens.get(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))
    }

    fn token_status(&self, spec: &Value, now: Timestamp) -> Value {
        let token = spec["token"].as_str().unwrap_or_default();
        if self.expiry.get(token).is_some_and(|end| *end <= now) {
            return json!({"user": {}, "error": "[invalid bearer token, service account token has expired]"});
        }
        match self.tokens.get(token) {
            Some(user) => json!({
                "authenticated": true,
                "user": {"username": user.name, "groups": user.groups},
                "audiences": spec["audiences"].as_array().cloned().unwrap_or_default(),
            }),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        }
    }

    fn access_status(&self, spec: &Value) -> Value {
        match self.rules.iter().any(|rule| rule.allows(spec)) {
            true => json!({"allowed": true, "reason": "allowed by a policy rule of the server"}),
            false => json!({"allowed": false}),
        }
    }

    /// Returns the status of a review of `kind` that `user` sent. A client without a known token
    /// has an empty name.
    pub(crate) fn status(&self, kind: &str, spec: &Value, user: &str, now: Timestamp) -> Value {
        match kind {
            "TokenReview" => self.token_status(spec, now),
            "SelfSubjectReview" => {
                let info = match self.tokens.values().find(|known| known.name == user) {
                    Some(known) => json!({"username": known.name, "groups": known.groups}),
                    None => json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]}),
                };
                json!({"userInfo": info})
            }
            // The server does not authorize its own requests, so every user may do everything.
            "SelfSubjectAccessReview" => {
                json!({"allowed": true, "reason": "this server allows every request"})
            }
            "SelfSubjectRulesReview" => json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            }),
            _ => self.access_status(spec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn a_token_is_a_bearer_token() {
        let user = User { name: "alice".to_owned(), groups: Vec::new() };
        let tokens = ["s3", "s32", "s321"].map(|token| (token.to_owned(), user.clone()));
        let reviews = Reviews { tokens: BTreeMap::from(tokens), ..Reviews::default() };
        let known = |header: &&&str| reviews.user_of_header(Some(header)).is_some();
        let good = ["Bearer s3", "bearer s32", "BEARER s321"];
        assert_eq!(good.iter().filter(known).count(), good.len());
        let bad = ["", "s3", "Bearer", "Bearer x", "Basic s3", "Digest s3", "Basic dG9rZW46czM="];
        assert_eq!(bad.iter().filter(known).collect::<Vec<_>>(), Vec::<&&str>::new());
        assert!(reviews.user_of_header(None).is_none());
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let end: Timestamp = "2026-12-01T00:00:10Z".parse().unwrap();
        let reviews = Reviews {
            tokens: BTreeMap::from([(
                "s3".to_owned(),
                User { name: "alice".to_owned(), groups: Vec::new() },
            )]),
            expiry: BTreeMap::from([("s3".to_owned(), end)]),
            ..Reviews::default()
        };
        let check = |now: &str, expected: bool| {
            let status = reviews.status("TokenReview", &json!({"token": "s3"}), "", now.parse().unwrap());
            assert_eq!(status["authenticated"].as_bool().unwrap_or_default(), expected, "{status}");
        };
        check("2026-12-01T00:00:09Z", true);
        check("2026-12-01T00:00:10Z", false);
    }

    #[test]
    fn policy_rules_are_matched() {
        let reviews = Reviews {
            rules: vec![
                PolicyRule {
                    subjects: list(&["scrapers"]),
                    verbs: list(&["get"]),
                    non_resource_urls: list(&["/metrics", "/debug/*"]),
                    ..PolicyRule::default()
                },
                PolicyRule {
                    subjects: list(&["alice"]),
                    verbs: list(&["*"]),
                    api_groups: list(&[""]),
                    resources: list(&["pods", "pods/status"]),
                    namespaces: list(&["shop"]),
                    ..PolicyRule::default()
                },
            ],
            ..Reviews::default()
        };
        let check = |spec: Value, expected: bool| {
            assert_eq!(reviews.access_status(&spec)["allowed"], expected, "{spec}");
        };
        let path = |path: &str| json!({"path": path, "verb": "get"});
        check(json!({"user": "p", "groups": ["scrapers"], "nonResourceAttributes": path("/metrics")}), true);
        check(json!({"user": "p", "groups": ["scrapers"], "nonResourceAttributes": path("/debug/x")}), true);
        check(json!({"user": "p", "groups": ["scrapers"], "nonResourceAttributes": path("/other")}), false);
        check(json!({"user": "p", "nonResourceAttributes": path("/metrics")}), false);
        let pods = |namespace: &str, subresource: &str| {
            json!({"user": "alice", "resourceAttributes": {
                "namespace": namespace, "verb": "list", "group": "", "resource": "pods", "subresource": subresource,
            }})
        };
        check(pods("shop", ""), true);
        check(pods("shop", "status"), true);
        check(pods("shop", "log"), false);
        check(pods("other", ""), false);
        check(json!({"user": "alice"}), false);
    }
}

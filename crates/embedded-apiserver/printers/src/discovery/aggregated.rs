//! Aggregated discovery, which clients use since Kubernetes 1.26: one document for `/api` and one
//! for `/apis` with all groups, versions and resources.

use kube_endpoint_apiserver_rules::resource::Resource;
use serde_json::{Value, json};

use super::{STATUS_VERBS, add_short_names, group_names, in_version, versions};
use crate::represent::media_ranges;

/// Returns the first version of `apidiscovery.k8s.io` that an `Accept` header prefers to plain
/// JSON, if any.
pub fn aggregated_version(accept: &str) -> Option<&'static str> {
    for range in media_ranges(accept) {
        if !matches!(range.media_type, "application/json" | "application/*" | "*/*") {
            continue;
        }
        match (range.parameter("as"), range.parameter("g"), range.parameter("v")) {
            (None, None, None) => return None,
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => return Some("v2"),
            (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
                return Some("v2beta1");
            }
            _ => {}
        }
    }
    None
}

/// Returns the `Content-Type` of an aggregated document, which distinguishes it from an
/// unaggregated one.
pub fn aggregated_content_type(version: &str) -> String {
    format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
}

/// Returns the aggregated document of `/api` (`core`) or `/apis`, in a version returned by
/// [`aggregated_version`].
pub fn aggregated(version: &str, core: bool) -> Value {
    let groups = if core { vec![""] } else { group_names() };
    let items: Vec<Value> = groups.into_iter().map(group).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn group(name: &str) -> Value {
    let versions: Vec<Value> = versions(name)
        .into_iter()
        .map(|version| {
            let resources: Vec<Value> = in_version(name, version).into_iter().map(entry).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn entry(resource: &Resource) -> Value {
    // The real server names the group and version only if they differ from those of the list.
    let kind = json!({"group": "", "version": "", "kind": resource.kind});
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular(),
        "verbs": resource.verbs,
    });
    add_short_names(&mut entry, resource);
    if resource.has_status() {
        entry["subresources"] =
            json!([{"subresource": "status", "responseKind": kind, "verbs": STATUS_VERBS}]);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_negotiated() {
        let check = |accept: &str, expected: Option<&str>| {
            assert_eq!(aggregated_version(accept), expected, "{accept}");
        };
        let v2 = aggregated_content_type("v2");
        let v2beta1 = aggregated_content_type("v2beta1");
        check("", None);
        check("application/json", None);
        check("*/*", None);
        check("application/json, */*", None);
        check(&v2, Some("v2"));
        check(&format!("{v2},{v2beta1},application/json"), Some("v2"));
        check(&format!("{v2beta1},application/json"), Some("v2beta1"));
        check(&format!("application/json,{v2}"), None);
        check(&format!("application/vnd.kubernetes.protobuf, {}", v2.replace("v=v2", "v=v9")), None);
    }

    #[test]
    fn documents_are_shaped_as_upstreams() {
        insta::assert_json_snapshot!("aggregated_api", aggregated("v2", true));
        insta::assert_json_snapshot!("aggregated_apis", aggregated("v2beta1", false));
    }
}

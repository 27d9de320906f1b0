//! Discovery of groups, versions and resources, in the unaggregated documents: clients that ask for
//! aggregated ones fall back to these.

use kube_endpoint_apiserver_rules::resource::{self, Resource};
use serde_json::{Value, json};

/// Verbs on a status subresource.
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Returns the document of `/api`. `server_address` is the host and port at which clients reach the
/// server.
pub fn core_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// Returns the document of `/apis`: all groups except the core group.
pub fn groups() -> Value {
    let groups: Vec<Value> = group_names().into_iter().map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the document of `/apis/GROUP`, if there is such a group.
pub fn group(name: &str) -> Option<Value> {
    let known = group_names().into_iter().find(|known| *known == name)?;
    let mut entry = group_entry(known);
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Some(entry)
}

/// Returns the document of `/api/v1` (with an empty group) or `/apis/GROUP/VERSION`, if there is
/// such a version.
pub fn resources(group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for resource in in_version(group, version) {
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs,
        });
        add_short_names(&mut entry, resource);
        if let Some(hash) = resource.storage_version_hash() {
            entry["storageVersionHash"] = json!(hash);
        }
        entries.push(entry);
        if resource.has_status() {
            entries.push(json!({
                "name": format!("{}/status", resource.plural),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": STATUS_VERBS,
            }));
        }
    }
    if entries.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }))
}

/// Adds short names and categories to the entry of a resource, if it has any.
fn add_short_names(entry: &mut Value, resource: &Resource) {
    for (field, names) in [("shortNames", resource.short_names), ("categories", resource.categories)] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
}

/// Returns the distinct names of all groups except the core group, in the order of the table.
fn group_names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for resource in resource::all() {
        if !resource.group.is_empty() && !names.contains(&resource.group) {
            names.push(resource.group);
        }
    }
    names
}

/// Returns the distinct versions of a group, the preferred one first.
fn versions(group: &str) -> Vec<&'static str> {
    let mut versions = Vec::new();
    for resource in resource::all().filter(|resource| resource.group == group) {
        if !versions.contains(&resource.version) {
            versions.push(resource.version);
        }
    }
    versions
}

/// Returns the resources of one version of a group, sorted by name as on the real server.
fn in_version<'a>(group: &'a str, version: &'a str) -> Vec<&'static Resource> {
    let mut resources: Vec<&Resource> =
        resource::all().filter(|r| r.group == group && r.version == version).collect();
    resources.sort_by_key(|resource| resource.plural);
    resources
}

fn group_entry(name: &str) -> Value {
    let versions: Vec<Value> = versions(name)
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_discovered() {
        for resource in resource::all() {
            let list = resources(resource.group, resource.version).unwrap();
            assert_eq!(list["groupVersion"], resource.api_version());
            let names: Vec<&str> =
                list["resources"].as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
            assert!(names.contains(&resource.plural), "{names:?}");
            let status = format!("{}/status", resource.plural);
            assert_eq!(names.contains(&status.as_str()), resource.has_status(), "{names:?}");
        }
    }

    #[test]
    fn unknown_groups_have_no_document() {
        assert_eq!(group("apps"), None);
        assert_eq!(group(""), None);
        assert_eq!(resources("", "v2"), None);
        assert_eq!(resources("apps", "v1"), None);
    }

    #[test]
    fn documents_are_shaped_as_upstreams() {
        insta::assert_json_snapshot!("api", core_versions("127.0.0.1:6443"));
        insta::assert_json_snapshot!("apis", groups());
        insta::assert_json_snapshot!("group", group("discovery.k8s.io"));
        insta::assert_json_snapshot!("resources", resources("", "v1"));
    }
}

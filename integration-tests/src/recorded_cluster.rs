//! One namespace of a real cluster, named `shop`, with its nodes and the outputs of Kubernetes'
//! controllers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::conformance::{Compare, ConformanceError, Snapshot, drop_hints, normal::normal_form};

/// Keeps hints in the normal form, or drops them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hints {
    Keep,
    Drop,
}

/// The objects of the recorded cluster, as its API server stored them.
#[derive(Debug, Clone)]
pub struct RecordedCluster {
    list: Value,
}

impl RecordedCluster {
    /// Reads the fixture.
    ///
    /// # Errors
    ///
    /// An error if reading the file fails or it is not JSON.
    pub fn load() -> Result<Self, ConformanceError> {
        let path = Self::path();
        let text =
            fs::read(&path).map_err(|source| ConformanceError::Unreadable { path: path.clone(), source })?;
        let list = serde_json::from_slice(&text)
            .map_err(|source| ConformanceError::Malformed { what: path.display().to_string(), source })?;
        Ok(Self { list })
    }

    /// Returns the path of the fixture.
    pub fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shop-cluster.json")
    }

    /// Returns the whole fixture, a `List`.
    pub fn list(&self) -> &Value {
        &self.list
    }

    /// Returns the namespace, nodes, pods, Services and the Endpoints that no controller wrote, in
    /// an order in which a client can create them.
    pub fn inputs(&self) -> Vec<&Value> {
        ["Namespace", "Node", "Pod", "Service", "Endpoints"]
            .into_iter()
            .flat_map(|kind| self.items().filter(move |item| item["kind"] == kind && !is_output(item)))
            .collect()
    }

    /// Returns the Endpoints and EndpointSlices that the controllers wrote.
    pub fn outputs(&self) -> Vec<&Value> {
        self.items().filter(|item| is_output(item)).collect()
    }

    /// Returns the normal form of the outputs and of the Endpoints that no controller wrote.
    pub fn expected(&self, compare: &Compare, hints: Hints) -> Value {
        normal_form_of_list(&self.list, compare, hints)
    }

    fn items(&self) -> impl Iterator<Item = &Value> {
        self.list["items"].as_array().into_iter().flatten()
    }
}

/// Returns true if a controller wrote the object.
fn is_output(item: &Value) -> bool {
    let labels = &item["metadata"]["labels"];
    match item["kind"].as_str() {
        Some("EndpointSlice") => labels.get("endpointslice.kubernetes.io/managed-by").is_some(),
        Some("Endpoints") => labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller",
        _ => false,
    }
}

/// Returns the normal form of a `List` of objects of one namespace, as printed by
/// `kubectl get ... -o json`.
///
/// The namespace is that of the first item that has one. References to the pods, Services and
/// Endpoints of the list replace uids, so that lists from different clusters are comparable.
pub fn normal_form_of_list(list: &Value, compare: &Compare, hints: Hints) -> Value {
    let namespace = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find_map(|item| item["metadata"]["namespace"].as_str())
        .unwrap_or_default();
    let mut form = normal_form(&Snapshot::of_list(list), namespace, compare);
    if hints == Hints::Drop {
        drop_hints(&mut form);
    }
    form
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn kinds(items: &[&Value]) -> BTreeMap<String, usize> {
        let mut kinds = BTreeMap::new();
        for item in items {
            *kinds.entry(item["kind"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        kinds
    }

    #[test]
    fn the_fixture_is_split_into_inputs_and_outputs() {
        let cluster = RecordedCluster::load().unwrap();
        let inputs = kinds(&cluster.inputs());
        assert_eq!(
            json!(inputs),
            json!({"Namespace": 1, "Node": 6, "Pod": 19, "Service": 9, "Endpoints": 1})
        );
        assert_eq!(json!(kinds(&cluster.outputs())), json!({"Endpoints": 7, "EndpointSlice": 10}));
    }

    #[test]
    fn the_normal_form_has_no_names_uids_or_times_of_the_cluster() {
        let form =
            RecordedCluster::load().unwrap().expected(&Compare::WITHOUT_TRIGGER, Hints::Keep).to_string();
        for own in ["\"shop\"", "uid:gone", "resourceVersion", "2026-", "5478ea3b"] {
            assert!(!form.contains(own), "{own}");
        }
    }

    #[test]
    fn the_normal_form_has_dual_stack_and_mirrored_slices() {
        let form = RecordedCluster::load().unwrap().expected(&Compare::WITHOUT_TRIGGER, Hints::Drop);
        let heads: Vec<String> = form["slices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| {
                format!(
                    "{} {} {} {}",
                    group["service"].as_str().unwrap(),
                    group["addressType"].as_str().unwrap(),
                    group["sizes"],
                    group["owners"][0].as_str().unwrap(),
                )
            })
            .collect();
        insta::assert_snapshot!(heads.join("\n"), @r#"
        nobody IPv4 [0] v1/Service/nobody uid:Service/nobody controller=True blockOwnerDeletion=True
        dns IPv4 [6] v1/Service/dns uid:Service/dns controller=True blockOwnerDeletion=True
        frontend IPv4 [6] v1/Service/frontend uid:Service/frontend controller=True blockOwnerDeletion=True
        frontend-typo IPv4 [6] v1/Service/frontend-typo uid:Service/frontend-typo controller=True blockOwnerDeletion=True
        db IPv4 [3] v1/Service/db uid:Service/db controller=True blockOwnerDeletion=True
        cart IPv4 [4] v1/Service/cart uid:Service/cart controller=True blockOwnerDeletion=True
        db-primary IPv4 [1] v1/Service/db-primary uid:Service/db-primary controller=True blockOwnerDeletion=True
        payments IPv4 [3] v1/Endpoints/payments uid:Endpoints/payments controller=True blockOwnerDeletion=True
        payments IPv6 [1] v1/Endpoints/payments uid:Endpoints/payments controller=True blockOwnerDeletion=True
        cart IPv6 [4] v1/Service/cart uid:Service/cart controller=True blockOwnerDeletion=True
        "#);
    }

    #[test]
    fn the_normal_form_of_one_endpoints_object() {
        let form = RecordedCluster::load().unwrap().expected(&Compare::default(), Hints::Drop);
        insta::assert_snapshot!(format!("{:#}", form["endpoints"]["db-primary"]), @r#"
        {
          "annotations": {
            "endpoints.kubernetes.io/last-change-trigger-time": "2026-11-20T12:19:09Z"
          },
          "labels": {
            "endpoints.kubernetes.io/managed-by": "endpoint-controller"
          },
          "subsets": [
            {
              "notReadyAddresses": [
                {
                  "ip": "10.244.5.5",
                  "nodeName": "node-4",
                  "targetRef": {
                    "kind": "Pod",
                    "name": "db-0",
                    "namespace": "$NS",
                    "uid": "uid:Pod/db-0"
                  }
                }
              ],
              "ports": [
                {
                  "name": "sql",
                  "port": 5432,
                  "protocol": "TCP"
                }
              ]
            }
          ]
        }
        "#);
    }
}

//! Tests that render treats objects of files, as a person writes them, as if the API server had set
//! its defaults.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_explain::render::to_list;
use kube_endpoint_explain::text::{Colors, rendered};
use kube_endpoint_explain::{Objects, Options, render};
use serde_json::Value;

const MANIFESTS: &str = r#"
kind: Node
metadata: {name: node-a, labels: {topology.kubernetes.io/zone: eu-a}}
status: {conditions: [{type: Ready, status: "True"}]}
---
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80}]
---
kind: Service
metadata: {name: peers}
spec:
  clusterIP: None
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
---
kind: Service
metadata: {name: outside}
spec:
  ports: [{port: 5432}]
---
kind: Endpoints
metadata: {name: outside}
subsets: [{addresses: [{ip: 192.0.2.9}], ports: [{port: 5432}]}]
---
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec:
  nodeName: node-a
  containers: [{name: app, ports: [{name: http, containerPort: 8080}]}]
status: {phase: Running, podIP: 10.1.0.1, conditions: [{type: Ready, status: "True"}]}
---
kind: Pod
metadata: {name: web-2, labels: {app: web}}
spec: {containers: [{name: app}]}
"#;

fn objects() -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(MANIFESTS).unwrap();
    Objects::read(documents).unwrap()
}

#[test]
fn a_table_has_a_row_for_each_object_and_names_the_pods_that_are_left_out() {
    insta::assert_snapshot!(rendered(&render(&objects(), &Options::default())).render(Colors::Off));
}

#[test]
fn a_list_can_be_created() {
    let list = to_list(&render(&objects(), &Options::default())).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&"v1".into(), &"List".into()));
    let web = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["metadata"]["generateName"] == "web-")
        .unwrap();
    insta::assert_snapshot!(format!("{web:#}"));
}

//! Tests that a server accepts the output of `kubectl diagnose-svc render`.

use std::path::Path;
use std::process::{Command, Stdio};

use kube_endpoint_integration_tests::processes::plugin;
use serde_json::Value;

use crate::kubectl::common::*;

/// Ports and protocols that the API fills in; several ports, one of them by name; two families; and
/// Endpoints of a user, which the controller mirrors.
const MANIFESTS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: defaults}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: ports}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http, appProtocol: kubernetes.io/h2c}
  - {name: dns, port: 53, protocol: UDP}
  - {name: admin, port: 8000, targetPort: 9000}
---
apiVersion: v1
kind: Service
metadata: {name: dual}
spec: {selector: {app: web}, ipFamilyPolicy: PreferDualStack, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: peers, labels: {tier: db}}
spec: {clusterIP: None, selector: {app: web}, publishNotReadyAddresses: true}
---
apiVersion: v1
kind: Service
metadata: {name: mirrored}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: mirrored, labels: {team: db}, annotations: {note: "made: by hand"}}
subsets:
- addresses: [{ip: 192.0.2.1, hostname: first}, {ip: "2001:db8::9"}]
  notReadyAddresses: [{ip: 192.0.2.2}]
  ports: [{port: 80}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec:
  nodeName: node-a
  containers: [{name: web, image: "web:1", ports: [{name: http, containerPort: 8080}]}]
status: {podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, labels: {app: web}}
spec: {nodeName: node-b, hostname: web-2, subdomain: peers, containers: [{name: web, image: "web:1"}]}
status: {podIPs: [{ip: 10.0.0.2}], conditions: [{type: Ready, status: "False"}]}
"#;

fn render(input: &str) -> String {
    let mut command = Command::new(plugin(Path::new(env!("CARGO_BIN_EXE_apiserver-process"))));
    command.args(["render", "-o", "yaml", "-f", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = output_of(command.spawn().unwrap(), input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn a_server_takes_what_is_rendered() {
    let kubectl = Kubectl::start();
    let would_create = |rendered: &str| {
        let (success, text) = kubectl.run("create --dry-run=server -o name -f -", rendered);
        assert!(success, "{text}\n{rendered}");
        let (mut slices, mut endpoints) = (0, Vec::new());
        for line in text.lines() {
            match line.split_once('/') {
                Some(("endpointslice.discovery.k8s.io", _)) => slices += 1,
                Some(("endpoints", name)) => endpoints.push(name.to_owned()),
                // kubectl 1.33 warns of Endpoints.
                _ => assert!(line.starts_with("Warning: "), "{line}"),
            }
        }
        (slices, endpoints)
    };
    let of_pods = ["defaults", "dual", "peers", "ports"];
    let (slices, endpoints) = would_create(&render(MANIFESTS));
    // Two each of `dual`, of `mirrored`, and of `ports`, since one of the pods has no port `http`.
    assert_eq!((slices, endpoints), (8, of_pods.map(str::to_owned).to_vec()));
    assert_eq!(kubectl.prints("get endpointslices -o name"), "", "nothing was created");
    // With the objects of the server, which have uids, the slices have owners.
    kubectl.run_ok("create --validate=false -f -", MANIFESTS);
    let stored = kubectl.prints("get services,pods,endpoints -o json");
    let objects: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(objects["items"].as_array().unwrap().len(), 5 + 2 + 1);
    let rendered = render(&stored);
    let (slices, endpoints) = would_create(&rendered);
    assert_eq!(rendered.matches("ownerReferences:").count(), slices, "{rendered}");
    // The server ignores the status of a new pod, so there are no addresses, and `ports` has one.
    assert_eq!((slices, endpoints), (7, of_pods.map(str::to_owned).to_vec()));
}

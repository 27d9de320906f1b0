//! Tests `explain SERVICE --from NAMESPACE/POD` on files: the embedded server has no
//! NetworkPolicies.

use std::path::Path;

use crate::files::told_of;

const FILES: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: web, image: example.com/web, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: front, labels: {app: client}}
spec: {containers: [{name: client, image: example.com/client}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: from-front, namespace: shop}
spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: front}}}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: to-shop, namespace: front}
spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}]}]}
"#;

fn told(words: &str, files: &str) -> String {
    told_of(Path::new("."), &format!("explain {words} -f -"), files)
}

#[test]
fn a_client_is_told_with_the_policies_that_may_keep_it_out() {
    let nobody = FILES.replace("egress: [{to: [{namespaceSelector: {}}]}]", "egress: []");
    let labels = FILES.replace("kubernetes.io/metadata.name: front", "team: front");
    insta::assert_snapshot!(
        [
            told("web --from front/client", FILES),
            told("web --from front/client", &nobody),
            told("web --from front/client", &labels),
        ]
        .join("\n")
    );
}

#[test]
fn a_client_that_cannot_be_one_is_an_error() {
    insta::assert_snapshot!(
        [
            told("web --from front/clinet", FILES),
            told("web --from client", FILES),
            told("pod/web --from front/client", FILES),
            told("EP012 --from front/client", FILES),
        ]
        .join("\n")
    );
}

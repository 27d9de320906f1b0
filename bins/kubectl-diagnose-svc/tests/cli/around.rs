//! Tests the explanations that begin beside Services, from manifests: the embedded server has none
//! of these kinds.

use std::path::Path;

use crate::files::told_of;

const SHOP: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec: {containers: [{name: web, image: example.com/web, ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: shop}
spec: {selector: {app: web, tier: backend}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: shop}
spec:
  ingressClassName: nginx
  rules:
  - host: shop.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /pay, pathType: Prefix, backend: {service: {name: web, port: {number: 81}}}}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: traefik}
spec: {controller: example.com/traefik}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: shop}
spec: {gatewayClassName: edge, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec: {parentRefs: [{name: edge}], hostnames: [web.example.com], rules: [{backendRefs: [{name: web, port: 80}]}]}
"#;

fn told(words: &str, manifests: &str) -> String {
    told_of(Path::new("."), words, manifests)
}

#[test]
fn a_workload_is_explained_by_the_services_that_select_its_pods() {
    let scaled = SHOP.replace("replicas: 2", "replicas: 0");
    let unlabelled = SHOP.replace("labels: {app: web, tier: front}", "labels: {app: wbe}");
    insta::assert_snapshot!(
        [
            told("explain deployment/web -f -", SHOP),
            told("explain deploy web -f -", &scaled),
            told("explain deployments/web -f -", &unlabelled),
            told("explain sts/web -f -", SHOP),
        ]
        .join("\n")
    );
}

#[test]
fn a_gateway_is_explained_by_the_routes_that_name_it() {
    insta::assert_snapshot!(
        [
            told("explain gateway/edge -f -", SHOP),
            told("explain gateway/edge -f -", &SHOP.replace("parentRefs: [{name: edge}]", "parentRefs: []")),
        ]
        .join("\n")
    );
}

/// Files that have no IngressClass tell nothing about one.
#[test]
fn an_ingress_whose_class_does_not_exist_says_so() {
    let is_told = |manifests: &str| {
        told("explain ingress/shop -f -", manifests).contains("IngressClass nginx does not exist")
    };
    assert!(is_told(SHOP));
    assert!(!is_told(&SHOP.replace("{name: traefik}", "{name: nginx}")));
    assert!(!is_told(&SHOP.replace("kind: IngressClass", "kind: Other")));
}

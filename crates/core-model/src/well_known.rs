//! Labels, annotations and names of managers that Kubernetes defines.

/// Label of a slice: name of its Service.
pub const LABEL_SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice: the controller that manages it.
pub const LABEL_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Label of slices and Endpoints of headless Services.
pub const LABEL_HEADLESS: &str = "service.kubernetes.io/headless";
/// Label of Endpoints: the controller that manages them.
pub const LABEL_ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Label of Endpoints: the mirroring controller ignores them if its value is `true`.
pub const LABEL_SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Label of a node: its zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Labels of control-plane nodes, with any value.
pub(crate) const LABELS_CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Annotation of slices and Endpoints: time of the change that caused the write.
pub const ANNOTATION_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Annotation of Endpoints that hold more than 1000 addresses.
pub const ANNOTATION_OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Value of [`ANNOTATION_OVER_CAPACITY`] if the controller left addresses out.
pub const TRUNCATED: &str = "truncated";
/// Annotation of a Service: topology mode.
pub const ANNOTATION_TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// Deprecated form of [`ANNOTATION_TOPOLOGY_MODE`]. It wins if both are set.
pub const ANNOTATION_TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// Old annotation of a Service: controllers publish pods that are not ready.
pub const ANNOTATION_TOLERATE_UNREADY: &str = "service.alpha.kubernetes.io/tolerate-unready-endpoints";
/// Annotation of Endpoints that are a leader-election lock.
pub const ANNOTATION_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotation that `kubectl apply` writes.
pub const ANNOTATION_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// API group of [`EndpointSelector`](crate::EndpointSelector).
pub const SELECTOR_GROUP: &str = "kube-endpoint-manager.github.io";
/// Annotation of a Service without a selector: name of the EndpointSelector that selects its pods.
pub const ANNOTATION_ENDPOINT_SELECTOR: &str = "kube-endpoint-manager.github.io/endpoint-selector";
/// Annotation of a Service: says if the endpoints controller publishes v1 Endpoints for it.
pub const ANNOTATION_ENDPOINTS: &str = "kube-endpoint-manager.github.io/endpoints";
/// Label of a slice: name of the EndpointSelector that selects its pods.
pub const LABEL_ENDPOINT_SELECTOR: &str = "kube-endpoint-manager.github.io/endpoint-selector";
/// Value of [`LABEL_MANAGED_BY`] on slices of Services that name an EndpointSelector.
pub const SELECTOR_CONTROLLER: &str = "endpoint-selector.kube-endpoint-manager.github.io";

/// Value of [`LABEL_MANAGED_BY`] on slices of selector Services.
pub const ENDPOINTSLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Value of [`LABEL_MANAGED_BY`] on mirrored slices.
pub const MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// Value of [`LABEL_ENDPOINTS_MANAGED_BY`].
pub const ENDPOINT_CONTROLLER: &str = "endpoint-controller";

/// Value of `spec.clusterIP` of a headless Service.
pub const CLUSTER_IP_NONE: &str = "None";

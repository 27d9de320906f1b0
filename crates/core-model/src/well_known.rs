//! Names of labels, annotations and managers that Kubernetes has agreed on.

/// Label of a slice: the Service that it belongs to.
pub const LABEL_SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of a slice: the controller that manages it.
pub const LABEL_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Label of slices and Endpoints of headless Services.
pub const LABEL_HEADLESS: &str = "service.kubernetes.io/headless";
/// Label of Endpoints: the controller that manages them.
pub const LABEL_ENDPOINTS_MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Label of Endpoints that asks for no mirroring when its value is `true`.
pub const LABEL_SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Label of a node: its zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Labels of nodes that carry no ordinary load, whatever their value.
pub const LABELS_CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Annotation of slices and Endpoints: when the change happened that made the controller write.
pub const ANNOTATION_TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Annotation of Endpoints that hold more than 1000 addresses.
pub const ANNOTATION_OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The value of [`ANNOTATION_OVER_CAPACITY`] when addresses were left out.
pub const TRUNCATED: &str = "truncated";
/// Annotation of a Service: topology mode.
pub const ANNOTATION_TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The deprecated form of [`ANNOTATION_TOPOLOGY_MODE`], which wins where both are set.
pub const ANNOTATION_TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// Old annotation of a Service: publish unready pods.
pub const ANNOTATION_TOLERATE_UNREADY: &str = "service.alpha.kubernetes.io/tolerate-unready-endpoints";
/// Annotation that marks Endpoints as a leader-election lock.
pub const ANNOTATION_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotation that `kubectl apply` leaves.
pub const ANNOTATION_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Value of [`LABEL_MANAGED_BY`] on slices of selector Services.
pub const ENDPOINTSLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Value of [`LABEL_MANAGED_BY`] on mirrored slices.
pub const MIRRORING_CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// Value of [`LABEL_ENDPOINTS_MANAGED_BY`].
pub const ENDPOINT_CONTROLLER: &str = "endpoint-controller";

/// The value of a Service's clusterIP that makes it headless.
pub const CLUSTER_IP_NONE: &str = "None";

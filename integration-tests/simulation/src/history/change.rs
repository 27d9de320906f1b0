//! The changes of users, kubelets and other controllers of a cluster. Objects have numbers; a
//! change of a missing object has no effect.

use crate::text::{text_enum, word_enum};

word_enum! {
    /// The target of a Service's port: a named port of a container, or a number.
    pub enum TargetPort {
        "web" Web
        "alt" Alt
        "8080" First
        "9090" Second
        "nowhere" Nowhere
    }
}

word_enum! {
    /// The pods that an EndpointSelector selects.
    pub enum Rule {
        /// Those of an app.
        "app" App
        /// Those of all apps, by `In`.
        "any-app" AnyApp
        /// Those of an app that are on no canary track, by `NotIn`.
        "stable" Stable
        /// Those on some track, by `Exists`.
        "tracked" Tracked
        /// Those on none, by `DoesNotExist`.
        "untracked" Untracked
        /// None, as with a mistyped label.
        "nobody" Nobody
        /// The API accepts the selector, and the controller does not.
        "invalid" Invalid
    }
}

word_enum! {
    /// The pods that an EndpointSelector has ready, of those that it selects.
    pub enum Readiness {
        "all-ready" AllReady
        /// Those with a true condition.
        "condition" Condition
        /// The one whose condition has become true last.
        "newest" Newest
        /// The one that holds the Lease with the number of the selector.
        "lease" Lease
        /// All but the one that holds the Lease with the number 0.
        "followers" Followers
    }
}

word_enum! {
    /// The identity with which a pod holds a Lease.
    pub enum Identity {
        /// Its name and a suffix.
        "name" Name
        "uid" Uid
        /// Its first address and a port.
        "address" Address
        /// A word that is no part of a pod, though a part of the word is its name.
        "nobody" Nobody
        /// Its name, and that of the next pod.
        "two-pods" TwoPods
    }
}

word_enum! {
    /// The annotation of a Service about its Endpoints.
    pub enum Retirement {
        "none" None
        "retired" Retired
        /// Retired for five minutes.
        "rehearsal" Rehearsal
        "published" Published
        /// A value that means nothing.
        "mistyped" Mistyped
    }
}

text_enum! {
    /// A change of inputs, or of outputs by hand.
    pub enum Change {
        "create-service" CreateService { service: u8, app: Option<u8>, headless: bool, unready: bool, families: u8 }
        "delete-service" DeleteService { service: u8 }
        /// Deletes a Service and creates one of the same name at once.
        "replace-service" ReplaceService { service: u8, app: Option<u8>, families: u8 }
        "select" Select { service: u8, app: Option<u8> }
        "label-service" LabelService { service: u8, value: u8 }
        "publish-unready" PublishUnready { service: u8, unready: bool }
        "distribute" Distribute { service: u8, close: bool }
        "convert-families" ConvertFamilies { service: u8, dual: bool }
        "service-ports" ServicePorts { service: u8, ports: u8 }
        /// Pods have other numbers for one name, so they move between slices.
        "target-port" TargetPort { service: u8, port: TargetPort }
        /// Asks for hints by the CPU of zones.
        "topology" Topology { service: u8, auto: bool }
        /// Makes or replaces a pod. Pods with the same number and another life have other uids and
        /// addresses.
        "pod" Pod { pod: u8, app: u8, ready: bool, node: u8, life: u8, terminating: bool }
        /// Makes a pod unready and ready again.
        "flap" Flap { pod: u8 }
        "relabel-pod" RelabelPod { pod: u8, app: u8 }
        /// Ends a pod as a kubelet does whose program ends, whose node shuts down, or whose pod is
        /// being deleted: it is unready first, then its phase changes.
        "finish-pod" FinishPod { pod: u8, failed: bool }
        /// Ends a pod as the pod garbage collector does whose node is gone, and as a kubelet before
        /// Kubernetes 1.24: its phase is `Failed`, and its condition `Ready` stays as it was.
        "evict-pod" EvictPod { pod: u8 }
        "delete-pod" DeletePod { pod: u8 }
        /// Replaces a pod by one that differs in its uid only.
        "replace-pod" ReplacePod { pod: u8 }
        /// Gives a pod the addresses of another one.
        "share-addresses" ShareAddresses { pod: u8, with: u8 }
        /// Replaces a pod by one whose init containers still run, or lets its kubelet go silent.
        "pod-phase" PodPhase { pod: u8, unknown: bool }
        /// Makes a pod on a node that may not exist.
        "pod-on-node" PodOnNode { pod: u8, node: u8 }
        /// Makes pods, or deletes them, until the app has this many.
        "scale" Scale { app: u8, pods: u16 }
        /// Makes pods of a scaled app ready or unready, from the first one.
        "ready" Ready { app: u8, pods: u16, ready: bool }
        "node" Node { node: u8, zone: u8 }
        "delete-node" DeleteNode { node: u8 }
        /// Deletes a node whose pods stay.
        "remove-node" RemoveNode { node: u8 }
        "endpoints" Endpoints { service: u8, addresses: Vec<u8>, families: u8 }
        "skip-mirror" SkipMirror { service: u8, skip: bool }
        /// Makes Endpoints as the endpoints controller writes them, of a Service that somebody
        /// deleted before the managers started.
        "leftover-endpoints" LeftoverEndpoints { service: u8 }
        /// Makes Endpoints that a user creates with the label of the endpoints controller: a copy,
        /// or a restore from a backup that creates the Service later.
        "copied-endpoints" CopiedEndpoints { service: u8 }
        "delete-endpoints" DeleteEndpoints { service: u8 }
        "edit-endpoints" EditEndpoints { service: u8 }
        "delete-slice" DeleteSlice { nth: u8 }
        "empty-slice" EmptySlice { nth: u8 }
        "label-slice" LabelSlice { nth: u8 }
        /// Adds an address to a slice that no pod and no Endpoints have.
        "add-endpoint" AddEndpoint { nth: u8 }
        /// Adds the first endpoint of a slice to another slice of its Service.
        "copy-endpoint" CopyEndpoint { nth: u8 }
        /// Creates a slice beside one that equals it except for its name.
        "copy-slice" CopySlice { nth: u8 }
        /// Removes the owner references of a slice.
        "disown-slice" DisownSlice { nth: u8 }
        /// Moves a slice to another manager by its label.
        "take-slice" TakeSlice { nth: u8 }
        /// Creates a slice of a Service that another controller manages.
        "foreign-slice" ForeignSlice { service: u8, number: u8 }
        "delete-namespace" DeleteNamespace { namespace: u8 }
        "create-namespace" CreateNamespace { namespace: u8 }
        /// Creates or changes an EndpointSelector.
        "endpoint-selector" EndpointSelector { selector: u8, rule: Rule, app: u8, readiness: Readiness = Readiness::AllReady }
        "delete-endpoint-selector" DeleteEndpointSelector { selector: u8 }
        /// Deletes each EndpointSelector, as the deletion of their CRD does.
        "delete-endpoint-selectors" DeleteEndpointSelectors {}
        /// Lets a Service name an EndpointSelector instead of having a selector, in one request.
        "attach" Attach { service: u8, selector: u8 }
        /// Gives a Service a selector back, and removes the annotation, in one request.
        "hand-back" HandBack { service: u8, app: u8 }
        /// Sets or removes the annotation only.
        "annotate" Annotate { service: u8, selector: Option<u8> }
        /// Sets the track of a pod, or removes it with 0. The tracks from 2 on are canaries.
        "track-pod" TrackPod { pod: u8, track: u8 }
        /// Creates `default/kubernetes` as the API server does, with Endpoints. Somebody lets it
        /// name an EndpointSelector.
        "attach-kubernetes" AttachKubernetes { selector: u8 }
        /// Lets a pod hold a Lease, and renew it every two seconds until another step about the
        /// Lease. Its clock is ahead by `skew` seconds.
        "lead" Lead { lease: u8, pod: u8, identity: Identity, duration: u16, skew: i64 }
        /// Lets the holder of a Lease die. With `restarts`, the kubelet starts its container again,
        /// and the pod stays ready.
        "die" Die { lease: u8, restarts: bool = false }
        /// Lets the holder of a Lease release it.
        "release" Release { lease: u8 }
        /// Deletes a Lease. A holder that lives makes it anew when it renews.
        "delete-lease" DeleteLease { lease: u8 }
        /// Sets a pod's condition by which EndpointSelectors choose. The writer's clock is ahead by
        /// `skew` seconds.
        "condition" Condition { pod: u8, is_true: bool, skew: i64 }
        /// Begins the deletion of a pod, whose conditions stay as they are.
        "terminate" Terminate { pod: u8 }
        /// Sets or removes the annotation of a Service that says if it has Endpoints.
        "retire" Retire { service: u8, setting: Retirement }
    }
}

impl Change {
    /// The words of the changes in histories beside kube-controller-manager only.
    pub const BESIDE: &[&str] = &[
        "endpoint-selector",
        "delete-endpoint-selector",
        "delete-endpoint-selectors",
        "attach",
        "hand-back",
        "annotate",
        "track-pod",
        "attach-kubernetes",
    ];

    /// The words of the changes in histories of Services with one ready pod only.
    pub const LEADING: &[&str] = &["lead", "die", "release", "delete-lease", "condition"];

    /// The words of the changes in histories of Services without Endpoints only.
    pub const RETIRED: &[&str] = &["retire"];

    /// Returns true if it writes Endpoints.
    pub fn writes_endpoints(&self) -> bool {
        matches!(
            self,
            Self::Endpoints { .. }
                | Self::CopiedEndpoints { .. }
                | Self::SkipMirror { .. }
                | Self::DeleteEndpoints { .. }
                | Self::EditEndpoints { .. }
        )
    }
}

//! The status of a pod and of its containers.

use super::pod::ResourceRequirements;
use super::{Shape::*, go_types};

go_types! {
    PodCondition {
        "lastProbeTime" keep Time,
        "lastTransitionTime" keep Time,
        "message" omit Text("string"),
        "observedGeneration" omit Int64,
        "reason" omit Text("string"),
        "status" keep Text("v1.ConditionStatus"),
        "type" keep Text("v1.PodConditionType"),
    }
    HostIP {
        "ip" keep Text("string"),
    }
    PodIP {
        "ip" keep Text("string"),
    }
    ContainerStateWaiting {
        "message" omit Text("string"),
        "reason" omit Text("string"),
    }
    ContainerStateRunning {
        "startedAt" keep Time,
    }
    ContainerStateTerminated {
        "containerID" omit Text("string"),
        "exitCode" keep Int32,
        "finishedAt" keep Time,
        "message" omit Text("string"),
        "reason" omit Text("string"),
        "signal" omit Int32,
        "startedAt" keep Time,
    }
    ContainerState {
        "running" opt Object(&ContainerStateRunning),
        "terminated" opt Object(&ContainerStateTerminated),
        "waiting" opt Object(&ContainerStateWaiting),
    }
    ContainerStatus {
        "allocatedResources" omit Map(&Quantity),
        "allocatedResourcesStatus" omit List(&Any),
        "containerID" omit Text("string"),
        "image" keep Text("string"),
        "imageID" keep Text("string"),
        "lastState" keep Object(&ContainerState),
        "name" keep Text("string"),
        "ready" keep Bool,
        "resources" opt Object(&ResourceRequirements),
        "restartCount" keep Int32,
        "started" opt Bool,
        "state" keep Object(&ContainerState),
        "stopSignal" opt Text("v1.Signal"),
        "user" opt Any,
        "volumeMounts" omit List(&Any),
    }
    PodStatus {
        "allocatedResources" omit Map(&Quantity),
        "conditions" omit List(&Object(&PodCondition)),
        "containerStatuses" omit List(&Object(&ContainerStatus)),
        "ephemeralContainerStatuses" omit List(&Object(&ContainerStatus)),
        "extendedResourceClaimStatus" opt Any,
        "hostIP" omit Text("string"),
        "hostIPs" omit List(&Object(&HostIP)),
        "initContainerStatuses" omit List(&Object(&ContainerStatus)),
        "message" omit Text("string"),
        "nodeAllocatableResourceClaimStatuses" omit List(&Any),
        "nominatedNodeName" omit Text("string"),
        "observedGeneration" omit Int64,
        "phase" omit Text("v1.PodPhase"),
        "podIP" omit Text("string"),
        "podIPs" omit List(&Object(&PodIP)),
        "qosClass" omit Text("v1.PodQOSClass"),
        "reason" omit Text("string"),
        "resize" omit Text("v1.PodResizeStatus"),
        "resourceClaimStatuses" omit List(&Any),
        "resources" opt Object(&ResourceRequirements),
        "startTime" opt Time,
    }
}

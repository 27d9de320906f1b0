//! The status of a pod and of its containers.

use super::container::ResourceRequirements;
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
    ImageVolumeStatus {
        "imageRef" omit Text("string"),
    }
    VolumeStatus {
        "image" opt Object(&ImageVolumeStatus),
    }
    VolumeMountStatus {
        "mountPath" keep Text("string"),
        "name" keep Text("string"),
        "readOnly" omit Bool,
        "recursiveReadOnly" opt Text("v1.RecursiveReadOnlyMode"),
        "volumeStatus" opt Object(&VolumeStatus),
    }
    LinuxContainerUser {
        "gid" keep Int64,
        "supplementalGroups" omit List(&Int64),
        "uid" keep Int64,
    }
    ContainerUser {
        "linux" opt Object(&LinuxContainerUser),
    }
    ResourceHealth {
        "health" omit Text("v1.ResourceHealthStatus"),
        "message" opt Text("string"),
        "resourceID" keep Text("v1.ResourceID"),
    }
    ResourceStatus {
        "name" keep Text("v1.ResourceName"),
        "resources" omit List(&Object(&ResourceHealth)),
    }
    ContainerStatus {
        "allocatedResources" omit Map(&Quantity),
        "allocatedResourcesStatus" omit List(&Object(&ResourceStatus)),
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
        "user" opt Object(&ContainerUser),
        "volumeMounts" omit List(&Object(&VolumeMountStatus)),
    }
    PodResourceClaimStatus {
        "name" keep Text("string"),
        "resourceClaimName" opt Text("string"),
    }
    ContainerExtendedResourceRequest {
        "containerName" keep Text("string"),
        "requestName" keep Text("string"),
        "resourceName" keep Text("string"),
    }
    PodExtendedResourceClaimStatus {
        "requestMappings" keep List(&Object(&ContainerExtendedResourceRequest)),
        "resourceClaimName" keep Text("string"),
    }
    NodeAllocatableResourceClaimStatus {
        "containers" omit List(&Text("string")),
        "resourceClaimName" keep Text("string"),
        "resources" keep Map(&Quantity),
    }
    PodStatus {
        "allocatedResources" omit Map(&Quantity),
        "conditions" omit List(&Object(&PodCondition)),
        "containerStatuses" omit List(&Object(&ContainerStatus)),
        "ephemeralContainerStatuses" omit List(&Object(&ContainerStatus)),
        "extendedResourceClaimStatus" opt Object(&PodExtendedResourceClaimStatus),
        "hostIP" omit Text("string"),
        "hostIPs" omit List(&Object(&HostIP)),
        "initContainerStatuses" omit List(&Object(&ContainerStatus)),
        "message" omit Text("string"),
        "nodeAllocatableResourceClaimStatuses" omit List(&Object(&NodeAllocatableResourceClaimStatus)),
        "nominatedNodeName" omit Text("string"),
        "observedGeneration" omit Int64,
        "phase" omit Text("v1.PodPhase"),
        "podIP" omit Text("string"),
        "podIPs" omit List(&Object(&PodIP)),
        "qosClass" omit Text("v1.PodQOSClass"),
        "reason" omit Text("string"),
        "resize" omit Text("v1.PodResizeStatus"),
        "resourceClaimStatuses" omit List(&Object(&PodResourceClaimStatus)),
        "resources" opt Object(&ResourceRequirements),
        "startTime" opt Time,
    }
}

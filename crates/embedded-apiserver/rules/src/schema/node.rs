//! Node and the types inside it.

use super::meta::ObjectMeta;
use super::{Shape::*, go_types, kinds};

go_types! {
    Taint {
        "effect" keep Text("v1.TaintEffect"),
        "key" keep Text("string"),
        "timeAdded" opt Time,
        "value" omit Text("string"),
    }
    NodeSpec {
        "configSource" opt Any,
        "externalID" omit Text("string"),
        "podCIDR" omit Text("string"),
        "podCIDRs" omit List(&Text("string")),
        "providerID" omit Text("string"),
        "taints" omit List(&Object(&Taint)),
        "unschedulable" omit Bool,
    }
    NodeCondition {
        "lastHeartbeatTime" keep Time,
        "lastTransitionTime" keep Time,
        "message" omit Text("string"),
        "reason" omit Text("string"),
        "status" keep Text("v1.ConditionStatus"),
        "type" keep Text("v1.NodeConditionType"),
    }
    NodeAddress {
        "address" keep Text("string"),
        "type" keep Text("v1.NodeAddressType"),
    }
    DaemonEndpoint {
        "Port" keep Int32,
    }
    NodeDaemonEndpoints {
        "kubeletEndpoint" keep Object(&DaemonEndpoint),
    }
    NodeSystemInfo {
        "architecture" keep Text("string"),
        "bootID" keep Text("string"),
        "containerRuntimeVersion" keep Text("string"),
        "kernelVersion" keep Text("string"),
        "kubeProxyVersion" keep Text("string"),
        "kubeletVersion" keep Text("string"),
        "machineID" keep Text("string"),
        "operatingSystem" keep Text("string"),
        "osImage" keep Text("string"),
        "swap" opt Any,
        "systemUUID" keep Text("string"),
    }
    NodeStatus {
        "addresses" omit List(&Object(&NodeAddress)),
        "allocatable" omit Map(&Quantity),
        "capacity" omit Map(&Quantity),
        "conditions" omit List(&Object(&NodeCondition)),
        "config" opt Any,
        "daemonEndpoints" keep Object(&NodeDaemonEndpoints),
        "declaredFeatures" omit List(&Text("string")),
        "features" opt Any,
        "images" omit List(&Any),
        "nodeInfo" keep Object(&NodeSystemInfo),
        "phase" omit Text("v1.NodePhase"),
        "runtimeHandlers" omit List(&Any),
        "volumesAttached" omit List(&Any),
        "volumesInUse" omit List(&Text("v1.UniqueVolumeName")),
    }
}

kinds! {
    Node {
        "spec" keep Object(&NodeSpec),
        "status" keep Object(&NodeStatus),
    }
}

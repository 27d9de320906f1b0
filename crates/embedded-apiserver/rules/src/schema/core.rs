//! Namespaces, services, endpoints and events of core/v1, and the references that several kinds
//! share.

use super::meta::{Condition, ObjectMeta};
use super::{Shape::*, go_types, kinds};

go_types! {
    NamespaceSpec {
        "finalizers" omit List(&Text("v1.FinalizerName")),
    }
    NamespaceCondition {
        "lastTransitionTime" keep Time,
        "message" omit Text("string"),
        "reason" omit Text("string"),
        "status" keep Text("v1.ConditionStatus"),
        "type" keep Text("v1.NamespaceConditionType"),
    }
    NamespaceStatus {
        "conditions" omit List(&Object(&NamespaceCondition)),
        "phase" omit Text("v1.NamespacePhase"),
    }
    ServicePort {
        "appProtocol" opt Text("string"),
        "name" omit Text("string"),
        "nodePort" omit Int32,
        "port" keep Int32,
        "protocol" omit Text("v1.Protocol"),
        "targetPort" keep IntOrString,
    }
    ClientIPConfig {
        "timeoutSeconds" opt Int32,
    }
    SessionAffinityConfig {
        "clientIP" opt Object(&ClientIPConfig),
    }
    ServiceSpec {
        "allocateLoadBalancerNodePorts" opt Bool,
        "clusterIP" omit Text("string"),
        "clusterIPs" omit List(&Text("string")),
        "externalIPs" omit List(&Text("string")),
        "externalName" omit Text("string"),
        "externalTrafficPolicy" omit Text("v1.ServiceExternalTrafficPolicy"),
        "healthCheckNodePort" omit Int32,
        "internalTrafficPolicy" opt Text("v1.ServiceInternalTrafficPolicy"),
        "ipFamilies" omit List(&Text("v1.IPFamily")),
        "ipFamilyPolicy" opt Text("v1.IPFamilyPolicy"),
        "loadBalancerClass" opt Text("string"),
        "loadBalancerIP" omit Text("string"),
        "loadBalancerSourceRanges" omit List(&Text("string")),
        "ports" omit List(&Object(&ServicePort)),
        "publishNotReadyAddresses" omit Bool,
        "selector" omit Map(&Text("string")),
        "sessionAffinity" omit Text("v1.ServiceAffinity"),
        "sessionAffinityConfig" opt Object(&SessionAffinityConfig),
        "trafficDistribution" opt Text("string"),
        "type" omit Text("v1.ServiceType"),
    }
    PortStatus {
        "error" opt Text("string"),
        "port" keep Int32,
        "protocol" keep Text("v1.Protocol"),
    }
    LoadBalancerIngress {
        "hostname" omit Text("string"),
        "ip" omit Text("string"),
        "ipMode" opt Text("v1.LoadBalancerIPMode"),
        "ports" omit List(&Object(&PortStatus)),
    }
    LoadBalancerStatus {
        "ingress" omit List(&Object(&LoadBalancerIngress)),
    }
    ServiceStatus {
        "conditions" omit List(&Object(&Condition)),
        "loadBalancer" keep Object(&LoadBalancerStatus),
    }
    ObjectReference {
        "apiVersion" omit Text("string"),
        "fieldPath" omit Text("string"),
        "kind" omit Text("string"),
        "name" omit Text("string"),
        "namespace" omit Text("string"),
        "resourceVersion" omit Text("string"),
        "uid" omit Text("types.UID"),
    }
    EndpointAddress {
        "hostname" omit Text("string"),
        "ip" keep Text("string"),
        "nodeName" opt Text("string"),
        "targetRef" opt Object(&ObjectReference),
    }
    EndpointPort {
        "appProtocol" opt Text("string"),
        "name" omit Text("string"),
        "port" keep Int32,
        "protocol" omit Text("v1.Protocol"),
    }
    EndpointSubset {
        "addresses" omit List(&Object(&EndpointAddress)),
        "notReadyAddresses" omit List(&Object(&EndpointAddress)),
        "ports" omit List(&Object(&EndpointPort)),
    }
    EventSource {
        "component" omit Text("string"),
        "host" omit Text("string"),
    }
    EventSeries {
        "count" omit Int32,
        "lastObservedTime" keep MicroTime,
    }
}

kinds! {
    Namespace {
        "spec" keep Object(&NamespaceSpec),
        "status" keep Object(&NamespaceStatus),
    }
    Service {
        "spec" keep Object(&ServiceSpec),
        "status" keep Object(&ServiceStatus),
    }
    Endpoints {
        "subsets" omit List(&Object(&EndpointSubset)),
    }
    Event {
        "action" omit Text("string"),
        "count" omit Int32,
        "eventTime" keep MicroTime,
        "firstTimestamp" keep Time,
        "involvedObject" keep Object(&ObjectReference),
        "lastTimestamp" keep Time,
        "message" omit Text("string"),
        "reason" omit Text("string"),
        "related" opt Object(&ObjectReference),
        "reportingComponent" keep Text("string"),
        "reportingInstance" keep Text("string"),
        "series" opt Object(&EventSeries),
        "source" keep Object(&EventSource),
        "type" omit Text("string"),
    }
}

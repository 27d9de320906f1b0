//! Pod, its specification and its containers.
//!
//! Fields that neither endpoint controllers nor kubectl read have no table, and the server stores
//! them as given: probes, volumes, affinity, security contexts and the like.

use super::meta::ObjectMeta;
use super::pod_status::PodStatus;
use super::{Shape::*, go_types, kinds};

go_types! {
    ContainerPort {
        "containerPort" keep Int32,
        "hostIP" omit Text("string"),
        "hostPort" omit Int32,
        "name" omit Text("string"),
        "protocol" omit Text("v1.Protocol"),
    }
    EnvVar {
        "name" keep Text("string"),
        "value" omit Text("string"),
        "valueFrom" opt Any,
    }
    ResourceRequirements {
        "claims" omit List(&Any),
        "limits" omit Map(&Quantity),
        "requests" omit Map(&Quantity),
    }
    Container {
        "args" omit List(&Text("string")),
        "command" omit List(&Text("string")),
        "env" omit List(&Object(&EnvVar)),
        "envFrom" omit List(&Any),
        "image" omit Text("string"),
        "imagePullPolicy" omit Text("v1.PullPolicy"),
        "lifecycle" opt Any,
        "livenessProbe" opt Any,
        "name" keep Text("string"),
        "ports" omit List(&Object(&ContainerPort)),
        "readinessProbe" opt Any,
        "resizePolicy" omit List(&Any),
        "resources" keep Object(&ResourceRequirements),
        "restartPolicy" opt Text("v1.ContainerRestartPolicy"),
        "restartPolicyRules" omit List(&Any),
        "securityContext" opt Any,
        "startupProbe" opt Any,
        "stdin" omit Bool,
        "stdinOnce" omit Bool,
        "terminationMessagePath" omit Text("string"),
        "terminationMessagePolicy" omit Text("v1.TerminationMessagePolicy"),
        "tty" omit Bool,
        "volumeDevices" omit List(&Any),
        "volumeMounts" omit List(&Any),
        "workingDir" omit Text("string"),
    }
    Toleration {
        "effect" omit Text("v1.TaintEffect"),
        "key" omit Text("string"),
        "operator" omit Text("v1.TolerationOperator"),
        "tolerationSeconds" opt Int64,
        "value" omit Text("string"),
    }
    PodReadinessGate {
        "conditionType" keep Text("v1.PodConditionType"),
    }
    PodSpec {
        "activeDeadlineSeconds" opt Int64,
        "affinity" opt Any,
        "automountServiceAccountToken" opt Bool,
        "containers" keep List(&Object(&Container)),
        "dnsConfig" opt Any,
        "dnsPolicy" omit Text("v1.DNSPolicy"),
        "enableServiceLinks" opt Bool,
        "ephemeralContainers" omit List(&Any),
        "hostAliases" omit List(&Any),
        "hostIPC" omit Bool,
        "hostNetwork" omit Bool,
        "hostPID" omit Bool,
        "hostUsers" opt Bool,
        "hostname" omit Text("string"),
        "hostnameOverride" opt Text("string"),
        "imagePullSecrets" omit List(&Any),
        "initContainers" omit List(&Object(&Container)),
        "nodeName" omit Text("string"),
        "nodeSelector" omit Map(&Text("string")),
        "os" opt Any,
        "overhead" omit Map(&Quantity),
        "preemptionPolicy" opt Text("v1.PreemptionPolicy"),
        "priority" opt Int32,
        "priorityClassName" omit Text("string"),
        "readinessGates" omit List(&Object(&PodReadinessGate)),
        "resourceClaims" omit List(&Any),
        "resources" opt Object(&ResourceRequirements),
        "restartPolicy" omit Text("v1.RestartPolicy"),
        "runtimeClassName" opt Text("string"),
        "schedulerName" omit Text("string"),
        "schedulingGates" omit List(&Any),
        "schedulingGroup" opt Any,
        "securityContext" opt Any,
        "serviceAccount" omit Text("string"),
        "serviceAccountName" omit Text("string"),
        "setHostnameAsFQDN" opt Bool,
        "shareProcessNamespace" opt Bool,
        "subdomain" omit Text("string"),
        "terminationGracePeriodSeconds" opt Int64,
        "tolerations" omit List(&Object(&Toleration)),
        "topologySpreadConstraints" omit List(&Any),
        "volumes" omit List(&Any),
    }
}

kinds! {
    Pod {
        "spec" keep Object(&PodSpec),
        "status" keep Object(&PodStatus),
    }
}

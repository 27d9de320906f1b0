//! Pod and its specification: affinity, tolerations, DNS, scheduling.

use super::container::{
    AppArmorProfile, Container, EphemeralContainer, ResourceRequirements, SELinuxOptions, SeccompProfile,
    WindowsSecurityContextOptions,
};
use super::meta::{LabelSelector, ObjectMeta};
use super::pod_status::PodStatus;
use super::volume::LocalObjectReference;
use super::{Shape::*, go_types};

go_types! {
    Sysctl {
        "name" keep Text("string"),
        "value" keep Text("string"),
    }
    PodSecurityContext {
        "appArmorProfile" opt Object(&AppArmorProfile),
        "fsGroup" opt Int64,
        "fsGroupChangePolicy" opt Text("v1.PodFSGroupChangePolicy"),
        "runAsGroup" opt Int64,
        "runAsNonRoot" opt Bool,
        "runAsUser" opt Int64,
        "seLinuxChangePolicy" opt Text("v1.PodSELinuxChangePolicy"),
        "seLinuxOptions" opt Object(&SELinuxOptions),
        "seccompProfile" opt Object(&SeccompProfile),
        "supplementalGroups" omit List(&Int64),
        "supplementalGroupsPolicy" opt Text("v1.SupplementalGroupsPolicy"),
        "sysctls" omit List(&Object(&Sysctl)),
        "windowsOptions" opt Object(&WindowsSecurityContextOptions),
    }
    NodeSelectorRequirement {
        "key" keep Text("string"),
        "operator" keep Text("v1.NodeSelectorOperator"),
        "values" omit List(&Text("string")),
    }
    NodeSelectorTerm {
        "matchExpressions" omit List(&Object(&NodeSelectorRequirement)),
        "matchFields" omit List(&Object(&NodeSelectorRequirement)),
    }
    NodeSelector {
        "nodeSelectorTerms" keep List(&Object(&NodeSelectorTerm)),
    }
    PreferredSchedulingTerm {
        "preference" keep Object(&NodeSelectorTerm),
        "weight" keep Int32,
    }
    NodeAffinity {
        "preferredDuringSchedulingIgnoredDuringExecution" omit List(&Object(&PreferredSchedulingTerm)),
        "requiredDuringSchedulingIgnoredDuringExecution" opt Object(&NodeSelector),
    }
    PodAffinityTerm {
        "labelSelector" opt Object(&LabelSelector),
        "matchLabelKeys" omit List(&Text("string")),
        "mismatchLabelKeys" omit List(&Text("string")),
        "namespaceSelector" opt Object(&LabelSelector),
        "namespaces" omit List(&Text("string")),
        "topologyKey" keep Text("string"),
    }
    WeightedPodAffinityTerm {
        "podAffinityTerm" keep Object(&PodAffinityTerm),
        "weight" keep Int32,
    }
    PodAffinity {
        "preferredDuringSchedulingIgnoredDuringExecution" omit List(&Object(&WeightedPodAffinityTerm)),
        "requiredDuringSchedulingIgnoredDuringExecution" omit List(&Object(&PodAffinityTerm)),
    }
    PodAntiAffinity {
        "preferredDuringSchedulingIgnoredDuringExecution" omit List(&Object(&WeightedPodAffinityTerm)),
        "requiredDuringSchedulingIgnoredDuringExecution" omit List(&Object(&PodAffinityTerm)),
    }
    Affinity {
        "nodeAffinity" opt Object(&NodeAffinity),
        "podAffinity" opt Object(&PodAffinity),
        "podAntiAffinity" opt Object(&PodAntiAffinity),
    }
    Toleration {
        "effect" omit Text("v1.TaintEffect"),
        "key" omit Text("string"),
        "operator" omit Text("v1.TolerationOperator"),
        "tolerationSeconds" opt Int64,
        "value" omit Text("string"),
    }
    HostAlias {
        "hostnames" omit List(&Text("string")),
        "ip" keep Text("string"),
    }
    PodDNSConfigOption {
        "name" omit Text("string"),
        "value" opt Text("string"),
    }
    PodDNSConfig {
        "nameservers" omit List(&Text("string")),
        "options" omit List(&Object(&PodDNSConfigOption)),
        "searches" omit List(&Text("string")),
    }
    PodReadinessGate {
        "conditionType" keep Text("v1.PodConditionType"),
    }
    TopologySpreadConstraint {
        "labelSelector" opt Object(&LabelSelector),
        "matchLabelKeys" omit List(&Text("string")),
        "maxSkew" keep Int32,
        "minDomains" opt Int32,
        "nodeAffinityPolicy" opt Text("v1.NodeInclusionPolicy"),
        "nodeTaintsPolicy" opt Text("v1.NodeInclusionPolicy"),
        "topologyKey" keep Text("string"),
        "whenUnsatisfiable" keep Text("v1.UnsatisfiableConstraintAction"),
    }
    PodOS {
        "name" keep Text("v1.OSName"),
    }
    PodSchedulingGate {
        "name" keep Text("string"),
    }
    PodResourceClaim {
        "name" keep Text("string"),
        "resourceClaimName" opt Text("string"),
        "resourceClaimTemplateName" opt Text("string"),
    }
    PodSchedulingGroup {
        "podGroupName" opt Text("string"),
    }
    PodSpec {
        "activeDeadlineSeconds" opt Int64,
        "affinity" opt Object(&Affinity),
        "automountServiceAccountToken" opt Bool,
        "containers" keep List(&Object(&Container)),
        "dnsConfig" opt Object(&PodDNSConfig),
        "dnsPolicy" omit Text("v1.DNSPolicy"),
        "enableServiceLinks" opt Bool,
        "ephemeralContainers" omit List(&Object(&EphemeralContainer)),
        "hostAliases" omit List(&Object(&HostAlias)),
        "hostIPC" omit Bool,
        "hostNetwork" omit Bool,
        "hostPID" omit Bool,
        "hostUsers" opt Bool,
        "hostname" omit Text("string"),
        "hostnameOverride" opt Text("string"),
        "imagePullSecrets" omit List(&Object(&LocalObjectReference)),
        "initContainers" omit List(&Object(&Container)),
        "nodeName" omit Text("string"),
        "nodeSelector" omit Map(&Text("string")),
        "os" opt Object(&PodOS),
        "overhead" omit Map(&Quantity),
        "preemptionPolicy" opt Text("v1.PreemptionPolicy"),
        "priority" opt Int32,
        "priorityClassName" omit Text("string"),
        "readinessGates" omit List(&Object(&PodReadinessGate)),
        "resourceClaims" omit List(&Object(&PodResourceClaim)),
        "resources" opt Object(&ResourceRequirements),
        "restartPolicy" omit Text("v1.RestartPolicy"),
        "runtimeClassName" opt Text("string"),
        "schedulerName" omit Text("string"),
        "schedulingGates" omit List(&Object(&PodSchedulingGate)),
        "schedulingGroup" opt Object(&PodSchedulingGroup),
        "securityContext" opt Object(&PodSecurityContext),
        "serviceAccount" omit Text("string"),
        "serviceAccountName" omit Text("string"),
        "setHostnameAsFQDN" opt Bool,
        "shareProcessNamespace" opt Bool,
        "subdomain" omit Text("string"),
        "terminationGracePeriodSeconds" opt Int64,
        "tolerations" omit List(&Object(&Toleration)),
        "topologySpreadConstraints" omit List(&Object(&TopologySpreadConstraint)),
        "volumes" omit List(&Any),
    }
    Pod {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&PodSpec),
        "status" keep Object(&PodStatus),
    }
}

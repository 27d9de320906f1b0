//! Containers of a pod, with their probes, environment, resources and security context.

use super::volume::{ObjectFieldSelector, ResourceFieldSelector};
use super::{Shape::*, go_types};

go_types! {
    ContainerPort {
        "containerPort" keep Int32,
        "hostIP" omit Text("string"),
        "hostPort" omit Int32,
        "name" omit Text("string"),
        "protocol" omit Text("v1.Protocol"),
    }
    ConfigMapEnvSource {
        "name" omit Text("string"),
        "optional" opt Bool,
    }
    SecretEnvSource {
        "name" omit Text("string"),
        "optional" opt Bool,
    }
    EnvFromSource {
        "configMapRef" opt Object(&ConfigMapEnvSource),
        "prefix" omit Text("string"),
        "secretRef" opt Object(&SecretEnvSource),
    }
    ConfigMapKeySelector {
        "key" keep Text("string"),
        "name" omit Text("string"),
        "optional" opt Bool,
    }
    SecretKeySelector {
        "key" keep Text("string"),
        "name" omit Text("string"),
        "optional" opt Bool,
    }
    FileKeySelector {
        "key" keep Text("string"),
        "optional" opt Bool,
        "path" keep Text("string"),
        "volumeName" keep Text("string"),
    }
    EnvVarSource {
        "configMapKeyRef" opt Object(&ConfigMapKeySelector),
        "fieldRef" opt Object(&ObjectFieldSelector),
        "fileKeyRef" opt Object(&FileKeySelector),
        "resourceFieldRef" opt Object(&ResourceFieldSelector),
        "secretKeyRef" opt Object(&SecretKeySelector),
    }
    EnvVar {
        "name" keep Text("string"),
        "value" omit Text("string"),
        "valueFrom" opt Object(&EnvVarSource),
    }
    ResourceClaim {
        "name" keep Text("string"),
        "request" omit Text("string"),
    }
    ResourceRequirements {
        "claims" omit List(&Object(&ResourceClaim)),
        "limits" omit Map(&Quantity),
        "requests" omit Map(&Quantity),
    }
    ContainerResizePolicy {
        "resourceName" keep Text("v1.ResourceName"),
        "restartPolicy" keep Text("v1.ResourceResizeRestartPolicy"),
    }
    ContainerRestartRuleOnExitCodes {
        "operator" omit Text("v1.ContainerRestartRuleOnExitCodesOperator"),
        "values" omit List(&Int32),
    }
    ContainerRestartRule {
        "action" omit Text("v1.ContainerRestartRuleAction"),
        "exitCodes" opt Object(&ContainerRestartRuleOnExitCodes),
    }
    VolumeMount {
        "mountPath" keep Text("string"),
        "mountPropagation" opt Text("v1.MountPropagationMode"),
        "name" keep Text("string"),
        "readOnly" omit Bool,
        "recursiveReadOnly" opt Text("v1.RecursiveReadOnlyMode"),
        "subPath" omit Text("string"),
        "subPathExpr" omit Text("string"),
    }
    VolumeDevice {
        "devicePath" keep Text("string"),
        "name" keep Text("string"),
    }
    ExecAction {
        "command" omit List(&Text("string")),
    }
    HTTPHeader {
        "name" keep Text("string"),
        "value" keep Text("string"),
    }
    HTTPGetAction {
        "host" omit Text("string"),
        "httpHeaders" omit List(&Object(&HTTPHeader)),
        "path" omit Text("string"),
        "port" keep IntOrString,
        "scheme" omit Text("v1.URIScheme"),
    }
    TCPSocketAction {
        "host" omit Text("string"),
        "port" keep IntOrString,
    }
    GRPCAction {
        "port" keep Int32,
        "service" nullable Text("string"),
    }
    Probe {
        "exec" opt Object(&ExecAction),
        "failureThreshold" omit Int32,
        "grpc" opt Object(&GRPCAction),
        "httpGet" opt Object(&HTTPGetAction),
        "initialDelaySeconds" omit Int32,
        "periodSeconds" omit Int32,
        "successThreshold" omit Int32,
        "tcpSocket" opt Object(&TCPSocketAction),
        "terminationGracePeriodSeconds" opt Int64,
        "timeoutSeconds" omit Int32,
    }
    SleepAction {
        "seconds" keep Int64,
    }
    LifecycleHandler {
        "exec" opt Object(&ExecAction),
        "httpGet" opt Object(&HTTPGetAction),
        "sleep" opt Object(&SleepAction),
        "tcpSocket" opt Object(&TCPSocketAction),
    }
    Lifecycle {
        "postStart" opt Object(&LifecycleHandler),
        "preStop" opt Object(&LifecycleHandler),
        "stopSignal" opt Text("v1.Signal"),
    }
    Capabilities {
        "add" omit List(&Text("v1.Capability")),
        "drop" omit List(&Text("v1.Capability")),
    }
    SELinuxOptions {
        "level" omit Text("string"),
        "role" omit Text("string"),
        "type" omit Text("string"),
        "user" omit Text("string"),
    }
    WindowsSecurityContextOptions {
        "gmsaCredentialSpec" opt Text("string"),
        "gmsaCredentialSpecName" opt Text("string"),
        "hostProcess" opt Bool,
        "runAsUserName" opt Text("string"),
    }
    SeccompProfile {
        "localhostProfile" opt Text("string"),
        "type" keep Text("v1.SeccompProfileType"),
    }
    AppArmorProfile {
        "localhostProfile" opt Text("string"),
        "type" keep Text("v1.AppArmorProfileType"),
    }
    SecurityContext {
        "allowPrivilegeEscalation" opt Bool,
        "appArmorProfile" opt Object(&AppArmorProfile),
        "capabilities" opt Object(&Capabilities),
        "privileged" opt Bool,
        "procMount" opt Text("v1.ProcMountType"),
        "readOnlyRootFilesystem" opt Bool,
        "runAsGroup" opt Int64,
        "runAsNonRoot" opt Bool,
        "runAsUser" opt Int64,
        "seLinuxOptions" opt Object(&SELinuxOptions),
        "seccompProfile" opt Object(&SeccompProfile),
        "windowsOptions" opt Object(&WindowsSecurityContextOptions),
    }
    Container {
        "args" omit List(&Text("string")),
        "command" omit List(&Text("string")),
        "env" omit List(&Object(&EnvVar)),
        "envFrom" omit List(&Object(&EnvFromSource)),
        "image" omit Text("string"),
        "imagePullPolicy" omit Text("v1.PullPolicy"),
        "lifecycle" opt Object(&Lifecycle),
        "livenessProbe" opt Object(&Probe),
        "name" keep Text("string"),
        "ports" omit List(&Object(&ContainerPort)),
        "readinessProbe" opt Object(&Probe),
        "resizePolicy" omit List(&Object(&ContainerResizePolicy)),
        "resources" keep Object(&ResourceRequirements),
        "restartPolicy" opt Text("v1.ContainerRestartPolicy"),
        "restartPolicyRules" omit List(&Object(&ContainerRestartRule)),
        "securityContext" opt Object(&SecurityContext),
        "startupProbe" opt Object(&Probe),
        "stdin" omit Bool,
        "stdinOnce" omit Bool,
        "terminationMessagePath" omit Text("string"),
        "terminationMessagePolicy" omit Text("v1.TerminationMessagePolicy"),
        "tty" omit Bool,
        "volumeDevices" omit List(&Object(&VolumeDevice)),
        "volumeMounts" omit List(&Object(&VolumeMount)),
        "workingDir" omit Text("string"),
    }
    EphemeralContainer {
        "args" omit List(&Text("string")),
        "command" omit List(&Text("string")),
        "env" omit List(&Object(&EnvVar)),
        "envFrom" omit List(&Object(&EnvFromSource)),
        "image" omit Text("string"),
        "imagePullPolicy" omit Text("v1.PullPolicy"),
        "lifecycle" opt Object(&Lifecycle),
        "livenessProbe" opt Object(&Probe),
        "name" keep Text("string"),
        "ports" omit List(&Object(&ContainerPort)),
        "readinessProbe" opt Object(&Probe),
        "resizePolicy" omit List(&Object(&ContainerResizePolicy)),
        "resources" keep Object(&ResourceRequirements),
        "restartPolicy" opt Text("v1.ContainerRestartPolicy"),
        "restartPolicyRules" omit List(&Object(&ContainerRestartRule)),
        "securityContext" opt Object(&SecurityContext),
        "startupProbe" opt Object(&Probe),
        "stdin" omit Bool,
        "stdinOnce" omit Bool,
        "targetContainerName" omit Text("string"),
        "terminationMessagePath" omit Text("string"),
        "terminationMessagePolicy" omit Text("v1.TerminationMessagePolicy"),
        "tty" omit Bool,
        "volumeDevices" omit List(&Object(&VolumeDevice)),
        "volumeMounts" omit List(&Object(&VolumeMount)),
        "workingDir" omit Text("string"),
    }
}

//! Volumes of a pod: every source of core/v1, since a pod loaded from a cluster may use any.

use super::meta::{LabelSelector, ObjectMeta};
use super::{Shape::*, go_types};

go_types! {
    HostPathVolumeSource {
        "path" keep Text("string"),
        "type" opt Text("v1.HostPathType"),
    }
    EmptyDirVolumeSource {
        "medium" omit Text("v1.StorageMedium"),
        "sizeLimit" opt Quantity,
    }
    GCEPersistentDiskVolumeSource {
        "fsType" omit Text("string"),
        "partition" omit Int32,
        "pdName" keep Text("string"),
        "readOnly" omit Bool,
    }
    AWSElasticBlockStoreVolumeSource {
        "fsType" omit Text("string"),
        "partition" omit Int32,
        "readOnly" omit Bool,
        "volumeID" keep Text("string"),
    }
    GitRepoVolumeSource {
        "directory" omit Text("string"),
        "repository" keep Text("string"),
        "revision" omit Text("string"),
    }
    KeyToPath {
        "key" keep Text("string"),
        "mode" opt Int32,
        "path" keep Text("string"),
    }
    SecretVolumeSource {
        "defaultMode" opt Int32,
        "items" omit List(&Object(&KeyToPath)),
        "optional" opt Bool,
        "secretName" omit Text("string"),
    }
    NFSVolumeSource {
        "path" keep Text("string"),
        "readOnly" omit Bool,
        "server" keep Text("string"),
    }
    LocalObjectReference {
        "name" omit Text("string"),
    }
    ISCSIVolumeSource {
        "chapAuthDiscovery" omit Bool,
        "chapAuthSession" omit Bool,
        "fsType" omit Text("string"),
        "initiatorName" opt Text("string"),
        "iqn" keep Text("string"),
        "iscsiInterface" omit Text("string"),
        "lun" keep Int32,
        "portals" omit List(&Text("string")),
        "readOnly" omit Bool,
        "secretRef" opt Object(&LocalObjectReference),
        "targetPortal" keep Text("string"),
    }
    GlusterfsVolumeSource {
        "endpoints" keep Text("string"),
        "path" keep Text("string"),
        "readOnly" omit Bool,
    }
    PersistentVolumeClaimVolumeSource {
        "claimName" keep Text("string"),
        "readOnly" omit Bool,
    }
    RBDVolumeSource {
        "fsType" omit Text("string"),
        "image" keep Text("string"),
        "keyring" omit Text("string"),
        "monitors" keep List(&Text("string")),
        "pool" omit Text("string"),
        "readOnly" omit Bool,
        "secretRef" opt Object(&LocalObjectReference),
        "user" omit Text("string"),
    }
    FlexVolumeSource {
        "driver" keep Text("string"),
        "fsType" omit Text("string"),
        "options" omit Map(&Text("string")),
        "readOnly" omit Bool,
        "secretRef" opt Object(&LocalObjectReference),
    }
    CinderVolumeSource {
        "fsType" omit Text("string"),
        "readOnly" omit Bool,
        "secretRef" opt Object(&LocalObjectReference),
        "volumeID" keep Text("string"),
    }
    CephFSVolumeSource {
        "monitors" keep List(&Text("string")),
        "path" omit Text("string"),
        "readOnly" omit Bool,
        "secretFile" omit Text("string"),
        "secretRef" opt Object(&LocalObjectReference),
        "user" omit Text("string"),
    }
    FlockerVolumeSource {
        "datasetName" omit Text("string"),
        "datasetUUID" omit Text("string"),
    }
    ObjectFieldSelector {
        "apiVersion" omit Text("string"),
        "fieldPath" keep Text("string"),
    }
    ResourceFieldSelector {
        "containerName" omit Text("string"),
        "divisor" keep Quantity,
        "resource" keep Text("string"),
    }
    DownwardAPIVolumeFile {
        "fieldRef" opt Object(&ObjectFieldSelector),
        "mode" opt Int32,
        "path" keep Text("string"),
        "resourceFieldRef" opt Object(&ResourceFieldSelector),
    }
    DownwardAPIVolumeSource {
        "defaultMode" opt Int32,
        "items" omit List(&Object(&DownwardAPIVolumeFile)),
    }
    FCVolumeSource {
        "fsType" omit Text("string"),
        "lun" opt Int32,
        "readOnly" omit Bool,
        "targetWWNs" omit List(&Text("string")),
        "wwids" omit List(&Text("string")),
    }
    AzureFileVolumeSource {
        "readOnly" omit Bool,
        "secretName" keep Text("string"),
        "shareName" keep Text("string"),
    }
    ConfigMapVolumeSource {
        "defaultMode" opt Int32,
        "items" omit List(&Object(&KeyToPath)),
        "name" omit Text("string"),
        "optional" opt Bool,
    }
    VsphereVirtualDiskVolumeSource {
        "fsType" omit Text("string"),
        "storagePolicyID" omit Text("string"),
        "storagePolicyName" omit Text("string"),
        "volumePath" keep Text("string"),
    }
    QuobyteVolumeSource {
        "group" omit Text("string"),
        "readOnly" omit Bool,
        "registry" keep Text("string"),
        "tenant" omit Text("string"),
        "user" omit Text("string"),
        "volume" keep Text("string"),
    }
    AzureDiskVolumeSource {
        "cachingMode" opt Text("v1.AzureDataDiskCachingMode"),
        "diskName" keep Text("string"),
        "diskURI" keep Text("string"),
        "fsType" opt Text("string"),
        "kind" opt Text("v1.AzureDataDiskKind"),
        "readOnly" opt Bool,
    }
    PhotonPersistentDiskVolumeSource {
        "fsType" omit Text("string"),
        "pdID" keep Text("string"),
    }
    SecretProjection {
        "items" omit List(&Object(&KeyToPath)),
        "name" omit Text("string"),
        "optional" opt Bool,
    }
    DownwardAPIProjection {
        "items" omit List(&Object(&DownwardAPIVolumeFile)),
    }
    ConfigMapProjection {
        "items" omit List(&Object(&KeyToPath)),
        "name" omit Text("string"),
        "optional" opt Bool,
    }
    ServiceAccountTokenProjection {
        "audience" omit Text("string"),
        "expirationSeconds" opt Int64,
        "path" keep Text("string"),
    }
    ClusterTrustBundleProjection {
        "labelSelector" opt Object(&LabelSelector),
        "name" opt Text("string"),
        "optional" opt Bool,
        "path" keep Text("string"),
        "signerName" opt Text("string"),
    }
    PodCertificateProjection {
        "certificateChainPath" omit Text("string"),
        "credentialBundlePath" omit Text("string"),
        "keyPath" omit Text("string"),
        "keyType" omit Text("string"),
        "maxExpirationSeconds" opt Int32,
        "signerName" omit Text("string"),
        "userAnnotations" omit Map(&Text("string")),
    }
    VolumeProjection {
        "clusterTrustBundle" opt Object(&ClusterTrustBundleProjection),
        "configMap" opt Object(&ConfigMapProjection),
        "downwardAPI" opt Object(&DownwardAPIProjection),
        "podCertificate" opt Object(&PodCertificateProjection),
        "secret" opt Object(&SecretProjection),
        "serviceAccountToken" opt Object(&ServiceAccountTokenProjection),
    }
    ProjectedVolumeSource {
        "defaultMode" opt Int32,
        "sources" keep List(&Object(&VolumeProjection)),
    }
    PortworxVolumeSource {
        "fsType" omit Text("string"),
        "readOnly" omit Bool,
        "volumeID" keep Text("string"),
    }
    ScaleIOVolumeSource {
        "fsType" omit Text("string"),
        "gateway" keep Text("string"),
        "protectionDomain" omit Text("string"),
        "readOnly" omit Bool,
        "secretRef" nullable Object(&LocalObjectReference),
        "sslEnabled" omit Bool,
        "storageMode" omit Text("string"),
        "storagePool" omit Text("string"),
        "system" keep Text("string"),
        "volumeName" omit Text("string"),
    }
    StorageOSVolumeSource {
        "fsType" omit Text("string"),
        "readOnly" omit Bool,
        "secretRef" opt Object(&LocalObjectReference),
        "volumeName" omit Text("string"),
        "volumeNamespace" omit Text("string"),
    }
    CSIVolumeSource {
        "driver" keep Text("string"),
        "fsType" opt Text("string"),
        "nodePublishSecretRef" opt Object(&LocalObjectReference),
        "readOnly" opt Bool,
        "volumeAttributes" omit Map(&Text("string")),
    }
    VolumeResourceRequirements {
        "limits" omit Map(&Quantity),
        "requests" omit Map(&Quantity),
    }
    TypedLocalObjectReference {
        "apiGroup" nullable Text("string"),
        "kind" keep Text("string"),
        "name" keep Text("string"),
    }
    TypedObjectReference {
        "apiGroup" nullable Text("string"),
        "kind" keep Text("string"),
        "name" keep Text("string"),
        "namespace" opt Text("string"),
    }
    PersistentVolumeClaimSpec {
        "accessModes" omit List(&Text("v1.PersistentVolumeAccessMode")),
        "dataSource" opt Object(&TypedLocalObjectReference),
        "dataSourceRef" opt Object(&TypedObjectReference),
        "resources" keep Object(&VolumeResourceRequirements),
        "selector" opt Object(&LabelSelector),
        "storageClassName" opt Text("string"),
        "volumeAttributesClassName" opt Text("string"),
        "volumeMode" opt Text("v1.PersistentVolumeMode"),
        "volumeName" omit Text("string"),
    }
    PersistentVolumeClaimTemplate {
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&PersistentVolumeClaimSpec),
    }
    EphemeralVolumeSource {
        "volumeClaimTemplate" opt Object(&PersistentVolumeClaimTemplate),
    }
    ImageVolumeSource {
        "pullPolicy" omit Text("v1.PullPolicy"),
        "reference" omit Text("string"),
    }
    Volume {
        "awsElasticBlockStore" opt Object(&AWSElasticBlockStoreVolumeSource),
        "azureDisk" opt Object(&AzureDiskVolumeSource),
        "azureFile" opt Object(&AzureFileVolumeSource),
        "cephfs" opt Object(&CephFSVolumeSource),
        "cinder" opt Object(&CinderVolumeSource),
        "configMap" opt Object(&ConfigMapVolumeSource),
        "csi" opt Object(&CSIVolumeSource),
        "downwardAPI" opt Object(&DownwardAPIVolumeSource),
        "emptyDir" opt Object(&EmptyDirVolumeSource),
        "ephemeral" opt Object(&EphemeralVolumeSource),
        "fc" opt Object(&FCVolumeSource),
        "flexVolume" opt Object(&FlexVolumeSource),
        "flocker" opt Object(&FlockerVolumeSource),
        "gcePersistentDisk" opt Object(&GCEPersistentDiskVolumeSource),
        "gitRepo" opt Object(&GitRepoVolumeSource),
        "glusterfs" opt Object(&GlusterfsVolumeSource),
        "hostPath" opt Object(&HostPathVolumeSource),
        "image" opt Object(&ImageVolumeSource),
        "iscsi" opt Object(&ISCSIVolumeSource),
        "name" keep Text("string"),
        "nfs" opt Object(&NFSVolumeSource),
        "persistentVolumeClaim" opt Object(&PersistentVolumeClaimVolumeSource),
        "photonPersistentDisk" opt Object(&PhotonPersistentDiskVolumeSource),
        "portworxVolume" opt Object(&PortworxVolumeSource),
        "projected" opt Object(&ProjectedVolumeSource),
        "quobyte" opt Object(&QuobyteVolumeSource),
        "rbd" opt Object(&RBDVolumeSource),
        "scaleIO" opt Object(&ScaleIOVolumeSource),
        "secret" opt Object(&SecretVolumeSource),
        "storageos" opt Object(&StorageOSVolumeSource),
        "vsphereVolume" opt Object(&VsphereVirtualDiskVolumeSource),
    }
}

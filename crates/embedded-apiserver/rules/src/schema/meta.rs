//! The types of `meta/v1` in objects of this server.

use super::{Shape::*, go_types};

go_types! {
    OwnerReference {
        "apiVersion" keep Text("string"),
        "blockOwnerDeletion" opt Bool,
        "controller" opt Bool,
        "kind" keep Text("string"),
        "name" keep Text("string"),
        "uid" keep Text("types.UID"),
    }
    ManagedFieldsEntry {
        "apiVersion" omit Text("string"),
        "fieldsType" omit Text("string"),
        "fieldsV1" opt Any,
        "manager" omit Text("string"),
        "operation" omit Text("v1.ManagedFieldsOperationType"),
        "subresource" omit Text("string"),
        "time" opt Time,
    }
    ObjectMeta {
        "annotations" omit Map(&Text("string")),
        "creationTimestamp" omit Time,
        "deletionGracePeriodSeconds" opt Int64,
        "deletionTimestamp" opt Time,
        "finalizers" omit List(&Text("string")),
        "generateName" omit Text("string"),
        "generation" omit Int64,
        "labels" omit Map(&Text("string")),
        "managedFields" omit List(&Object(&ManagedFieldsEntry)),
        "name" omit Text("string"),
        "namespace" omit Text("string"),
        "ownerReferences" omit List(&Object(&OwnerReference)),
        "resourceVersion" omit Text("string"),
        "selfLink" omit Text("string"),
        "uid" omit Text("types.UID"),
    }
    Condition {
        "lastTransitionTime" keep Time,
        "message" keep Text("string"),
        "observedGeneration" omit Int64,
        "reason" keep Text("string"),
        "status" keep Text("v1.ConditionStatus"),
        "type" keep Text("string"),
    }
}

//! Kinds of the smaller groups: Leases, Events of `events.k8s.io/v1`, and reviews, whose status the server makes.

use super::core::{EventSource, ObjectReference};
use super::meta::ObjectMeta;
use super::{Shape::*, go_types};

go_types! {
    LeaseSpec {
        "acquireTime" opt MicroTime,
        "holderIdentity" opt Text("string"),
        "leaseDurationSeconds" opt Int32,
        "leaseTransitions" opt Int32,
        "preferredHolder" opt Text("string"),
        "renewTime" opt MicroTime,
        "strategy" opt Text("v1.CoordinatedLeaseStrategy"),
    }
    Lease {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&LeaseSpec),
    }
    EventSeries {
        "count" keep Int32,
        "lastObservedTime" keep MicroTime,
    }
    Event {
        "action" omit Text("string"),
        "apiVersion" omit Text("string"),
        "deprecatedCount" omit Int32,
        "deprecatedFirstTimestamp" keep Time,
        "deprecatedLastTimestamp" keep Time,
        "deprecatedSource" keep Object(&EventSource),
        "eventTime" keep MicroTime,
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "note" omit Text("string"),
        "reason" omit Text("string"),
        "regarding" keep Object(&ObjectReference),
        "related" opt Object(&ObjectReference),
        "reportingController" omit Text("string"),
        "reportingInstance" omit Text("string"),
        "series" opt Object(&EventSeries),
        "type" omit Text("string"),
    }
    TokenReviewSpec {
        "audiences" omit List(&Text("string")),
        "token" omit Text("string"),
    }
    TokenReview {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&TokenReviewSpec),
        "status" opt Any,
    }
    ResourceAttributes {
        "fieldSelector" opt Any,
        "group" omit Text("string"),
        "labelSelector" opt Any,
        "name" omit Text("string"),
        "namespace" omit Text("string"),
        "resource" omit Text("string"),
        "subresource" omit Text("string"),
        "verb" omit Text("string"),
        "version" omit Text("string"),
    }
    NonResourceAttributes {
        "path" omit Text("string"),
        "verb" omit Text("string"),
    }
    SubjectAccessReviewSpec {
        "extra" omit Map(&List(&Text("string"))),
        "groups" omit List(&Text("string")),
        "nonResourceAttributes" opt Object(&NonResourceAttributes),
        "resourceAttributes" opt Object(&ResourceAttributes),
        "uid" omit Text("string"),
        "user" omit Text("string"),
    }
    SubjectAccessReview {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&SubjectAccessReviewSpec),
        "status" opt Any,
    }
    LocalSubjectAccessReview {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&SubjectAccessReviewSpec),
        "status" opt Any,
    }
    SelfSubjectReview {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "status" opt Any,
    }
    SelfSubjectAccessReviewSpec {
        "nonResourceAttributes" opt Object(&NonResourceAttributes),
        "resourceAttributes" opt Object(&ResourceAttributes),
    }
    SelfSubjectAccessReview {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&SelfSubjectAccessReviewSpec),
        "status" opt Any,
    }
    SelfSubjectRulesReviewSpec {
        "namespace" omit Text("string"),
    }
    SelfSubjectRulesReview {
        "apiVersion" omit Text("string"),
        "kind" omit Text("string"),
        "metadata" keep Object(&ObjectMeta),
        "spec" keep Object(&SelfSubjectRulesReviewSpec),
        "status" opt Any,
    }
}

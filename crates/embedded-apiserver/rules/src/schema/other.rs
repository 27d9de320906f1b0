//! Kinds of the smaller groups: Leases, and reviews, whose status the server makes.

use super::meta::ObjectMeta;
use super::{Shape::*, go_types, kinds};

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
    TokenReviewSpec {
        "audiences" omit List(&Text("string")),
        "token" omit Text("string"),
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
    SelfSubjectAccessReviewSpec {
        "nonResourceAttributes" opt Object(&NonResourceAttributes),
        "resourceAttributes" opt Object(&ResourceAttributes),
    }
    SelfSubjectRulesReviewSpec {
        "namespace" omit Text("string"),
    }
}

kinds! {
    EndpointSelector {
        "spec" opt Any,
        "status" opt Any,
    }
    Lease {
        "spec" keep Object(&LeaseSpec),
    }
    TokenReview {
        "spec" keep Object(&TokenReviewSpec),
        "status" opt Any,
    }
    SubjectAccessReview {
        "spec" keep Object(&SubjectAccessReviewSpec),
        "status" opt Any,
    }
    LocalSubjectAccessReview {
        "spec" keep Object(&SubjectAccessReviewSpec),
        "status" opt Any,
    }
    SelfSubjectReview {
        "status" opt Any,
    }
    SelfSubjectAccessReview {
        "spec" keep Object(&SelfSubjectAccessReviewSpec),
        "status" opt Any,
    }
    SelfSubjectRulesReview {
        "spec" keep Object(&SelfSubjectRulesReviewSpec),
        "status" opt Any,
    }
}

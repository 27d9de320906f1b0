//! The types of `discovery.k8s.io/v1`.

use super::core::ObjectReference;
use super::meta::ObjectMeta;
use super::{Shape::*, go_types, kinds};

go_types! {
    EndpointConditions {
        "ready" opt Bool,
        "serving" opt Bool,
        "terminating" opt Bool,
    }
    ForZone {
        "name" keep Text("string"),
    }
    ForNode {
        "name" keep Text("string"),
    }
    EndpointHints {
        "forNodes" omit List(&Object(&ForNode)),
        "forZones" omit List(&Object(&ForZone)),
    }
    Endpoint {
        "addresses" keep List(&Text("string")),
        "conditions" keep Object(&EndpointConditions),
        "deprecatedTopology" omit Map(&Text("string")),
        "hints" opt Object(&EndpointHints),
        "hostname" opt Text("string"),
        "nodeName" opt Text("string"),
        "targetRef" opt Object(&ObjectReference),
        "zone" opt Text("string"),
    }
    EndpointPort {
        "appProtocol" opt Text("string"),
        "name" opt Text("string"),
        "port" opt Int32,
        "protocol" opt Text("v1.Protocol"),
    }
}

kinds! {
    EndpointSlice {
        "addressType" keep Text("v1.AddressType"),
        "endpoints" keep List(&Object(&Endpoint)),
        "ports" keep List(&Object(&EndpointPort)),
    }
}

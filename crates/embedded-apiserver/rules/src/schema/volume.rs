//! References inside of a container. Volumes have no table: no endpoint controller reads them, so they are stored as given.

use super::{Shape::*, go_types};

go_types! {
    LocalObjectReference {
        "name" omit Text("string"),
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
}

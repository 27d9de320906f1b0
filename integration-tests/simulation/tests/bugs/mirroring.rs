//! Mirroring.

use kube_endpoint_core_model::{Endpoints, Service};
use kube_endpoint_mirroring::plan::{PlanInputs, plan};
use serde_json::json;

bugs! {
    "Mirrored Endpoints";
    kubernetes_102683 in "mirroring/tests/plan.rs::a_subset_becomes_a_slice_for_each_family",
        "Addresses that were not ready were mirrored as ready.",
        "They are mirrored as not ready.";
    kubernetes_114155 in "mirroring/tests/plan.rs::subsets_are_converted_to_canonical_form_first",
        "An address in several subsets was in several slices, though one slice with all its ports would do.",
        "Subsets are first converted to the form in which each address is once.";
    kubernetes_121556 in "integration-tests/simulation/tests/bugs/mirroring.rs::kubernetes_121556",
        "An address was both ready and not ready in one object, and in its slices.",
        "For the same ports it is mirrored once.";
    kubernetes_98577 in "mirroring/tests/plan.rs::what_counts_as_a_change",
        "A label that a user removed from Endpoints stayed on their slice.",
        "Labels and annotations are compared, also those that only the slice has.";
    liqo_2043 in "mirroring/tests/controller/follows.rs::the_skip_mirror_label_and_the_leader_annotation_turn_mirroring_off",
        "Slices were reflected although their Service was marked to be left out.",
        "The label to leave Endpoints out deletes slices that were mirrored before, at once.";
    vcluster_3243 = "endpoints-deleted-by-their-user",
        "The deletion of what a slice was copied from did not reach the copy.",
        "Mirrored slices go with their Endpoints, also if no event told of that.";
    consul_k8s_1216 = "one-of-several-slices-deleted",
        "The deletion of one of several slices was to deregister all instances of the Service; a reviewer noticed.",
        "A sync looks at all slices of the Service. One that somebody deletes is made again, and the others stay.";
    istio_33672 = "one-of-several-slices-deleted",
        "The deletion of one of several slices removed all endpoints of the Service.",
        "The same.";
}

/// An address that is ready in one subset and not in another, with the same ports.
#[test]
fn kubernetes_121556() {
    let ports = json!([{"name": "web", "port": 80, "protocol": "TCP"}]);
    let endpoints: Endpoints = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "subsets": [
            {"addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}], "ports": ports},
            {"notReadyAddresses": [{"ip": "192.0.2.1"}], "ports": ports},
        ],
    }))
    .unwrap();
    let service = Service::default();
    let plan = plan(&PlanInputs::new(&service, &endpoints));
    let created = plan.writes.create.iter().flat_map(|slice| &slice.endpoints);
    let mut addresses: Vec<String> = created.map(|it| it.addresses[0].to_string()).collect();
    addresses.sort();
    assert_eq!(addresses, ["192.0.2.1", "192.0.2.2"]);
}

//! Services that come, go, and lose their selector.

bugs! {
    "Services that come and go";
    kubernetes_94720 = "service-recreated-before-garbage-collection",
        "A Service was made again before the slices of the old one were collected; the controller took them for good, ignored their deletion, and the Service had none.",
        "Slices of another owner are replaced, and each deletion that is not the controller's own starts a sync.";
    ingress_gce_2697 = "service-recreated-several-times",
        "After a Service had been deleted and made again quickly, what kept its endpoints up to date never started again.",
        "Nothing runs for one Service. The key is synced after each event, whatever happened to the Service before.";
    kubernetes_91287 in "endpointslice-controller/tests/controller/lifecycle.rs::a_service_that_is_being_deleted_gets_no_new_slices",
        "Slices were created for a Service that was being deleted, and the garbage collector missed them.",
        "A Service that is being deleted gets no new slices.";
    kubernetes_109624 in "endpointslice-controller/tests/controller/repair.rs::a_slice_held_by_a_finalizer_is_replaced",
        "A slice that was marked for deletion counted as there.",
        "It counts as gone, and another one replaces it.";
    kubernetes_90276 in "api-writer/src/tracked/tests.rs::deleting_a_missing_object_succeeds",
        "The deletion of a slice that had gone already was an error, with an event.",
        "It is a success.";
    kubernetes_6877 in "endpoints-controller/tests/controller/deletion.rs::endpoints_are_deleted_with_their_service_in_either_order",
        "Endpoints of deleted Services stayed.",
        "They are deleted with their Service, whichever of the two deletions is seen first.";
    lighthouse_1416 = "service-deleted-while-stopped",
        "A Service was deleted while no process ran, and its endpoints stayed for ever.",
        "At its start a controller deletes the Endpoints that a controller made and that have no Service; slices go with their owners.";
    karmada_4737 in "mirroring/tests/controller/follows.rs::changes_made_while_stopped_are_mirrored_at_the_start",
        "The object that a slice was made from was deleted before the process was restarted, and the slice stayed.",
        "At its start mirroring syncs each Service that has Endpoints or mirrored slices.";
    istio_36510 = "service-and-endpoints-deleted-together",
        "The Service had gone before its slice did; nobody knew then whose endpoints these were, and they stayed.",
        "A slice names its Service by a label, and the key is synced whether the Service is known or not.";
    kubernetes_105987 = "selector-removed-and-restored",
        "A Service lost its selector and got it back; the slices mirrored meanwhile stayed, with dead addresses.",
        "Mirrored slices of a Service with a selector are deleted.";
    kubernetes_103804 in "mirroring/tests/controller/follows.rs::a_service_that_was_an_external_name_for_a_while_keeps_no_mirrored_slices",
        "The same, when a Service became an `ExternalName` without selector and was changed back.",
        "The same.";
    kubernetes_118376 = "selector-removed",
        "Slices made from pods stay when a Service loses its selector, beside the mirrored ones.",
        "Mirroring deletes them once the mirrored ones replace them, or an event tells why it keeps them.";
    kubernetes_91072 in "mirroring/tests/controller/orphans.rs::orphaned_slices_are_deleted_once_mirrored_slices_exist",
        "The first report of the same: no controller cleans up when the selector is removed.",
        "The same, with the gate `OrphanedSliceCleanup`, which is on by default.";
    kubernetes_111929 in "mirroring/tests/controller/kept_orphans.rs::a_user_who_points_the_service_elsewhere_gets_rid_of_the_old_pods",
        "A user pointed a Service that had lost its selector elsewhere, and clients still reached the old pods.",
        "Once a user has written the Endpoints, the slices made from pods go.";
}

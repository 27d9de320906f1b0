//! Other clients that write outputs, and objects of users that look like outputs.

bugs! {
    "Other clients, and objects of users";
    kubernetes_85353 = "slices-edited-and-deleted",
        "Nobody put right a slice that a user had edited, deleted, or given to another manager.",
        "Each event of a slice that is not an own write starts a sync of its Service.";
    cilium_17712 in "endpointslice-controller/tests/controller/repair.rs::a_slice_edited_by_hand_is_repaired_after_a_second_or_the_batch_period",
        "The operator did not watch the slices that it wrote, so edits by others stayed.",
        "The controllers watch their outputs, and repair them.";
    kubernetes_93030 in "endpoints-controller/tests/controller/repair.rs::deleted_endpoints_are_recreated_at_once_with_and_without_the_gate",
        "Endpoints that a user had deleted stayed away until something else changed.",
        "Their deletion starts a sync.";
    kubernetes_112143 = "mirrored-slice-deleted-after-restart",
        "Another client deleted a mirrored slice that the process had not written since its start, and nobody made it again.",
        "Each deletion that is not the controller's own starts a sync.";
    kubernetes_125354 = "endpoints-recreated-while-stopped",
        "A user recreated Endpoints while no controller ran; their slice was right, but belonged to the old ones, and the garbage collector took it.",
        "Mirroring updates or replaces a slice of another owner, and its deletion starts a sync.";
    kubernetes_126578 = "update-undone-by-webhook",
        "Endpoints stayed wrong after kubernetes#125638 had been fixed: the cache was out of date for ever, as after an update without effect, which a webhook causes, too.",
        "Nobody waits for an update without effect. The runtime repeats it after a second, then after twice as long each time, until it stays.";
    kubernetes_45585 in "endpoints-controller/tests/controller/deletion.rs::endpoints_of_services_deleted_while_stopped_are_deleted_at_the_start",
        "A new leader deleted Endpoints without a Service, also the locks of leader elections.",
        "Only Endpoints that a controller has made go, and locks stay in any case.";
    kubernetes_78933 = "endpoints-without-service-and-a-new-leader",
        "With each new leader, Endpoints that users had made without a Service were deleted.",
        "managedFields say who made them, and those of users stay.";
    kubernetes_115801 in "endpoints-controller/tests/controller/deletion.rs::at_the_start_only_what_a_controller_made_is_deleted",
        "A restart deleted Endpoints that a user had made beside those of a headless Service, under other names.",
        "The same.";
    kubernetes_104062 = "service-and-endpoints-created-while-services-lag",
        "A process that had not read a new Service yet took its Endpoints, which a user had made, for a leftover and deleted them.",
        "Before a deletion the server is asked if the Service exists, and who made the Endpoints.";
    karmada_6523 = "slices-of-another-manager",
        "Slices that another controller of the same project had made were taken for new ones, and each address was there twice.",
        "A controller reads only slices whose label names it, and leaves all others alone.";
}

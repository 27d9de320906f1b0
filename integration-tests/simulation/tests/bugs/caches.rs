//! Caches that are behind, and lists and watches that fail.

bugs! {
    "Caches that are behind";
    kubernetes_141592 = "service-recreated-during-update",
        "The answer to an update arrived after somebody had deleted its slice; the new Service of the same name waited for that slice for ever.",
        "The tracker compares the cache with the version of the last write, not with the objects that it wrote, and an event that comes before the answer settles it.";
    kubernetes_125638 = "pod-flaps-before-cache-shows-update",
        "A pod turned unready and ready again before the cache of Endpoints showed the first update; the pod stayed unready.",
        "A sync waits until the cache shows the controller's own writes.";
    kubernetes_127429 = "conflict-while-endpoints-lag",
        "Two pods turned unready and ready again; the first update met a conflict, and the next sync compared with a cache of before both. The pods stayed unready.",
        "A sync waits until the cache shows the controller's own writes, so the server refuses none of the history, and the pods are ready at the end.";
    kubernetes_47711 = "service-recreated-while-endpoints-lag",
        "A Service was deleted and made again before the cache showed that its Endpoints were gone; the new Service never got any.",
        "A sync waits until the cache shows the controller's own deletion.";
    kubernetes_92928 = "pods-change-while-slices-lag",
        "Syncs on a cache without the controller's own writes sent updates that the server refused, with an event each time.",
        "A sync waits for the cache; the server refuses no write of the history.";
    kubernetes_100033 = "two-syncs-before-cache-shows-create",
        "Two syncs in a row, the second on a cache without the slice that the first had created, made two slices.",
        "A sync waits for the cache.";
    kubernetes_94086 = "process-starts-before-all-is-read",
        "The controller began before it had read slices and nodes, and made slices that existed.",
        "No sync begins before all kinds that the controller reads are listed.";
    cilium_35532 = "update-of-deleted-slice",
        "The last endpoint of a slice came back while the slice was being deleted; nobody looked after that slice any more.",
        "A sync waits until the cache shows the controller's own deletes.";
    istio_54997 in "core-model/src/change.rs::only_what_endpoints_depend_on_counts",
        "A pod failed and lost its address in one update; the handler ignored pods without an address, and the endpoint stayed for a day.",
        "A change is ignored only if the pod had no address before it either. The loss of an address counts as a change, and so does the end of a pod.";
    istio_52110 = "pods-replaced-under-their-names",
        "While a StatefulSet was rolled out, an endpoint was lost.",
        "A pod with another uid or address is another endpoint, in whatever bunches its events come.";
    istio_44043 = "many-pods-at-once",
        "Of about a hundred pods that were created at once, some never became endpoints.",
        "Each change queues the key of its Service; the queue loses none, also under a rate limit.";
    kubernetes_107457 = "server-restored-to-older-state",
        "After a restore of etcd, informers resumed watches from versions that the server had not reached, and nothing arrived.",
        "The reflector compares versions, and the controllers start again from nothing.";
    kubernetes_107133 in "informer/tests/embedded.rs::a_kind_is_listed_in_pages_where_the_watch_cache_is_behind_for_an_hour",
        "A server whose watch cache was behind answered each list with \"too large resource version\", for ever.",
        "Such a server is asked for pages without a version, which it takes from etcd.";
    kubernetes_129266 in "informer/tests/list_watch/watches.rs::an_expired_version_is_followed_by_a_relist",
        "A watch was opened at the same expired version again and again.",
        "After 410 the reflector lists, and watches from the version of the list.";
    cilium_48050 in "informer/tests/list_watch/lists.rs::deletions_missed_by_the_watch_are_reported_by_the_next_list",
        "After a new connection, deletions before the first update were dropped, and dead endpoints stayed.",
        "A list is compared with the store object by object, and what it lacks is reported as deleted.";
    ingress_gce_1192 = "lists-refused-after-watches-expired",
        "An error while endpoints were computed counted as no endpoints, and all were removed for a moment.",
        "The stores keep what was read last until the server has answered a complete list.";
}

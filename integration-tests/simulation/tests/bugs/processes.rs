//! Processes that end, are suspended, or take over from one another.

bugs! {
    "Leaders, restarts, and ends in between";
    cilium_24581 = "sieve-intermediate-state",
        "The operator ended after it had added an endpoint to one slice, and before it removed it from another; nobody removed it later.",
        "A plan starts from the objects that exist, so the next process completes it. Ready pods are in some slice after each write.";
    linkerd2_12021 = "pods-change-while-nobody-leads",
        "Changes between two leaders were seen by processes that did not lead, and were lost to the next leader until a resync.",
        "A process that begins to lead syncs all keys.";
    patroni_500 = "lease-taken-while-suspended",
        "A leader that had hung overwrote the endpoints of the next one when it woke up; a reviewer noticed.",
        "The fence begins no write after the renew deadline, and a standby leads later than that.";
    patroni_1387 = "lease-deleted-while-leader-cannot-renew",
        "The object with the leader's lock was deleted while the leader could not reach the server, and it could not make it again.",
        "Whoever leads next makes the Lease anew. The old leader writes until its renew deadline at most.";
}

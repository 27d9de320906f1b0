//! No endpoint controller writes, so each changed Service waits for its slices.

use super::words::doctor;
use crate::facts::age;
use crate::findings::prelude::*;
use crate::models::cluster::{Unserved, Waiting};

about! {
    /// One finding stands for [EP050](#ep050-slices-behind) and [EP057](#ep057-endpoints-behind) of
    /// all Services that wait. `lint`, `top` and the status page decide it from the Services that
    /// they read: the slices of at least three Services of several namespaces, or of all Services,
    /// are late, and no controller has written any slice since these changed, nor tried to. The
    /// last writes are those in `metadata.managedFields`; where these are not known, a pod that a
    /// slice holds as ready shows that the slice was written after the pod became ready. If only
    /// one namespace or one Service waits, the cause is not the cluster's. A Lease of
    /// kube-controller-manager or kube-endpoint-manager that nobody has renewed for two minutes is
    /// enough for one Service: so `explain` finds it, too. The overview of the status page does not
    /// read Leases.
    EP073 "cluster-unserved" Error may_be_under_way
    "No endpoint controller writes, so each changed Service waits for its slices."
}

/// A cluster that no endpoint controller serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterUnserved(pub Unserved);

impl Finding for ClusterUnserved {
    /// The Leases tell it to who looks at one Service, or other Services that have no slice.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let behind = inputs.slices_behind_without_cause().filter(|_| inputs.service.selects_pods());
        let Some(since) = behind.and_then(|behind| behind.late()) else { return Vec::new() };
        let mut waiting = Waiting::new(inputs.cluster.signs.slices, inputs.cluster.stale_leases.clone());
        waiting.count(&inputs.service.key, Some(since));
        let is_late = |created: Timestamp| age::since(created, inputs.now) > inputs.options.late_after;
        for (service, waits) in &inputs.objects.others {
            waiting.count(service, waits.filter(|created| created.is_none_or(is_late)));
        }
        let unserved = waiting.unserved(inputs.now);
        unserved.into_iter().map(|unserved| Self(Unserved { services: None, ..unserved })).collect()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let leases = self.0.leases.iter().map(|stale| {
            Step::kubectl_in(&stale.lease.namespace, ["get", "lease", &stale.lease.name, "-o", "yaml"])
        });
        Remedy::ask(
            ClusterAdministrator,
            "Start the endpoint controllers, or look at why they do not write: they are part of kube-controller-manager, or run as kube-endpoint-manager",
        )
        .shown_by(leases.chain([doctor()]))
    }

    fn explains(&self, other: &Fault) -> bool {
        matches!(other, Fault::SlicesBehind(_) | Fault::EndpointsBehind(_))
    }
}

impl fmt::Display for ClusterUnserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no endpoint controller writes")?;
        if let Some(seconds) = self.0.seconds {
            write!(f, "; the last known write is {} old", age::seconds(seconds))?;
        }
        for stale in &self.0.leases {
            let seconds = age::seconds(stale.seconds);
            write!(f, "; nobody has renewed the lease {} for {seconds}", stale.lease)?;
        }
        match self.0.services {
            Some(1) => f.write_str("; 1 Service waits for its slices"),
            Some(count) => write!(f, "; {count} Services wait for their slices"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn one_service_that_waits_while_a_controller_leads_is_not_the_whole_cluster() {
        let stale = example("ep073-cluster-unserved");
        assert!(stale.finds(Code::ClusterUnserved) && !stale.finds(Code::SlicesBehind));
        let renewed = json!({"spec": {"renewTime": "2026-01-01T00:09:55.000000Z"}});
        let held = stale.with("Lease/kube-controller-manager", renewed);
        assert!(held.finds(Code::SlicesBehind) && !held.finds(Code::ClusterUnserved));
    }
}

//! The load balancer of the Service has no address.

use serde_json::Value;

use crate::facts::age;
use crate::facts::details::RecentEvent;
use crate::findings::prelude::*;

about! {
    /// A cloud controller manager or another program makes the load balancers of a cluster, and
    /// writes their addresses to the status. It takes a minute or two, so this is a finding five
    /// minutes after the creation of the Service, or one minute if a warning about the Service says
    /// why. Clients outside of the cluster have no address; those inside have the cluster IP, and
    /// are not affected. A Service with `externalIPs` has an address.
    EP103 "load-balancer-pending" Warning
    "The load balancer of the Service has no address."
}

/// The seconds that the making of a load balancer may take, and those if a warning tells of it.
const ALLOWED: (i64, i64) = (300, 60);

/// A Service of type LoadBalancer without an address for clients outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerPending {
    /// Seconds since the creation of the Service.
    pub seconds: i64,
    /// The message of the latest warning about it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Text>,
}

impl Finding for LoadBalancerPending {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let FaultInputs { objects, service, now, .. } = *inputs;
        let is_pending = objects.raw.pending_load_balancers.contains(&service.key);
        let created =
            service.creation_timestamp.filter(|_| is_pending && service.deletion_timestamp.is_none());
        let Some(seconds) = created.map(|created| age::since(created, now)) else { return Vec::new() };
        // The endpoint controllers report to the same Service.
        let is_about_it =
            |event: &&RecentEvent| *event.event_type == *"Warning" && !event.reason.contains("Endpoint");
        let events = objects.events.get(&service.key).into_iter().flatten();
        let latest = events.filter(is_about_it).max_by_key(|event| event.last);
        let allowed = if latest.is_some() { ALLOWED.1 } else { ALLOWED.0 };
        if seconds < allowed {
            return Vec::new();
        }
        vec![Self { seconds, message: latest.map(|event| event.message.clone()) }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![
            read.service(".spec.type", "LoadBalancer"),
            read.service(".status.loadBalancer.ingress", Value::Null),
        ]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let sentence = match self.message {
            Some(_) => {
                "Remove the cause that the message names; the controller of load balancers tries again"
            }
            None => {
                "Look at the controller that makes the load balancers of this cluster; if there is none, start one, or set spec.type to NodePort"
            }
        };
        let describe = Step::kubectl_in(&service.namespace, ["describe", "service", &service.name]);
        Remedy::ask(ClusterAdministrator, sentence).shown_by([describe])
    }

    /// Clients outside of the cluster have no address.
    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for LoadBalancerPending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = age::seconds(self.seconds);
        write!(f, "the load balancer has no address, {age} after the creation of the Service")?;
        self.message.iter().try_for_each(|message| write!(f, ": {}", message.trim_end_matches('.')))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_load_balancer_takes_some_minutes() {
        let pending = example("ep103-load-balancer-pending");
        assert!(pending.finds(Code::LoadBalancerPending));
        let young = json!({"metadata": {"creationTimestamp": "2026-01-01T00:08:00Z"}});
        let young = pending.clone().with("Service/web", young);
        assert!(young.finds(Code::LoadBalancerPending), "a warning says why");
        assert!(!young.without("Event/web-1").finds(Code::LoadBalancerPending));
        let by_name = json!({"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}});
        assert!(!pending.with("Service/web", by_name).finds(Code::LoadBalancerPending));
    }
}

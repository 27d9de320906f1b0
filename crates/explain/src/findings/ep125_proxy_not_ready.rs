//! Pods of kube-proxy are not ready.

use super::words::each;
use crate::findings::evidence::{OBJECTS, item};
use crate::findings::prelude::*;
use crate::models::cluster::NotReadyPods;

about! {
    /// A pod of kube-system with the label `k8s-app: kube-proxy` is not ready for a minute, and
    /// its node is. The rules of the node stay as they were, so its clients of any Service are
    /// sent to pods that may be gone, and to no new ones. Only `lint` of all namespaces, or of
    /// kube-system, and `doctor` look at these pods. The DNS servers have a Service, kube-dns,
    /// whose findings tell about their pods.
    EP125 "proxy-not-ready" Warning
    "Pods of kube-proxy are not ready."
}

/// Pods of kube-proxy that are not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProxyNotReady(pub NotReadyPods);

impl Finding for ProxyNotReady {
    fn evidence(&self, _: &Read<'_>) -> Vec<Evidence> {
        let namespace = self.0.object().namespace;
        let of = |name: &Text| {
            let pod = ObjectKey { namespace: namespace.clone(), name: name.clone() };
            Evidence::new(
                "Pod",
                &pod,
                item(".status.conditions", "type", "Ready", ".status"),
                &"False".into(),
            )
        };
        self.0.pods.iter().take(OBJECTS).map(of).collect()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let namespace = self.0.object().namespace;
        let show =
            each(&self.0.pods, |names| Step::kubectl_in(&namespace, [&["describe", "pod"], names].concat()));
        Remedy::ask(ClusterAdministrator, "Look at why kube-proxy is not ready there").shown_by(show)
    }
}

impl fmt::Display for ProxyNotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotReadyPods { pods, nodes, of, .. } = &self.0;
        let are = if pods.len() == 1 { "is" } else { "are" };
        let (count, on) = (pods.len(), names(nodes));
        write!(
            f,
            "{count} of {of} pods of kube-proxy {are} not ready ({on}), so clients there may be sent to pods that are gone"
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_proxy_that_starts_or_whose_node_is_not_ready_is_not_told() {
        let crashes = example("ep125-proxy-not-ready");
        assert!(crashes.finds(Code::ProxyNotReady));
        let ready = |status: &str, time: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": time}]}});
        for fine in [
            crashes.clone().with("Pod/kube-proxy-7xk2p", ready("True", "2026-01-01T00:00:05Z")),
            crashes.clone().with("Pod/kube-proxy-7xk2p", ready("False", "2026-01-01T00:09:30Z")),
            crashes.clone().with("Node/node-a", ready("False", "2026-01-01T00:00:05Z")),
            crashes.with("Pod/kube-proxy-7xk2p", json!({"metadata": {"namespace": "other"}})),
        ] {
            assert!(!fine.finds(Code::ProxyNotReady));
        }
    }
}

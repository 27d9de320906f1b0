//! The pod's node does not exist.

use kube_endpoint_core_model::LeftOut;
use serde_json::Value;

use crate::facts::pod_details::PodDetails;
use crate::facts::raw::PodOwner;
use crate::findings::pod_reason::{distinct, first_few};
use crate::findings::prelude::*;

about! {
    /// The pod names a node that the cluster does not have. A slice that listed the pod now could
    /// keep it forever if the pod then disappeared with the node, so the EndpointSlice controller
    /// waits for the node. Endpoints hold the pod nevertheless.
    ///
    /// The machine may still run the pod, so no step deletes it. The advice depends on the
    /// controller that owns the pod, and on whether the pod has ever started: if not, somebody
    /// wrote the node into the pod template. Nothing makes a pod without a controller again, and
    /// the successor that a StatefulSet starts may write to the same data. The pod garbage
    /// collector of kube-controller-manager deletes a pod about a minute after its node is gone.
    EP014 "node-not-found" Warning
    "The pod's node does not exist."
}

/// A pod whose node does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNotFound {
    /// The node that the pod names.
    pub node: Text,
    #[serde(skip)]
    pub owner: PodOwner,
    /// The workload in whose template somebody wrote the node, if no kubelet has ever seen the pod.
    #[serde(skip)]
    pub template_of: Option<String>,
}

impl PodFinding for NodeNotFound {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let node = match pod.left_out()? {
            LeftOut::NodeNotFound { node } if !node.is_empty() => node,
            // The pod can get no address there.
            LeftOut::NoAddress if pod.node.is_none() => pod.pod.node_name.as_ref()?,
            _ => return None,
        };
        // A scheduler says when it binds a pod, and a kubelet when it sees one.
        let never_started =
            |details: &PodDetails| !details.has_started && details.condition("PodScheduled").is_none();
        let workload = pod.workload.as_ref().filter(|_| pod.details.is_some_and(never_started));
        let template_of = workload.map(|(kind, name)| format!("{kind} {name}"));
        Some(Self { node: node.clone(), owner: pod.owner, template_of })
    }

    fn message(all: &[&Self]) -> String {
        match &*nodes(all) {
            [node] => format!("the pod's node {node:?} does not exist"),
            nodes => format!("their nodes do not exist: {}", first_few(nodes)),
        }
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.field(".spec.nodeName", &*self.node), Read::node(&self.node, ".metadata.name", Value::Null)]
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let owner = all.first().map(|one| one.owner).unwrap_or_default();
        if let Some(workload) = all.first().and_then(|one| one.template_of.as_ref()) {
            let sentence = format!(
                "Correct spec.nodeName in the template of {workload}, or remove it: a pod that takes the place of this one gets the same node"
            );
            return Remedy::ask(Person::PodOwner, sentence);
        }
        node_gone(owner, &nodes(all), pods.save())
    }

    fn group(&self) -> Option<String> {
        Some(format!("{:?} {:?}", self.owner, self.template_of))
    }
}

fn nodes<'a>(all: &[&'a NodeNotFound]) -> Vec<&'a Text> {
    distinct(all.iter().map(|one| &one.node))
}

/// Returns the remedy for pods whose nodes do not exist.
fn node_gone(owner: PodOwner, nodes: &[&Text], save: Step) -> Remedy {
    let (node, machines, run, restart) = match nodes.len() {
        1 => ("node", "the machine", "runs", "restart its kubelet, which registers the node"),
        _ => ("nodes", "the machines", "run", "restart their kubelets, which register the nodes"),
    };
    let otherwise = match owner {
        PodOwner::Nobody => {
            "Save the pod now, since nothing makes it again after the garbage collector of kube-controller-manager has deleted it, and create it anew only if the machine is surely off"
        }
        PodOwner::StatefulSet => {
            "delete the pod only if the machine is surely off, because its StatefulSet then starts its successor, and two writers destroy their data"
        }
        PodOwner::DaemonSet => {
            "if the machine is off for good, delete the pod, which its DaemonSet needs no more"
        }
        PodOwner::Node => {
            "if the machine is off for good, delete the pod, which only its kubelet makes again"
        }
        PodOwner::Other => {
            "if the machine is off for good, delete the pod, so that its controller starts another one elsewhere"
        }
    };
    let and = if owner == PodOwner::Nobody { ". " } else { "; " };
    let sentence = format!(
        "Find out if {machines} of {node} {} still {run}: if so, {restart} again{and}{otherwise}",
        first_few(nodes)
    );
    Remedy::ask(ClusterAdministrator, sentence).shown_by(Some(save).filter(|_| owner == PodOwner::Nobody))
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::ObjectKey;
    use kube_endpoint_testing::Cluster;

    use super::*;
    use crate::facts::objects::Objects;
    use crate::facts::options::Options;
    use crate::findings::testing::*;

    #[test]
    fn a_pod_may_name_a_node_that_the_cluster_does_not_have() {
        assert_eq!(code_of(json!({"spec": {"nodeName": "gone"}})), Code::NodeNotFound);
        assert_eq!(code_of(json!({"spec": {"nodeName": "a"}})), Code::Published);
    }

    #[test]
    fn a_node_that_never_existed_stands_in_the_template() {
        let of = |status: serde_json::Value| {
            let cluster = Cluster::new().node("a").service("web").pods("web", 1).select("Pod", "web-1");
            let owner = json!([{"kind": "ReplicaSet", "name": "web-7dfbff9db", "controller": true}]);
            let cluster = cluster.change(|pod| {
                pod["metadata"]["ownerReferences"] = owner.clone();
                pod["metadata"]["labels"]["pod-template-hash"] = "7dfbff9db".into();
                pod["spec"]["nodeName"] = "gone".into();
                pod["status"] = status.clone();
            });
            let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
            let (now, web) = ("2026-01-01T00:10:00Z".parse().unwrap(), ObjectKey::new("default", "web"));
            let said = explain(&objects, &web, &objects.topology(), now, None, &Options::default());
            said.unwrap().pods[0].remedy().unwrap().sentence
        };
        let written = of(json!({"phase": "Pending"}));
        assert!(written.starts_with("Correct spec.nodeName in the template of Deployment web"), "{written}");
        for seen in [
            json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}),
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}),
        ] {
            assert!(of(seen).starts_with("Find out if the machine"));
        }
    }

    /// A pod that nothing makes again is lost when it is deleted, and a StatefulSet may start a
    /// second writer.
    #[test]
    fn no_advice_ends_a_pod_without_a_look_at_what_makes_it_again() {
        let told = of_each_owner(|owner, pods| {
            NodeNotFound::remedy(&[&NodeNotFound { node: "a".into(), owner, template_of: None }], pods)
        });
        insta::assert_snapshot!(told);
    }
}

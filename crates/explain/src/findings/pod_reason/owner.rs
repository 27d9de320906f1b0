//! Advice that ends a pod: it depends on what makes the pod again.

use kube_endpoint_core_model::pod::PodOwner;

use crate::facts::remedy::Person::ClusterAdministrator;
use crate::facts::remedy::{Remedy, Step};

/// Returns the remedy for pods whose nodes do not exist. `nodes` is a list of the nodes, and `node`
/// says "node" or "nodes".
pub(in crate::findings) fn node_gone(owner: PodOwner, node: &str, nodes: &str, save: Step) -> Remedy {
    let (machines, run, restart) = match node {
        "node" => ("the machine", "runs", "restart its kubelet, which registers the node"),
        _ => ("the machines", "run", "restart their kubelets, which register the nodes"),
    };
    let otherwise = match owner {
        PodOwner::Nobody => {
            "nothing makes the pod again when it is deleted, as the garbage collector of kube-controller-manager does, so save it now, and create it anew only if the machine is surely off"
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
    let sentence =
        format!("Find out if {machines} of {node} {nodes} still {run}: if so, {restart} again; {otherwise}");
    Remedy::ask(ClusterAdministrator, sentence).shown_by(Some(save).filter(|_| owner == PodOwner::Nobody))
}

/// Says how to replace a pod, as the end of a sentence.
fn replace(owner: PodOwner) -> &'static str {
    match owner {
        PodOwner::Nobody => "save the pod, which nothing makes again, then delete it and create it anew",
        PodOwner::Node => "restart the container runtime",
        _ => "delete such pods one by one, which their controller makes again",
    }
}

/// Returns the remedy for a pod whose Ready condition is false although all of its containers are
/// ready. The kubelet of `node` should correct that.
pub(in crate::findings) fn stale(owner: PodOwner, node: &str, save: Step) -> Remedy {
    let sentence = format!(
        "Restart the kubelet (node {node}), which sets the condition anew; only if that does not help, {}",
        replace(owner)
    );
    Remedy::ask(ClusterAdministrator, sentence).shown_by(Some(save).filter(|_| owner == PodOwner::Nobody))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod that nothing makes again is lost when it is deleted, and a StatefulSet may start a
    /// second writer.
    #[test]
    fn no_advice_ends_a_pod_without_a_look_at_what_makes_it_again() {
        let save = || Step::kubectl_in("default", ["get", "pod", "web-1", "-o", "yaml"]);
        let all =
            [PodOwner::Nobody, PodOwner::StatefulSet, PodOwner::DaemonSet, PodOwner::Node, PodOwner::Other];
        let texts = all.map(|owner| {
            let remedies = [node_gone(owner, "node", "a", save()), stale(owner, "a", save())];
            for remedy in &remedies {
                assert!(!remedy.steps.iter().any(Step::changes), "{remedy:?}");
                let is_saved = remedy.commands().any(|command| command.ends_with("-o yaml"));
                assert_eq!(is_saved, owner == PodOwner::Nobody);
            }
            format!("{owner:?}\n  {}", remedies.map(|remedy| remedy.sentence).join("\n  "))
        });
        insta::assert_snapshot!(texts.join("\n"));
    }
}

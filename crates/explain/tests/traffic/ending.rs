//! Tests pods that are being deleted.

use serde_json::json;

use super::known::said;
use super::*;

/// kube-proxy sends traffic to endpoints that are terminating and serving if none is ready; DNS has
/// no such rule.
#[test]
fn pods_that_are_being_deleted_receive_traffic_if_no_other_does() {
    let cluster = || Cluster::new().node("a").service("web").pods("web", 2);
    let ending = |cluster: Cluster| cluster.select("Pod", "web-1").terminating();
    let both = |cluster: Cluster| ending(cluster).select("Pod", "web-2").terminating();
    let check = |cluster: Cluster, headline_wanted: &str, lint_wanted: &[&str]| {
        let cluster = settled(cluster);
        assert_eq!(
            (&*headline(&cluster, ""), &linted(&cluster, "")[..]),
            (headline_wanted, &lint_wanted.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..])
        );
    };
    check(ending(cluster()), "ok EP000 1 of 1 pods receive traffic; 1 more is being deleted", &[]);
    check(
        both(cluster()),
        "degraded EP013 2 of 2 pods receive traffic until they are deleted; 2 pods: the pod is being deleted and finishes its requests; its grace period ended 50m ago",
        &["warning EP013"],
    );
    check(
        both(cluster()).select("Pod", "web-1").not_ready(),
        "degraded EP013 1 of 2 pods receives traffic until it is deleted; 2 pods: the pods are being deleted, of which 1 still answers",
        &["warning EP013"],
    );
    check(
        both(cluster()).select("Pod", "web-1").not_ready().select("Pod", "web-2").not_ready(),
        "down EP013 0 of 2 pods receive traffic; 2 pods: the pod is being deleted; its grace period ended 50m ago",
        &["error EP013"],
    );
    check(
        both(cluster()).select("Service", "web").headless(),
        "down EP013 0 of 2 pods receive traffic; 2 pods: the pod is being deleted and finishes its requests; its grace period ended 50m ago",
        &["error EP013"],
    );
    check(
        cluster().select("Pod", "web-1").phase("Succeeded").select("Pod", "web-2").phase("Failed"),
        "down EP010 0 of 2 pods receive traffic; 2 pods: the pod has ended for good (phase Succeeded or Failed)",
        &["error EP010"],
    );
}

/// The program may have ended, and its kubelet reports that a second or two later.
#[test]
fn pods_that_start_do_not_hide_that_only_an_ending_one_receives_traffic() {
    let starts = |pod: &mut Value| {
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:59:59Z".into();
        pod["status"] = json!({"phase": "Pending"});
    };
    let rollout = |pods| {
        let cluster = Cluster::new().node("a").service("web").pods("web", pods);
        cluster.select("Pod", "web-1").terminating().select("Pod", "web-2").change(starts)
    };
    let said = |cluster: Cluster| {
        let cluster = settled(cluster);
        let headline = headline(&cluster, "");
        (headline.split(';').next().unwrap().to_owned(), linted(&cluster, ""))
    };
    let (last, lint) = said(rollout(2));
    assert_eq!(last, "degraded EP013 0 of 1 pods receive traffic, and 1 more until it is deleted");
    assert_eq!(lint, ["warning EP013"]);
    let (beside, lint) = said(rollout(3));
    assert_eq!(beside, "ok EP000 1 of 2 pods receive traffic");
    assert!(lint.is_empty(), "{lint:?}");
    assert!(said(rollout(2).select("Pod", "web-1").not_ready()).0.starts_with("starting EP101"));
}

/// The explanation of a pod agrees with that of its Service.
#[test]
fn a_pod_is_said_to_receive_what_its_service_sends() {
    let one = || Cluster::new().node("a").service("web").pods("web", 1);
    let ending = || one().select("Pod", "web-1").terminating();
    let said = |cluster: Cluster| said(&cluster, "", true);
    assert_eq!(said(settled(one())), "OK 0 EP000 Some(true)");
    assert_eq!(said(one()), "NO TRAFFIC 0 EP028 Some(false)");
    assert_eq!(said(settled(ending())), "OK 0 EP013 Some(true)");
    assert_eq!(said(settled(ending().not_ready())), "NO TRAFFIC 0 EP013 Some(false)");
}

/// Ending endpoints, and addresses that somebody lists as not ready, need no cause.
#[test]
fn a_rollout_is_not_called_degraded_if_pods_may_not_be_read() {
    let two = || Cluster::new().node("a").service("web").pods("web", 2);
    let ending = settled(two().select("Pod", "web-1").terminating());
    assert_eq!(codes(&ending, "pods"), "unknown EP001: EP001");
    assert_eq!(codes(&web(2, 1), "pods"), "degraded EP001: EP001");
}

/// kube-proxy knows the slice, and not yet that the pod is being deleted.
#[test]
fn the_last_pod_receives_traffic_until_its_slice_is_written() {
    let stale = || settled(Cluster::new().node("a").service("web").pods("web", 1));
    let message = "1 of 1 pods receives traffic until it is deleted; the slices are not up to date";
    let headline = headline(&stale().select("Pod", "web-1").terminating(), "");
    assert!(headline.starts_with(&format!("degraded EP050 {message}")), "{headline}");
    assert!(codes(&stale().select("Pod", "web-1").terminating().not_ready(), "").starts_with("down EP050"));
    let headless = settled(Cluster::new().node("a").service("web").headless().pods("web", 1));
    assert!(codes(&headless.select("Pod", "web-1").terminating(), "").starts_with("degraded EP050"));
}

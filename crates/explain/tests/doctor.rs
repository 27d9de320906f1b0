//! Tests what `doctor` says about clusters with one controller, with two, and with few permissions.

use kube_endpoint_core_model::Timestamp;
use kube_endpoint_explain::doctor::{
    Answer, Counts, FOR_MANAGER, FOR_PLUGIN, Facts, Instance, Lease, Outputs, Permission, Report, Review,
    Unread, examine, for_manager, webhooks_of,
};
use kube_endpoint_explain::leftovers::OutputKind;
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{Objects, Verb};
use serde_json::{Value, json};

const KCM: &str = "kube-controller-manager";
const KEM: &str = "kube-endpoint-manager";
const OFF: &str =
    "--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller";
const UUID: &str = "0e1d2c3b-4a59-4687-8796-a5b4c3d2e1f0";

const HOLDER: &str = "node-2_9f8e7d6c-5b4a-4392-8172-635445362718";

/// The time of the reading.
pub(crate) fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

/// Returns the time some seconds before the reading.
fn ago(seconds: i64) -> String {
    Timestamp::from_second(now().as_second() - seconds).unwrap().to_string()
}

fn slice(name: &str, writer: &str, seconds: i64) -> Value {
    json!({
        "namespace": "shop", "name": name,
        "labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
        "managedFields": [{"manager": writer, "time": ago(seconds), "fieldsV1": {"f:endpoints": {}, "f:ports": {}}}],
    })
}

fn endpoints(name: &str, writer: &str, seconds: i64) -> Value {
    json!({
        "namespace": "shop", "name": name,
        "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
        "managedFields": [{"manager": writer, "time": ago(seconds), "fieldsV1": {"f:subsets": {}}}],
    })
}

fn outputs(kind: OutputKind, objects: &[Value]) -> Outputs {
    let mut outputs = Outputs::new(kind);
    objects.iter().for_each(|object| outputs.add(object).unwrap());
    outputs
}

/// Returns a Lease of kube-system that was renewed some seconds ago, and acquired an hour ago.
fn lease(name: &str, holder: &str, renewed: i64) -> Lease {
    Lease::read(&json!({
        "metadata": {
            "namespace": "kube-system", "name": name,
            "managedFields": [{"manager": name, "time": ago(renewed)}, {"manager": "kubectl-edit", "time": ago(7200)}],
        },
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": ago(3600), "renewTime": ago(renewed)},
    }))
}

/// Returns a pod that started two hours ago.
fn pod(program: &str, node: &str, flags: &[&str]) -> Instance {
    let mut command = vec![program];
    command.extend(flags);
    Instance::read(&json!({
        "metadata": {"namespace": "kube-system", "name": format!("{program}-{node}")},
        "spec": {
            "nodeName": node, "serviceAccountName": program,
            "containers": [{"image": format!("registry.example/{program}:v1"), "command": command}],
        },
        "status": {"containerStatuses": [{"state": {"running": {"startedAt": ago(7200)}}}]},
    }))
}

fn allowed(permissions: &[Permission]) -> Vec<Review> {
    permissions.iter().map(|permission| Review { permission: *permission, is_allowed: true }).collect()
}

/// Returns a cluster in which kube-controller-manager writes, as kubeadm makes it.
fn upstream_only() -> Facts {
    Facts {
        server: Ok("v1.36.2".to_owned()),
        plugin: "0.1.0".to_owned(),
        slices: Ok(outputs(OutputKind::EndpointSlice, &[slice("web-a", KCM, 130), slice("db-b", KCM, 9000)])),
        endpoints: Ok(outputs(OutputKind::Endpoints, &[endpoints("web", KCM, 130)])),
        leases: Ok(vec![lease(KCM, &format!("node-1_{UUID}"), 2)]),
        leases_elsewhere: Ok(Vec::new()),
        upstream: Ok(vec![pod(KCM, "node-1", &["--controllers=*,bootstrapsigner,tokencleaner"])]),
        managers: Ok(Vec::new()),
        manager_reviews: None,
        own_reviews: Ok(allowed(FOR_PLUGIN)),
        webhooks: Ok(Vec::new()),
        conflicts: Ok(0),
        helpers: Ok(Objects::new()),
        changes: Ok(Counts { services: 2, ..Counts::default() }),
    }
}

/// Returns a cluster that has been taken over.
pub(crate) fn manager_only() -> Facts {
    Facts {
        slices: Ok(outputs(OutputKind::EndpointSlice, &[slice("web-a", KEM, 130), slice("db-b", KCM, 9000)])),
        endpoints: Ok(outputs(OutputKind::Endpoints, &[endpoints("web", KEM, 130)])),
        leases: Ok(vec![lease(KCM, &format!("node-1_{UUID}"), 2), lease(KEM, HOLDER, 2)]),
        upstream: Ok(vec![pod(KCM, "node-1", &[OFF])]),
        managers: Ok(vec![pod(KEM, "node-2", &[])]),
        manager_reviews: Some(Ok(allowed(FOR_MANAGER))),
        ..upstream_only()
    }
}

fn text(report: &Report) -> String {
    format!("{}exit code {}\n", report.text(Layout::NARROW, now()).render(Colors::Off), report.exit_code())
}

fn answers(report: &Report) -> Vec<Answer> {
    report.loops.iter().map(|of| of.is_off).collect()
}

#[test]
fn kube_controller_manager_alone() {
    let report = examine(&upstream_only(), now());
    assert_eq!((answers(&report), report.two_at_once.answer), (vec![Answer::No; 3], Answer::No));
    insta::assert_snapshot!(text(&report));
}

/// The loops of a controller that does not lead run nowhere, whatever its flags are.
#[test]
fn a_lease_that_nobody_renews_is_told_with_its_holder() {
    let leases = |renewed| Ok(vec![lease(KCM, &format!("node-1_{UUID}"), renewed)]);
    let old = Ok(outputs(OutputKind::EndpointSlice, &[slice("web-a", KCM, 4500)]));
    let dead = Facts {
        slices: old,
        endpoints: Ok(outputs(OutputKind::Endpoints, &[endpoints("web", KCM, 4500)])),
        leases: leases(4200),
        upstream: Ok(Vec::new()),
        ..upstream_only()
    };
    let report = examine(&dead, now());
    assert_eq!((report.exit_code(), report.not_known.is_empty()), (1, true), "{:?}", report.not_known);
    insta::assert_snapshot!(text(&report));
    let told = |facts: &Facts| examine(facts, now()).to_do.iter().any(|line| line.contains("nobody leads"));
    assert!(!told(&Facts { leases: leases(2), ..dead.clone() }), "somebody leads");
    let writes = Ok(outputs(OutputKind::EndpointSlice, &[slice("web-a", KCM, 60)]));
    assert!(!told(&Facts { slices: writes, ..dead.clone() }), "one writes without a Lease");
    let leases = Ok(vec![lease(KCM, HOLDER, 4200), lease(KEM, HOLDER, 2)]);
    assert!(!told(&Facts { leases, ..dead }), "kube-endpoint-manager leads");
}

#[test]
fn kube_endpoint_manager_alone() {
    let report = examine(&manager_only(), now());
    assert_eq!((answers(&report), report.two_at_once.answer), (vec![Answer::Yes; 3], Answer::No));
    insta::assert_snapshot!(text(&report));
}

#[test]
fn both_at_once() {
    let facts = Facts {
        upstream: Ok(vec![pod(KCM, "node-1", &["--controllers=*,-endpoints-controller"])]),
        conflicts: Ok(2),
        changes: Ok(Counts {
            services: 2,
            writes: [((OutputKind::EndpointSlice, Verb::Update), 3)].into(),
            ..Counts::default()
        }),
        ..manager_only()
    };
    let report = examine(&facts, now());
    assert_eq!(report.two_at_once.answer, Answer::Yes);
    insta::assert_snapshot!(text(&report));
}

#[test]
fn both_at_once_where_only_writes_tell() {
    // A managed control plane shows no pods.
    let newest = |seconds| {
        let facts = Facts {
            upstream: Ok(Vec::new()),
            endpoints: Ok(outputs(OutputKind::Endpoints, &[endpoints("web", KCM, seconds)])),
            ..manager_only()
        };
        examine(&facts, now())
    };
    let report = newest(30);
    assert_eq!(report.two_at_once.answer, Answer::Yes);
    assert_eq!(answers(&report), [Answer::No, Answer::NotKnown, Answer::NotKnown]);
    insta::assert_snapshot!(text(&report));
    // It was on an hour ago, after the take-over, or before it: neither tells about now.
    for seconds in [1200, 3590, 9000] {
        let report = newest(seconds);
        assert_eq!(report.two_at_once.answer, Answer::NotKnown, "{seconds}");
        assert_eq!(report.exit_code(), 2);
    }
}

#[test]
fn nobody_writes() {
    let reserved = Lease::read(&json!({
        "metadata": {"namespace": "kube-system", "name": KEM},
        "spec": {"holderIdentity": KCM, "leaseDurationSeconds": 604_800, "renewTime": "2026-01-01T00:00:00.000000Z"},
    }));
    let mut facts = manager_only();
    facts.leases = Ok(vec![lease(KCM, &format!("node-1_{UUID}"), 2), reserved]);
    facts.slices = Ok(outputs(OutputKind::EndpointSlice, &[slice("db-b", KCM, 9000)]));
    facts.endpoints = Ok(outputs(OutputKind::Endpoints, &[]));
    insta::assert_snapshot!(text(&examine(&facts, now())));
}

/// Returns a cluster in which the reader may read nothing.
pub(crate) fn forbidden() -> Facts {
    let forbidden = |permission: &str| Unread::Forbidden(permission.to_owned());
    Facts {
        server: Err(Unread::Failed("the server does not answer".to_owned())),
        plugin: "0.1.0".to_owned(),
        slices: Err(forbidden("list endpointslices.discovery.k8s.io")),
        endpoints: Err(forbidden("list endpoints")),
        leases: Err(forbidden("list leases.coordination.k8s.io in kube-system")),
        leases_elsewhere: Err(forbidden("list leases.coordination.k8s.io")),
        upstream: Err(forbidden("list pods in kube-system")),
        managers: Err(forbidden("list pods")),
        manager_reviews: None,
        own_reviews: Ok(vec![Review { permission: FOR_PLUGIN[0], is_allowed: false }]),
        webhooks: Err(forbidden("list validatingwebhookconfigurations.admissionregistration.k8s.io")),
        conflicts: Err(forbidden("list events")),
        helpers: Err(forbidden("list pods in kube-system")),
        changes: Err(forbidden("list services")),
    }
}

#[test]
fn without_permissions_each_line_names_one() {
    insta::assert_snapshot!(text(&examine(&forbidden(), now())));
}

#[test]
fn an_old_cluster_has_no_label_of_endpoints() {
    let mut old = endpoints("web", KCM, 30);
    old["labels"] = json!({});
    let facts = Facts {
        server: Ok("v1.29.4".to_owned()),
        endpoints: Ok(outputs(OutputKind::Endpoints, &[old])),
        upstream: Ok(Vec::new()),
        ..upstream_only()
    };
    let report = examine(&facts, now());
    assert_eq!(answers(&report), [Answer::No, Answer::No, Answer::NotKnown]);
    insta::assert_snapshot!(text(&report));
}

#[test]
fn slices_and_endpoints_of_others_say_nothing_about_the_loops() {
    let mut mesh = slice("mesh-1", "linkerd-destination", 5);
    mesh["labels"]["endpointslice.kubernetes.io/managed-by"] = "linkerd-destination".into();
    // It owns the label, as controllers do.
    mesh["managedFields"][0]["fieldsV1"]["f:metadata"] =
        json!({"f:labels": {"f:endpointslice.kubernetes.io/managed-by": {}}});
    let mut facts = upstream_only();
    facts.upstream = Ok(Vec::new());
    facts.slices = Ok(outputs(OutputKind::EndpointSlice, &[mesh]));
    facts.endpoints = Ok(outputs(OutputKind::Endpoints, &[endpoints("web", "kubectl-edit", 5)]));
    let report = examine(&facts, now());
    assert_eq!(answers(&report), [Answer::NotKnown; 3]);
    insta::assert_snapshot!(text(&report));
}

#[test]
fn a_distribution_in_one_process_writes_under_another_name() {
    let mut k3s = slice("web-a", "k3s", 30);
    k3s["managedFields"][0]["fieldsV1"]["f:metadata"] =
        json!({"f:annotations": {"f:endpoints.kubernetes.io/last-change-trigger-time": {}}});
    let facts = Facts {
        upstream: Ok(Vec::new()),
        slices: Ok(outputs(OutputKind::EndpointSlice, &[k3s])),
        ..manager_only()
    };
    let report = examine(&facts, now());
    assert_eq!(answers(&report)[1], Answer::No, "{:?}", report.loops[1]);
}

#[test]
fn flags_are_read_as_kube_controller_manager_reads_them() {
    let off = |flags: &[&str]| {
        let facts = Facts { upstream: Ok(vec![pod(KCM, "node-1", flags)]), ..manager_only() };
        answers(&examine(&facts, now())).into_iter().map(|it| it == Answer::Yes).collect::<Vec<_>>()
    };
    assert_eq!(off(&[OFF]), [true; 3]);
    assert_eq!(off(&[]), [false; 3]);
    assert_eq!(off(&["--controllers", "*,-endpoints-controller"]), [true, false, false]);
    assert_eq!(
        off(&["--controllers=*", "--controllers=-endpointslice"]),
        [false, true, false],
        "they add up"
    );
    assert_eq!(off(&["--controllers=tokencleaner,endpointslice-mirroring-controller"]), [true, true, false]);
    assert_eq!(off(&["--controllers=*,-endpointslice-controller,endpointslice-controller"]), [false; 3]);
    assert_eq!(off(&["--controllers-of-another-flag=-endpoints-controller"]), [false; 3]);
}

#[test]
fn flags_prove_nothing_about_a_leader_that_is_none_of_the_pods() {
    let check = |leases: Result<Vec<Lease>, Unread>, want: Answer| {
        let facts = Facts { leases, ..manager_only() };
        assert_eq!(answers(&examine(&facts, now())), [want; 3], "{:?}", facts.leases);
    };
    check(Ok(vec![lease(KCM, &format!("elsewhere_{UUID}"), 2)]), Answer::NotKnown);
    check(Err(Unread::Forbidden("list leases".to_owned())), Answer::NotKnown);
    check(Ok(vec![lease(KCM, &format!("elsewhere_{UUID}"), 600)]), Answer::Yes);
    check(Ok(Vec::new()), Answer::Yes);
    // A write that is newer than the pods is another program's.
    let facts = Facts {
        endpoints: Ok(outputs(OutputKind::Endpoints, &[endpoints("web", KCM, 60)])),
        ..manager_only()
    };
    assert_eq!(answers(&examine(&facts, now())), [Answer::No, Answer::Yes, Answer::Yes]);
}

#[test]
fn each_loop_may_have_its_own_controller() {
    let facts = Facts {
        upstream: Ok(vec![pod(KCM, "node-1", &["--controllers=*,-endpointslice-controller"])]),
        managers: Ok(vec![pod(KEM, "node-2", &["--controllers=endpointslice-controller"])]),
        ..manager_only()
    };
    let report = examine(&facts, now());
    assert_eq!(answers(&report), [Answer::No, Answer::Yes, Answer::No]);
    assert_eq!(report.two_at_once.answer, Answer::No, "{:?}", report.two_at_once);
}

/// Beside kube-controller-manager it serves EndpointSelectors, and writes nothing that the loops
/// write.
#[test]
fn a_manager_that_runs_none_of_the_loops_is_no_second_one() {
    let mut facts = upstream_only();
    facts.managers =
        Ok(vec![pod("kube-endpoint-manager", "node-a", &["--controllers=endpoint-selector-controller"])]);
    let mut leases = facts.leases.unwrap_or_default();
    leases.push(lease("kube-endpoint-manager", "node-a_1", 5));
    facts.leases = Ok(leases);
    let report = examine(&facts, now());
    assert_eq!(report.two_at_once.answer, Answer::No, "{:?}", report.two_at_once.evidence);
    assert!(report.to_do.is_empty(), "{:?}", report.to_do);
    let (_, needed) = for_manager(facts.managers.as_ref().unwrap()).unwrap();
    let needs = |resource: &str| needed.iter().any(|it| it.resource == resource);
    assert!(needs("endpointselectors") && needs("endpointslices") && !needs("endpoints"), "{needed:?}");
}

/// The add-on campaigns for a Lease of its own, and its pods say that it runs no loop.
fn addon() -> (Instance, Lease) {
    let mut pod = pod(
        "kube-endpoint-manager",
        "node-b",
        &[
            "--controllers=endpoint-selector-controller",
            "--leader-elect-resource-namespace=kube-endpoint-manager",
            "--leader-elect-resource-name=kube-endpoint-manager-addon",
        ],
    );
    pod.key = kube_endpoint_core_model::ObjectKey::new(KEM, "kube-endpoint-manager-x");
    let mut held = lease("kube-endpoint-manager-addon", "kube-endpoint-manager-x_1", 5);
    held.key.namespace = KEM.into();
    held.program = KEM.to_owned();
    (pod, held)
}

fn attached_slice(seconds: i64) -> Value {
    let mut slice = slice("leader-a", KEM, seconds);
    slice["labels"]["endpointslice.kubernetes.io/managed-by"] =
        "endpoint-selector.kube-endpoint-manager.github.io".into();
    slice
}

#[test]
fn the_add_on_beside_kube_controller_manager_is_no_second_writer() {
    let (pod, held) = addon();
    let slices = outputs(OutputKind::EndpointSlice, &[slice("web-a", KCM, 130), attached_slice(20)]);
    let facts = Facts {
        slices: Ok(slices),
        managers: Ok(vec![pod]),
        leases_elsewhere: Ok(vec![held.clone()]),
        manager_reviews: Some(Ok(Vec::new())),
        ..upstream_only()
    };
    let report = examine(&facts, now());
    assert_eq!((report.two_at_once.answer, report.exit_code()), (Answer::No, 0), "{report:#?}");
    insta::assert_snapshot!(text(&report));
    // A managed control plane shows no pods of kube-controller-manager, and nobody knows its flags.
    let managed = Facts { upstream: Ok(Vec::new()), leases: Ok(Vec::new()), ..facts.clone() };
    let report = examine(&managed, now());
    assert_eq!((report.two_at_once.answer, report.exit_code()), (Answer::No, 0), "{report:#?}");
    // The name of the Lease tells, too.
    let unseen = Facts { managers: Err(Unread::Forbidden("list pods".to_owned())), ..facts.clone() };
    assert_eq!(examine(&unseen, now()).two_at_once.answer, Answer::No);
    // A second add-on with another Lease writes the same slices.
    let mut second = held.clone();
    second.key.namespace = "other".into();
    let report = examine(&Facts { leases_elsewhere: Ok(vec![held, second]), ..facts }, now());
    assert_eq!((report.two_at_once.answer, report.exit_code()), (Answer::Yes, 1));
}

/// The add-on takes dead endpoints out of what kube-controller-manager left.
#[test]
fn the_add_on_edits_what_another_controller_made() {
    let (pod, held) = addon();
    let edited = |made_by: &str| {
        let mut object = endpoints("web", KEM, 2);
        let made = json!({"manager": made_by, "time": ago(9), "fieldsV1": {"f:metadata": {}}});
        object["managedFields"].as_array_mut().unwrap().push(made);
        Ok(outputs(OutputKind::Endpoints, &[object]))
    };
    let facts = Facts {
        endpoints: edited(KCM),
        managers: Ok(vec![pod]),
        leases_elsewhere: Ok(vec![held]),
        manager_reviews: Some(Ok(Vec::new())),
        ..upstream_only()
    };
    let check = |facts: Facts, want: Answer| {
        let report = examine(&facts, now());
        assert_eq!(report.two_at_once.answer, want, "{:?}", report.two_at_once.evidence);
    };
    check(facts.clone(), Answer::No);
    check(Facts { endpoints: edited("kubelite"), ..facts.clone() }, Answer::No);
    // The add-on makes no Endpoints, and one that is gone edits none.
    check(Facts { endpoints: edited(KEM), ..facts.clone() }, Answer::NotKnown);
    check(Facts { leases_elsewhere: Ok(Vec::new()), ..facts.clone() }, Answer::NotKnown);
    let mut ended = lease("kube-endpoint-manager-addon", "kube-endpoint-manager-x_1", 100);
    ended.key.namespace = KEM.into();
    check(Facts { leases_elsewhere: Ok(vec![ended]), ..facts }, Answer::NotKnown);
}

#[test]
fn the_add_on_beside_kube_endpoint_manager_is_no_second_writer() {
    let (pod, held) = addon();
    let mut facts = manager_only();
    facts.managers.as_mut().unwrap().push(pod);
    facts.leases_elsewhere = Ok(vec![held]);
    let report = examine(&facts, now());
    assert_eq!((report.two_at_once.answer, report.exit_code()), (Answer::No, 0), "{report:#?}");
    insta::assert_snapshot!(text(&report));
}

#[test]
fn leases_tell_who_leads() {
    let two = |others: Vec<Lease>| {
        let upstream = lease(KCM, &format!("node-1_{UUID}"), 2);
        let leases = Ok([upstream].into_iter().chain(others).collect());
        examine(&Facts { leases, ..manager_only() }, now()).two_at_once.answer
    };
    let ours = || lease(KEM, HOLDER, 2);
    // In a hand-over kube-controller-manager holds the other lease, too. The holder does not tell.
    assert_eq!(two(vec![Lease { program: KCM.to_owned(), ..ours() }]), Answer::No);
    assert_eq!(two(vec![Lease { program: String::new(), ..ours() }]), Answer::No, "an old Lease");
    let mut elsewhere = ours();
    elsewhere.key.namespace = "endpoints".into();
    assert_eq!(two(vec![ours(), elsewhere]), Answer::Yes);
    let named = |suffix: &str| {
        let mut lease = ours();
        lease.key.name = format!("{KEM}{suffix}").into();
        lease
    };
    assert_eq!(two(vec![ours(), named(".namespaces.a")]), Answer::Yes, "one works on all objects");
    assert_eq!(two(vec![named(".namespaces.a"), named(".namespaces.b")]), Answer::No);
    let mut other = ours();
    other.key.name = "kube-endpoint-manager-0-2".into();
    assert_eq!(two(vec![ours(), other]), Answer::No);
    // It wrote two minutes ago.
    assert_eq!(two(Vec::new()), Answer::NotKnown);
}

#[test]
fn two_managers_with_leases_in_two_namespaces() {
    let mut elsewhere = lease(KEM, "node-3_x", 2);
    elsewhere.key.namespace = "endpoints".into();
    let report = examine(&Facts { leases_elsewhere: Ok(vec![elsewhere]), ..manager_only() }, now());
    assert_eq!((report.two_at_once.answer, report.exit_code()), (Answer::Yes, 1));
    assert_eq!(
        report.to_do,
        ["Two kube-endpoint-managers write at once. Stop one of them, or give both the same Lease \
          (--leader-elect-resource-namespace and --leader-elect-resource-name)."]
    );
}

/// Returns what the API server of `kube-endpoint-manager --embedded` shows: no pod and no Lease.
fn embedded() -> Facts {
    let mut empty = slice("web-a", KEM, 8);
    empty["managedFields"][0]["fieldsV1"] =
        json!({"f:metadata": {"f:labels": {"f:endpointslice.kubernetes.io/managed-by": {}}}});
    Facts {
        server: Ok("v1.36.2+embedded".to_owned()),
        slices: Ok(outputs(OutputKind::EndpointSlice, &[empty])),
        endpoints: Ok(outputs(OutputKind::Endpoints, &[endpoints("web", KEM, 8)])),
        leases: Ok(Vec::new()),
        upstream: Ok(Vec::new()),
        managers: Ok(Vec::new()),
        manager_reviews: None,
        ..manager_only()
    }
}

#[test]
fn the_embedded_server_has_no_other_controller() {
    insta::assert_snapshot!(text(&examine(&embedded(), now())));
    let idle = Facts {
        slices: Ok(outputs(OutputKind::EndpointSlice, &[])),
        endpoints: Ok(outputs(OutputKind::Endpoints, &[])),
        ..embedded()
    };
    assert_eq!(examine(&idle, now()).exit_code(), 0);
}

#[test]
fn any_trace_of_another_controller_leaves_it_open() {
    let check = |facts: Facts, want: Answer, code: u8| {
        let report = examine(&facts, now());
        assert_eq!((report.two_at_once.answer, report.exit_code()), (want, code), "{:?}", report.two_at_once);
    };
    let real = || Facts { server: Ok("v1.36.2".to_owned()), ..embedded() };
    check(real(), Answer::No, 0);
    let old = [endpoints("web", KEM, 8), endpoints("db", KCM, 9000)];
    check(Facts { endpoints: Ok(outputs(OutputKind::Endpoints, &old)), ..real() }, Answer::NotKnown, 2);
    check(Facts { leases: Ok(vec![lease(KCM, "node-1_x", 9000)]), ..real() }, Answer::NotKnown, 2);
    let forbidden = Err(Unread::Forbidden("list pods in kube-system".to_owned()));
    check(Facts { upstream: forbidden, ..real() }, Answer::NotKnown, 2);
    let mut some = outputs(OutputKind::Endpoints, &[endpoints("web", KEM, 8)]);
    some.left = 1;
    check(Facts { endpoints: Ok(some), ..real() }, Answer::NotKnown, 2);
}

#[test]
fn the_needed_permissions_follow_from_the_flags() {
    let needed = |flags: &[&str]| for_manager(&[pod(KEM, "node-2", flags)]);
    let (user, permissions) = needed(&[]).unwrap();
    assert_eq!(user, "system:serviceaccount:kube-system:kube-endpoint-manager");
    assert_eq!(permissions, FOR_MANAGER);
    assert!(
        needed(&["--service-selector=a=b"]).unwrap().1.iter().all(|it| it.resource != "leases"),
        "another Lease"
    );
    assert_eq!(needed(&["--namespaces=shop"]), None, "Roles may permit it");
    assert_eq!(for_manager(&[Instance::default()]), None, "a static pod");
}

/// Returns a cluster whose manager may not delete, and where a webhook sees writes.
pub(crate) fn with_webhook() -> Facts {
    let mut reviews = allowed(FOR_MANAGER);
    reviews
        .iter_mut()
        .filter(|review| review.permission.verb == "delete")
        .for_each(|it| it.is_allowed = false);
    let rule =
        json!({"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "operations": ["*"]});
    let webhooks = json!({"metadata": {"name": "policy"}, "webhooks": [
        {"name": "slices.policy.example", "rules": [rule], "failurePolicy": "Ignore"},
        {"name": "pods.policy.example", "rules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["*"]}]},
    ]});
    Facts {
        manager_reviews: Some(Ok(reviews)),
        webhooks: Ok(webhooks_of(&webhooks, true)),
        changes: Ok(Counts { services: 50, of: Some(10_000), ..Counts::default() }),
        ..manager_only()
    }
}

#[test]
fn missing_permissions_and_webhooks_are_listed() {
    let report = examine(&with_webhook(), now());
    assert_eq!(report.exit_code(), 1);
    insta::assert_snapshot!(text(&report));
}

#[test]
fn the_report_as_json() {
    let mut facts = manager_only();
    facts.slices.as_mut().unwrap().left = 9000;
    insta::assert_snapshot!(serde_json::to_string_pretty(&examine(&facts, now())).unwrap());
}

#[test]
fn pods_of_kube_proxy_and_of_dns_servers_that_are_not_ready_are_to_do() {
    let pod = |name: &str, label: &str, status: &str| {
        json!({"kind": "Pod", "metadata": {"name": name, "namespace": "kube-system", "labels": {"k8s-app": label}},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2025-01-01T00:00:00Z"}]}})
    };
    let pods = [
        pod("kube-proxy-a", "kube-proxy", "False"),
        pod("kube-proxy-b", "kube-proxy", "True"),
        pod("coredns-a", "kube-dns", "False"),
    ];
    let report = examine(&Facts { helpers: Ok(Objects::read(pods).unwrap()), ..upstream_only() }, now());
    insta::assert_snapshot!(report.to_do.join("\n"));
    assert_eq!(report.exit_code(), 1);
}
